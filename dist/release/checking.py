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
Installs a release as a user would, in a clean environment: no network, Rust, compiler or checkout, and an empty home directory.
Verifies the checksums and the bill of materials, and runs every quick start of the documentation. Each quick start must print the expected
output.

The environment consists of Linux namespaces (`unshare`), which require root or a system that allows unprivileged user namespaces. Nothing
is installed outside a temporary directory. Each step prints a summary. A step that cannot run on this machine is skipped, with the reason."""
EPILOGUE = """\
Examples:
  dist/check                                    check the result of `dist/build`
  dist/check target/release-files/dev           check the result of `dist/build --dev`
  dist/check --with-uv                          install uv in target/tools first, for `uvx`

The exit code is 0 if no step failed, and 1 if a step failed or the check could not start."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dist/check", description=ABOUT, epilog=EPILOGUE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = TARGET / "release-files" / "release"
    parser.add_argument("directory", nargs="?", type=Path, default=default, metavar="DIR", help="the release to check [default: target/release-files/release]")
    parser.add_argument("--with-uv", action="store_true", help="first install the pinned uv with pip, which needs the network")
    return parser.parse_args()


def check() -> int:
    given = arguments()
    if not given.directory.is_dir():
        raise ReleaseError(f"the directory `{given.directory}` does not exist; run `dist/build`")
    tools.load("cyclonedx")
    tools.load("auditwheel")
    if given.with_uv:
        tools.tool("uv")
    counts = {"ok": 0, "skipped": 0, "FAILED": 0}
    with tempfile.TemporaryDirectory(prefix="glovebox-check-") as scratch:
        files = Path(scratch) / "files"
        shutil.copytree(given.directory, files)
        here = Check(release(None, False), files, make_room(Path(scratch)))
        for name, step in STEPS.items():
            started = time.monotonic()
            try:
                result, detail = "ok", step(here)
            except Skipped as reason:
                result, detail = "skipped", str(reason)
            except (Failed, subprocess.TimeoutExpired) as failure:
                result, detail = "FAILED", str(failure)
            counts[result] += 1
            print(f"{result:<8} {time.monotonic() - started:5.1f} s  {name}: {detail}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["FAILED"] else 0


def main() -> int:
    try:
        return check()
    except (ReleaseError, OSError, subprocess.CalledProcessError) as error:
        print(f"dist/check: {error}", file=sys.stderr)
        return 1
