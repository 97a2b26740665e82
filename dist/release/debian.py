"""The Debian package of the command. It is written without Debian's tools, so that its bytes do not depend on their
version."""

from __future__ import annotations

import datetime
import email.utils
import gzip
import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from . import archives, libraries
from .archives import Entry, file
from .places import NOTICES, ROOT, Release, ReleaseError

SOURCE = ROOT / "dist" / "debian"
LIB = "usr/lib/glovebox"
DOC = "usr/share/doc/glovebox"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's names of processors."""
NEEDS = {"libc.so.6": "libc6 (>= {glibc})", "libgcc_s.so.1": "libgcc-s1 | libgcc1"}
"""The packages with the shared libraries that may be needed directly. The C library's package contains all others."""
CONFIGURATION = "etc/glovebox/server.toml"
CONTROL = """\
Package: glovebox
Version: {version}
Architecture: {machine}
Maintainer: {maintainer}
Installed-Size: {installed_kib}
Depends: {depends}
Recommends: ca-certificates
Section: utils
Priority: optional
Description: sandbox for untrusted Python and JavaScript
 Glovebox runs untrusted scripts, such as code written by language models, in
 WebAssembly. Each script runs in a fresh interpreter, with limits on fuel,
 time, memory, output and files. Scripts reach no host files and no network
 unless a policy grants them.
 .
 The package contains CPython with numpy, pandas and other libraries, and
 QuickJS, with their machine code. Scripts need neither a compiler nor the
 network. The package also contains a server, which is not enabled by default.
"""
COPYRIGHT = """\
Glovebox is licensed under the Apache License 2.0. On Debian systems, the text
of this licence is in /usr/share/common-licenses/Apache-2.0.

The rest of this file lists the third-party code in the package with its
licences. Their texts are in THIRD-PARTY-NOTICES.txt.gz, in this directory.

"""
TEXTS = "\n" + "=" * 80
"""The beginning of the licence texts in the notices."""
CHANGELOG = """\
glovebox ({version}) unstable; urgency=medium

  * New release. changelog.gz lists the changes.

 -- {maintainer}  {date}
"""


def machine(release: Release) -> str:
    """Returns Debian's name of the processor."""
    name = release.triple.partition("-")[0]
    if name not in MACHINES:
        raise ReleaseError(f"Debian's name of the processor `{name}` is unknown; add it to dist/release/debian.py")
    return MACHINES[name]


def maintainer() -> str:
    """Returns the maintainer from DEBFULLNAME and DEBEMAIL, as for Debian's tools, or else the author of the commit."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    if name and address:
        found = f"{name} <{address}>"
    else:
        found = subprocess.check_output(["git", "log", "-1", "--format=%an <%ae>"], cwd=ROOT, text=True).strip()
    if "\n" in found:
        raise ReleaseError("the maintainer has more than one line; set DEBFULLNAME and DEBEMAIL to one line each")
    return found


def depends(needed: list[str], glibc: str) -> str:
    """Returns the packages of the libraries that the command needs."""
    return ", ".join(package.format(glibc=glibc) for name, package in NEEDS.items() if name in needed)


def unit() -> bytes:
    """Returns the service unit with the paths of the package, without the instructions for the archive."""
    text = (ROOT / "dist" / "service" / "glovebox.service").read_text()
    head, section, rest = text.partition("[Unit]\n")
    if not section or "/opt/glovebox/" not in rest:
        raise ReleaseError("glovebox.service has no section [Unit], or does not use /opt/glovebox; adapt dist/release/debian.py")
    return (section + rest.replace("/opt/glovebox/", f"/{LIB}/")).encode()


def packed(text: str | bytes, epoch: int) -> Entry:
    """Returns a compressed text."""
    data = text.encode() if isinstance(text, str) else text
    return file(gzip.compress(data, 9, mtime=epoch))


def contents(release: Release, program: Path, version: str, by: str) -> dict[str, Entry]:
    """Returns the files that the package installs."""
    date = datetime.datetime.fromtimestamp(release.epoch, datetime.UTC)
    manual = (SOURCE / "glovebox.1").read_text().replace("@DATE@", f"{date:%Y-%m-%d}").replace("@VERSION@", release.version)
    changelog = CHANGELOG.format(version=version, maintainer=by, date=email.utils.format_datetime(date))
    notices = release.notices.read_text()
    found = {
        "usr/bin/glovebox": file(SOURCE / "glovebox", 0o755),
        f"{LIB}/glovebox": file(program, 0o755),
        "usr/lib/systemd/system/glovebox.service": file(unit()),
        CONFIGURATION: file(ROOT / "dist" / "service" / "server.toml"),
        "usr/share/man/man1/glovebox.1.gz": packed(manual, release.epoch),
        f"{DOC}/README.Debian": file(SOURCE / "README.Debian"),
        # Debian's tools reject full texts of common licences in this file.
        f"{DOC}/copyright": file((COPYRIGHT + notices.partition(TEXTS)[0].rstrip() + "\n").encode()),
        f"{DOC}/{NOTICES}.gz": packed(notices, release.epoch),
        f"{DOC}/changelog.gz": packed((ROOT / "CHANGELOG.md").read_bytes(), release.epoch),
        f"{DOC}/changelog.Debian.gz": packed(changelog, release.epoch),
    }
    found |= {f"{LIB}/{each.name}": file(each) for each in sorted((release.bundles / "command").iterdir())}
    return found


def md5sums(files: Mapping[str, Entry]) -> str:
    """Returns the checksums with which dpkg recognises changed files. They protect against damage, not against attacks."""
    lines = []
    for name, entry in sorted(files.items()):
        if entry.contents is None:
            continue
        data = entry.contents if isinstance(entry.contents, bytes) else entry.contents.read_bytes()
        lines.append(f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name}\n")
    return "".join(lines)


def installed_kib(files: Mapping[str, Entry]) -> int:
    """Returns the size of the installed files in KiB, as `dpkg-gencontrol` estimates it: each entry is rounded up."""
    return sum(max(1, -(-each.size // 1024)) for each in files.values())


def package(release: Release, program: Path) -> Path:
    """Writes the package."""
    by, version = maintainer(), f"{release.version}-1"
    files = archives.with_parents(contents(release, program, version, by))
    control = CONTROL.format(
        version=version, machine=machine(release), maintainer=by, installed_kib=installed_kib(files),
        depends=depends(libraries.needed(program), libraries.glibc(program)),
    )  # fmt: skip
    scripts = {name: file(SOURCE / name, 0o755) for name in ("postinst", "prerm", "postrm")}
    texts = {"control": control, "md5sums": md5sums(files), "conffiles": f"/{CONFIGURATION}\n"}
    about = scripts | {name: file(text.encode()) for name, text in texts.items()}

    def member(name: str, entries: Mapping[str, Entry]) -> tuple[str, Path]:
        dotted = {f"./{each}": entry for each, entry in entries.items()} | {".": archives.directory()}
        return name, archives.write_tar_gz(release.work / name, dotted, release.epoch)

    members: list[tuple[str, Path | bytes]] = [("debian-binary", b"2.0\n"), member("control.tar.gz", about), member("data.tar.gz", files)]
    return archives.write_ar(release.out / f"glovebox_{version}_{machine(release)}.deb", members, release.epoch)
