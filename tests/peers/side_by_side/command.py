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
Compares the performance of Glovebox with other sandboxes for Python or JavaScript, in one run on this machine.

The first run installs each contestant in a separate environment under target/peers, in the version pinned in tests/peers/pins.toml.
This takes some minutes, and needs pip, npm and their package indexes. Outside of target/peers, only the caches of pip and npm are
written. Glovebox is installed from the wheel that `bindings/python/build` builds."""


def epilogue() -> str:
    measures = "\n".join(f"  {each.name:<12} {each.what}" for each in MEASURES)
    contestants = "\n".join(f"  {each.name:<26} {each.about}" for each in CONTESTANTS)
    return f"""\
Measures, in milliseconds (`fresh`, `live`, `hibernate`, `resume` and `process` are the same as in `glovebox-bench`):
{measures}
  bytes(N)     size of the script that `suspend(N)` has suspended
  {table.DISK:<12} size of the installation, and of the files that the first call writes; excludes Python and Node.js
  {table.ONCE:<12} time from the start of a process with empty caches to the first answer

Contestants:
{contestants}

In each round, all contestants take turns at each measure, so that other load on the machine affects all of them. Each round begins with
a different contestant. The result of a round is the median of its turn. The table shows the median and the minimum of the rounds. Every
answer is checked: wrong answers, timeouts and errors are shown in the table and make the command fail. `no` means that a contestant does
not support a measure. Contestants that cannot be installed are omitted, with the reason.

All contestants run with their default limits and options; Glovebox counts fuel. Glovebox's sessions take no checkpoints, because no other
contestant can undo a script. `glovebox-bench` measures the cost of checkpoints. Glovebox runs the scripts of
`suspend` with `tool_calls=1000`, because they make up to 102 calls; the default is 100.

Scripts are suspended and resumed in the same process. Glovebox and eryx resume a script by running it again with a record of the earlier
answers. Monty saves the state of its interpreter.

Glovebox's cache is GLOVEBOX_CACHE_DIR, or by default a directory under target/peers. CPython 3.15 is measured if the cache contains its
prepared image. `--only glovebox-python-3.15` prepares it, which takes minutes.

Examples:
  tests/peers/run                                      all contestants, about eight minutes
  tests/peers/run --quick --only monty,glovebox-python two contestants, a few seconds
  tests/peers/run --only monty,eryx,glovebox-python    contestants that suspend scripts
  tests/peers/run --markdown >table.md                 the table for docs/comparison.md
  tests/peers/run --check                              tests this command itself, without a network"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "tests/peers/run", description=ABOUT, epilog=epilogue(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print all figures of all rounds as JSON")
    form.add_argument("--markdown", action="store_true", help="print the tables in the format of docs/comparison.md")
    form.add_argument("--check", action="store_true", help="test this command with fake contestants, without measuring")
    parser.add_argument("--only", metavar="NAME,…", help="measure only these contestants")
    parser.add_argument("--rounds", metavar="N", type=positive, help="number of rounds [default: 7, or 2 with --quick]")
    parser.add_argument("--quick", action="store_true", help="run shorter turns and skip the first call; takes a minute, less precise")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=positive, default=60, help="timeout of a contestant's turn [default: 60]"
    )
    parser.add_argument(
        "--python", metavar="PROGRAM", help="the interpreter for the environments and the baseline [default: CPython 3.12 or later]"
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
