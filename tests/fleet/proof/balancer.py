"""haproxy in front of nodes and servers, with the documented configuration for operators."""

from __future__ import annotations

import re
from pathlib import Path

from proof.network import Host
from proof.process import Process

DOCUMENTED = Path("docs/fleet/haproxy.cfg")
NODES = 9080
# Precedes the rest of the configuration, because frontends can only use loggers that are already defined. The log shows
# which node served each request, and therefore when a takeover happened.
LOGGING = "global\n  log stdout format raw local0 info\n"
SERVED = re.compile(r" nodes/(?P<host>[\w-]+) .*\"POST \S*/invoke/(?P<service>[^/]+)/")


class Balancer(Process):
    def __init__(self, host: Host, nodes: list[Host], servers: list[Host], directory: Path) -> None:
        config = DOCUMENTED.read_text()
        for kind, hosts in (("node", nodes), ("engine", servers)):
            for number, each in enumerate(hosts, 1):
                config = config.replace(f"{kind}-{number}.internal", each.address).replace(f"server {kind}-{number} ", f"server {each.name} ")
        if ".internal" in config:
            raise RuntimeError(f"`{DOCUMENTED}` names hosts that do not exist in the proof")
        file = directory / "haproxy.cfg"
        file.write_text(config)
        logging = directory / "haproxy-log.cfg"
        logging.write_text(LOGGING)
        self._served = directory / "haproxy.log"
        self._read_to = 0
        self._by_service: dict[str, str] = {}
        super().__init__("haproxy", host, ["haproxy", "-db", "-f", str(logging), "-f", str(file)], self._served)

    def places(self) -> dict[str, str]:
        """Returns the node that served each service last."""
        with self._served.open(errors="replace") as log:
            log.seek(self._read_to)
            for line in log:
                if served := SERVED.search(line):
                    self._by_service[served["service"]] = served["host"]
            self._read_to = log.tell()
        return dict(self._by_service)
