"""Three Restate servers in one cluster. The log, the metadata and the partitions are on at least two of them."""

from __future__ import annotations

from pathlib import Path

from proof.network import Host
from proof.objects import KEY
from proof.process import Process

INGRESS = 8080
ADMIN = 9070
FABRIC = 5122

# Short keep-alives detect a dead peer within 4 s instead of 60 s.
CONFIG = """\
cluster-name = "proof"
node-name = "{name}"
auto-provision = {provisions}
advertised-address = "http://{address}:{fabric}/"
default-num-partitions = 8
default-replication = 2
disable-telemetry = true
rocksdb-total-memory-size = "512 MiB"
# Number of gossip intervals of 100 ms without news from a server until the others exclude it. The default, 10, is too
# small for processes that share two processors.
gossip-failure-threshold = 20

[metadata-client]
type = "replicated"
addresses = [{peers}]
connect-timeout = "1s"
keep-alive-interval = "1s"
keep-alive-timeout = "1s"

[bifrost]
default-provider = "replicated"
auto-recovery-interval = "3s"

[worker.invoker]
http2-keep-alive-interval = "2s"
http2-keep-alive-timeout = "2s"
connect-timeout = "2s"

[worker.snapshots]
destination = "s3://snapshots"
aws-endpoint-url = "{objects}"
aws-region = "us-east-1"
aws-access-key-id = "{key}"
aws-secret-access-key = "{key}"
aws-allow-http = true
snapshot-interval-num-records = 1000

[admin]
bind-address = "0.0.0.0:{admin}"
disable-web-ui = true

[ingress]
bind-address = "0.0.0.0:{ingress}"
"""


def servers(program: Path, hosts: list[Host], objects: str, directory: Path, data: Path) -> list[Process]:
    """Creates a server on each host, with snapshots in the bucket `snapshots` of the store at the URL `objects`. The
    first server creates the cluster."""
    peers = ", ".join(f'"http://{host.address}:{FABRIC}/"' for host in hosts)
    processes = []
    for number, host in enumerate(hosts):
        config = directory / f"{host.name}.toml"
        config.write_text(
            CONFIG.format(
                name=host.name,
                address=host.address,
                provisions=str(number == 0).lower(),
                peers=peers,
                objects=objects,
                key=KEY,
                fabric=FABRIC,
                admin=ADMIN,
                ingress=INGRESS,
            )
        )
        command = [str(program), "--no-logo", "-c", str(config), "--base-dir", str(data / host.name), "--listen-mode", "tcp"]
        command += ["--bind-ip", host.address, "--bind-port", str(FABRIC)]
        environment = {"RESTATE_LOG_DISABLE_ANSI_CODES": "true"}
        processes.append(Process(host.name, host, command, directory / f"{host.name}.log", environment))
    return processes
