"""The locations of files, and the name of a release."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target"
PINS = ROOT / "dist" / "pins.toml"
NOTICES = "THIRD-PARTY-NOTICES.txt"
SUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """The release cannot be built or checked. The message suggests a remedy."""


@dataclass(frozen=True)
class Release:
    """A release that is being built, and its locations."""

    version: str
    out: Path
    work: Path
    is_dev: bool
    epoch: int
    """The modification time of all files in the archives, in seconds since 1970."""

    @property
    def sbom(self) -> Path:
        return self.out / f"glovebox-{self.version}.cdx.json"

    @property
    def changes(self) -> Path:
        return self.out / f"glovebox-{self.version}-changes.md"

    @property
    def crates(self) -> Path:
        return self.out / f"glovebox-{self.version}-crates.txt"

    @property
    def statement(self) -> Path:
        return self.out / f"glovebox-{self.version}.provenance.json"

    @property
    def notices(self) -> Path:
        return self.work / NOTICES

    @property
    def bundles(self) -> Path:
        """The directory of the interpreters, with a directory for each part of `bundles.PARTS`."""
        return self.work / "bundles"

    @property
    def triple(self) -> str:
        return f"{platform.machine()}-unknown-linux-gnu"

    @property
    def built(self) -> Path:
        """The directory of the compiled command and modules."""
        return TARGET / "debug" if self.is_dev else TARGET / self.triple / "release"


def release(out: Path | None, is_dev: bool) -> Release:
    """Returns the release of the current commit."""
    if sys.platform != "linux":
        raise ReleaseError("releases can only be built on Linux; `bindings/python/build --dev` builds a wheel for this machine")
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    directory = (out or TARGET / "release-files" / ("dev" if is_dev else "release")).resolve()
    work = TARGET / "release-work" / ("dev" if is_dev else "release")
    return Release(manifest["workspace"]["package"]["version"], directory, work, is_dev, epoch())


def epoch() -> int:
    """Returns the value of SOURCE_DATE_EPOCH, or else the time of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        given = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True).strip()
    if not given.isdigit():
        raise ReleaseError(f"SOURCE_DATE_EPOCH is `{given}`; set it to a number of seconds since 1970")
    return int(given)
