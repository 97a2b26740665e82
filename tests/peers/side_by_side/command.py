"""The command line."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import table
from .contestants import CONTESTANTS, Contestant, chosen, require
from .environments import Places, Unavailable, UsageError, find_python, find_wheel, prepare, size_bytes, version
from .measures import MEASURES
from .rounds import Entry, Plan, Run, empty_cells

ROOT = Path(__file__).resolve().parents[3]

ABOUT = """\
Measures Glovebox beside others that run Python or JavaScript, all in one run on this machine.

The first run installs each contestant, in the version that tests/peers/pins.toml names, in an environment of its own under target/peers;
that takes some minutes, and needs pip and npm and their index. Nothing outside of target/peers is written but the caches of pip and npm.
Glovebox is installed from the wheel that `bindings/python/build` makes."""


def epilogue() -> str:
    measures = "\n".join(f"  {each.name:<12} {each.what}" for each in MEASURES)
    contestants = "\n".join(f"  {each.name:<26} {each.about}" for each in CONTESTANTS)
    return f"""\
Measures, in milliseconds; `fresh`, `live`, `hibernate`, `resume` and `process` are those of `glovebox-bench`:
{measures}
  {table.DISK:<12} what was installed, and what the first call has written; Python and Node.js themselves are not counted
  {table.ONCE:<12} from starting a process, with all caches of its own empty, to the first answer

Contestants:
{contestants}

A round gives each contestant a turn at each measure, one after the other, so that whatever else the machine does falls upon all; the next
round begins with another one. Of a round the median counts, and the table has the median and the least of the rounds. Every answer
is compared with the right one: a wrong one, a time-out or an error stands in the table and makes the command fail. `no` means that a
contestant has no such thing. One that cannot be installed is left out, and a line says why.

Everybody runs with the limits and options that it has by default; Glovebox counts fuel. Its sessions take no checkpoints here, since no
other contestant can go back to before a script; `glovebox-bench` says what they add.

GLOVEBOX_CACHE_DIR is used for Glovebox's rounds where it is set, or a directory under target/peers. CPython 3.15 is measured where it is
prepared in it; `--only glovebox-python-3.15` prepares it, which takes minutes.

Examples:
  tests/peers/run                                      all, some six minutes
  tests/peers/run --quick --only monty,glovebox-python two of them, in seconds
  tests/peers/run --markdown >table.md                 the table for docs/performance.md
  tests/peers/run --check                              tests this command itself, without network"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "tests/peers/run", description=ABOUT, epilog=epilogue(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print all figures of all rounds, for a program")
    form.add_argument("--markdown", action="store_true", help="print the tables as they stand on docs/performance.md")
    form.add_argument("--check", action="store_true", help="test this command with contestants that are made up; measures nothing")
    parser.add_argument("--only", metavar="NAME,…", help="measure these contestants alone")
    parser.add_argument("--rounds", metavar="N", type=positive, help="how many rounds [default: 7, with --quick 2]")
    parser.add_argument("--quick", action="store_true", help="shorter turns, and no first call: a minute, and rougher figures")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=positive, default=60, help="how long a contestant's turn may take [default: 60]"
    )
    parser.add_argument(
        "--python", metavar="PROGRAM", help="the interpreter for the environments and the zero line [default: CPython 3.12, or a later one]"
    )
    parser.add_argument("--wheel", metavar="FILE", help="Glovebox's wheel [default: the newest under target/wheels]")
    return parser.parse_args()


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def version_of(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def entry_of(contestant: Contestant, places: Places, *, named: bool) -> Entry:
    """Installs a contestant."""
    environment = prepare(contestant.environment, places)
    contestant.command(environment, places)
    require(contestant, environment, places, named=named)
    versions = {package: found for package in contestant.versions if (found := version(environment, package))}
    if contestant.environment is None:
        program = places.python if contestant.language == "python" else places.node()
        versions = {contestant.name: version_of(program).removeprefix("Python ").removeprefix("v")}
    installed = 0 if contestant.environment is None else size_bytes(environment.directory)
    return Entry(contestant, environment, empty_cells(contestant, MEASURES), versions, installed_bytes=installed)


def main() -> int:
    options = arguments()
    if options.check:
        from .selftest import main as selftest

        return selftest()
    try:
        return measure(options)
    except UsageError as error:
        print(f"tests/peers/run: {error}", file=sys.stderr)
        return 2


def measure(options: argparse.Namespace) -> int:
    wanted = chosen(options.only)
    places = Places(ROOT / "target" / "peers", find_python(options.python), find_wheel(options.wheel, ROOT / "target"))
    entries: list[Entry] = []
    missing: dict[str, str] = {}
    for contestant in wanted:
        try:
            entries.append(entry_of(contestant, places, named=options.only is not None))
        except Unavailable as why:
            missing[contestant.name] = str(why)
    plan = Plan(
        rounds=options.rounds or (2 if options.quick else 7),
        budget_ms=100 if options.quick else 400,
        timeout_s=options.timeout,
        first=not options.quick,
    )
    machine: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "threads": os.cpu_count(),
        "load_before": os.getloadavg()[0],
    }
    Run(entries, places, plan).run()
    machine["load_after"] = os.getloadavg()[0]
    report = table.Report(entries, missing, MEASURES, machine, plan.rounds)
    form = table.as_json if options.json else table.as_markdown if options.markdown else table.as_text
    print(form(report))
    # The comparison is incomplete without other contestants, and empty without Glovebox.
    ours = [each for each in wanted if each.environment == "glovebox" and not each.optional and each.name in missing]
    return 1 if report.failures() or ours else 0
