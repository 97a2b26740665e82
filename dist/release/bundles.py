"""The interpreters in each product: a bundle of downloads, which replaces the network, and a prepared bundle with machine
code and booted images.

usage: python3 -m release.bundles COMMAND DIRECTORY PART…     writes the files of each part into DIRECTORY/PART, with the
`glovebox` at COMMAND
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PARTS: dict[str, tuple[str, ...]] = {
    # The package of each platform contains these files and the native module.
    "engine": ("interpreters.zip javascript typescript", "--compiled prepared.zip python-3.15 javascript typescript"),
    # A package for all platforms. The engine's package requires it, because prepared interpreters read the library in this
    # bundle.
    "python": ("interpreters.zip python-3.15 --no-packages",),
    # An optional package for each platform. `--without` reads the engine's file, which must exist.
    "data": ("--compiled prepared.zip python-3.15-data --without ../engine/prepared.zip",),
    # The archive of the command, the Debian package and the container image contain all interpreters. A script that mentions no
    # data library runs on `python-3.15`.
    "command": (
        "interpreters.zip python-3.15 javascript typescript",
        "--compiled prepared.zip python-3.15 python-3.15-data javascript typescript",
    ),
}
"""The arguments of `glovebox runtimes bundle` for each file of a part. Paths are relative to the part's directory."""


V3 = {"sse4_2", "popcnt", "cx16", "avx2", "fma", "bmi1", "bmi2", "abm"}
"""The features of x86-64-v3 that the engine checks (`host/engine/src/load/aot.rs`), under their names in /proc/cpuinfo."""


def missing_features(machine: str, cpuinfo: str) -> set[str]:
    """Returns the features that this processor does not have. If a feature is missing, the engine compiles only for this
    processor, and other machines ignore the prepared bundles."""
    flags = next((line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags")), [])
    return V3.difference(flags) if machine == "x86_64" else set()


def write(command: Path, directory: Path, parts: Iterable[str]) -> None:
    """Writes the files of these parts with the given command."""
    for part in parts:
        into = directory / part
        into.mkdir(parents=True, exist_ok=True)
        for arguments in PARTS[part]:
            subprocess.run([command.resolve(), "runtimes", "bundle", *arguments.split()], cwd=into, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
