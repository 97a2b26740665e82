"""The shared libraries that the command needs from the system, for the container image."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import tools
from .inventory import Part
from .places import ReleaseError

LICENCES = {"libc6": "LGPL-2.1-or-later", "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1"}
"""The licences of the Debian packages with the libraries."""
TEXTS = tuple(Path("/usr/share/common-licenses") / name for name in ("GPL-2", "GPL-3", "LGPL-2.1"))
"""The licence texts to which the packages' copyright files refer."""
MIN_GLIBC = (2, 34)
"""The first version of glibc that resolves host names without loading further libraries."""


@dataclass(frozen=True)
class Library:
    """A shared library or the dynamic loader."""

    path: str
    """The path at which the loader or the kernel looks for the file."""
    package: str
    version: str
    source: str
    """The source package with its version."""

    @property
    def copyright(self) -> Path:
        return Path("/usr/share/doc") / self.package / "copyright"


def dynamic_names(program: Path) -> tuple[list[str], list[str]]:
    """Returns the names of the libraries that a program needs directly, and the versions of their symbols."""
    tools.load("auditwheel")
    from elftools.elf.elffile import ELFFile

    with program.open("rb") as file:
        elf = ELFFile(file)
        dynamic, versions = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".gnu.version_r")
        needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] if dynamic else []
        names = [each.name for _, several in versions.iter_versions() for each in several] if versions else []
    return needed, names


def needed(program: Path) -> list[str]:
    """Returns the names of the libraries that a program needs directly."""
    return dynamic_names(program)[0]


def glibc(program: Path) -> str:
    """Returns the minimum version of the C library that a program requires."""
    numbers = [name.removeprefix("GLIBC_").split(".") for name in dynamic_names(program)[1] if name.startswith("GLIBC_")]
    return ".".join(max(numbers, key=lambda number: [int(each) for each in number], default=["2", "0"]))


def parse_ldd(printed: str) -> list[str]:
    """Returns the paths in the output of `ldd`. Fails if a library is missing."""
    found = []
    for line in printed.splitlines():
        name, _, path = line.strip().partition(" => ")
        path = re.sub(r" \(0x[0-9a-f]+\)$", "", path or name)
        if path == "not found":
            raise ReleaseError(f"this machine does not have the library `{name}`, which the command needs; install it")
        if path.startswith("/"):
            found.append(path)
    return sorted(found)


def machine_glibc() -> tuple[int, ...]:
    """Returns the version of this machine's glibc, or an empty tuple."""
    return tuple(int(each) for each in re.findall(r"\d+", os.confstr("CS_GNU_LIBC_VERSION") or "")[:2])


def dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def libraries(program: Path) -> list[Library]:
    """Returns the libraries of a program on this machine, with the Debian packages that contain them."""
    if not shutil.which("dpkg-query"):
        raise ReleaseError("the container image contains Debian's C library; build it on Debian, or choose other products with --only")
    if (version := machine_glibc()) < MIN_GLIBC:
        raise ReleaseError(f"the container image needs glibc {dotted(MIN_GLIBC)} or later; this machine has {dotted(version) or 'none'}")
    printed = subprocess.check_output(["ldd", program], text=True)
    return [library(path) for path in parse_ldd(printed)]


def library(path: str) -> Library:
    """Returns a library with its package. Fails if no Debian package contains the file."""
    # Packages that are older than the merge of /lib and /usr/lib own the path through the link.
    real = os.path.realpath(path)
    for each in dict.fromkeys((path, real, real.removeprefix("/usr"))):
        done = subprocess.run(["dpkg-query", "--search", each], capture_output=True, text=True)
        if done.returncode == 0:
            package = done.stdout.split(":", 1)[0]
            query = ["dpkg-query", "--show", "--showformat", "${Version} ${source:Package}=${source:Version}\n", package]
            version, source = subprocess.check_output(query, text=True).splitlines()[0].split()
            return Library(path, package, version, source)
    raise ReleaseError(f"no Debian package contains the library `{path}`; reinstall it with apt-get")


def status(package: str) -> bytes:
    """Returns the entry of a package in dpkg's database, by which scanners recognise its version."""
    return subprocess.check_output(["dpkg-query", "--status", package])


def certificates() -> tuple[Path, Path]:
    """Returns the file of Mozilla's certificate authorities, and its licence. This machine's own file may contain private
    authorities."""
    directory = tools.tool("certifi")
    return directory / "certifi" / "cacert.pem", next(directory.glob("certifi-*.dist-info/**/LICENSE"))


def parts(found: list[Library]) -> list[Part]:
    """Returns the parts of the container image that are not in the other products."""
    made = {}
    distribution = platform.freedesktop_os_release()["ID"]
    for each in found:
        if each.package not in LICENCES:
            raise ReleaseError(f"the licence of the Debian package `{each.package}` is unknown; add it to dist/release/libraries.py")
        purl = f"pkg:deb/{distribution}/{each.package}@{each.version}"
        origin = f"in the container image; source package {each.source}"
        made[purl] = Part("system", each.package, each.version, LICENCES[each.package], purl, origin=origin)
    (pin,) = tools.pins()["tools"]["certifi"]
    name, _, version = pin.partition("==")
    purl = f"pkg:pypi/{name}@{version}"
    made[purl] = Part("system", name, version, "MPL-2.0", purl, origin="certificate authorities in the container image")
    return list(made.values())
