"""The command line of `dist/check`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import tools
from .places import TARGET, ReleaseError, release
from .room import Failed, make_room
from .steps import STEPS, Check, Skipped

ABOUT = """\
Installs what `dist/build` made as users do, in a clean environment: without network, Rust, compiler and checkout, with an empty home. It
checks the checksums and the bill of materials, and runs every quick start of the pages, which must print what they are to print.

The environment is made of namespaces of Linux (`unshare`), which needs root, or a Linux where users may make them. Nothing is installed
outside of a temporary directory. Each step says what it did; one that cannot be done here is left out and says why."""
EPILOGUE = """\
Examples:
  dist/check                                    what `dist/build` made
  dist/check target/release-files/dev           what `dist/build --dev` made
  dist/check --with-uv                          install uv in target/tools first, for `uvx`

Exit code 0: no step failed; 1: one did, or there was nothing to check."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dist/check", description=ABOUT, epilog=EPILOGUE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = TARGET / "release-files" / "release"
    parser.add_argument("directory", nargs="?", type=Path, default=default, metavar="DIR", help="[default: target/release-files/release]")
    parser.add_argument("--with-uv", action="store_true", help="install uv, pinned, with pip before the network is gone")
    return parser.parse_args()


def check() -> int:
    given = arguments()
    if not given.directory.is_dir():
        raise ReleaseError(f"there is no directory {given.directory}; `dist/build` makes it")
    tools.load("cyclonedx")
    tools.load("auditwheel")
    if given.with_uv:
        tools.tool("uv")
    counts = {"ok": 0, "left out": 0, "FAILED": 0}
    with tempfile.TemporaryDirectory(prefix="glovebox-check-") as scratch:
        files = Path(scratch) / "files"
        shutil.copytree(given.directory, files)
        here = Check(release(None, False), files, make_room(Path(scratch)))
        for name, step in STEPS.items():
            started = time.monotonic()
            try:
                result, said = "ok", step(here)
            except Skipped as reason:
                result, said = "left out", str(reason)
            except (Failed, subprocess.TimeoutExpired) as failure:
                result, said = "FAILED", str(failure)
            counts[result] += 1
            print(f"{result:<8} {time.monotonic() - started:5.1f} s  {name}: {said}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["FAILED"] else 0


def main() -> int:
    try:
        return check()
    except (ReleaseError, OSError, subprocess.CalledProcessError) as error:
        print(f"dist/check: {error}", file=sys.stderr)
        return 1
