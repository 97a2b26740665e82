"""The machines of the fleet: one network namespace each, on one bridge, so that a partition is real.

All namespaces are within the namespace of `tests/fleet/run`, which has no other network. The clients, the tool server
and the throttle of the object store run directly in that namespace, each with its own address.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

# The prefix of TEST-NET-1, which is not routed.
NETWORK = "192.0.2."
BRIDGE = "fleet"
DROPPED = re.compile(r"counter packets (\d+)")


def sh(*command: str, text: str | None = None) -> str:
    """Runs a system command and returns its output. Raises `RuntimeError` with the error output if it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}`: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass
class Host:
    """A machine. `enter` starts programs on it."""

    name: str
    address: str
    own_namespace: bool = True

    def enter(self) -> list[str]:
        """Returns the command prefix that runs a program on this machine."""
        return ["ip", "netns", "exec", self.name] if self.own_namespace else []

    def cut(self, peers: list[Host], *, incoming: bool = True, outgoing: bool = True) -> None:
        """Silently drops all packets from and to these hosts, until `heal`."""
        addresses = ", ".join(peer.address for peer in peers)
        rules = ["table inet proof {}", "delete table inet proof", "table inet proof {"]
        if incoming:
            rules.append(f"chain incoming {{ type filter hook input priority 0; ip saddr {{ {addresses} }} counter drop; }}")
        if outgoing:
            rules.append(f"chain outgoing {{ type filter hook output priority 0; ip daddr {{ {addresses} }} counter drop; }}")
        sh(*self.enter(), "nft", "-f", "-", text="\n".join([*rules, "}"]))

    def heal(self) -> int:
        """Undoes `cut`, and returns the number of packets dropped since then."""
        rules = sh(*self.enter(), "nft", "list", "table", "inet", "proof")
        sh(*self.enter(), "nft", "delete", "table", "inet", "proof")
        return sum(int(packets) for packets in DROPPED.findall(rules))


class Network:
    """A bridge with its hosts."""

    def __init__(self) -> None:
        sh("mkdir", "-p", "/run/netns")
        # Each named network namespace is a file here. This mount hides the machine's own namespaces.
        sh("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", BRIDGE, "type", "bridge")
        sh("ip", "link", "set", BRIDGE, "up")

    def here(self, name: str, number: int) -> Host:
        """Adds an address in this process's own namespace."""
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
