"""The machines of the fleet: a network namespace each, on one bridge, so that a partition is one.

Everything lives in the namespace that `tests/fleet/run` itself runs in, which knows no other network: its own address is that of the
clients, the tool server and the object store.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

# A network of TEST-NET-1, which is not routed.
NETWORK = "192.0.2."
BRIDGE = "fleet"
DROPPED = re.compile(r"counter packets (\d+)")


def sh(*command: str, text: str | None = None) -> str:
    """Runs a command of the system and returns its output; its error output is the message where it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}`: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass
class Host:
    """A machine: what runs there is started by `enter`."""

    name: str
    address: str
    own_namespace: bool = True

    def enter(self) -> list[str]:
        """What goes before a command that is to run there."""
        return ["ip", "netns", "exec", self.name] if self.own_namespace else []

    def cut(self, peers: list[Host], *, incoming: bool = True, outgoing: bool = True) -> None:
        """Drops what comes from and goes to these hosts, without a word to either side, until `heal`."""
        addresses = ", ".join(peer.address for peer in peers)
        rules = ["table inet proof {}", "delete table inet proof", "table inet proof {"]
        if incoming:
            rules.append(f"chain incoming {{ type filter hook input priority 0; ip saddr {{ {addresses} }} counter drop; }}")
        if outgoing:
            rules.append(f"chain outgoing {{ type filter hook output priority 0; ip daddr {{ {addresses} }} counter drop; }}")
        sh(*self.enter(), "nft", "-f", "-", text="\n".join([*rules, "}"]))

    def heal(self) -> int:
        """How many packets were dropped since `cut`."""
        rules = sh(*self.enter(), "nft", "list", "table", "inet", "proof")
        sh(*self.enter(), "nft", "delete", "table", "inet", "proof")
        return sum(int(packets) for packets in DROPPED.findall(rules))


class Network:
    """A bridge and the hosts on it."""

    def __init__(self) -> None:
        sh("mkdir", "-p", "/run/netns")
        # Names of network namespaces are files. This mount hides those of the machine.
        sh("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", BRIDGE, "type", "bridge")
        sh("ip", "link", "set", BRIDGE, "up")

    def here(self, name: str, number: int) -> Host:
        """An address of this process's own."""
        host = Host(name, f"{NETWORK}{number}", own_namespace=False)
        sh("ip", "address", "add", f"{host.address}/24", "dev", BRIDGE)
        return host

    def host(self, name: str, number: int) -> Host:
        host = Host(name, f"{NETWORK}{number}")
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", f"v-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "link", "set", f"v-{name}", "master", BRIDGE, "up")
        inside = ("ip", "-n", name)
        sh(*inside, "link", "set", "lo", "up")
        sh(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
        sh(*inside, "link", "set", "eth0", "up")
        return host
