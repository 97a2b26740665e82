"""The object store: SeaweedFS on a separate host. Nodes reach it through a throttle; the servers store their
snapshots there directly."""

from __future__ import annotations

from pathlib import Path

from proof.network import Host
from proof.process import Process

PORT = 8333
# SeaweedFS accepts any key if no identities are configured.
KEY = "proof"


def store(program: Path, host: Host, directory: Path, data: Path) -> Process:
    objects = data / "objects"
    objects.mkdir()
    command = [str(program), "server", f"-ip={host.address}", "-filer", "-s3", f"-s3.port={PORT}", f"-dir={objects}"]
    command += ["-volume.max=20", "-master.volumeSizeLimitMB=256"]
    return Process(host.name, host, command, directory / f"{host.name}.log")
