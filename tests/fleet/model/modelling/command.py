"""The command line of `tests/fleet/model/run`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from .tables import filled as tables_of

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent.parent
PAGE = ROOT / "docs" / "fleet-model.md"
MADE = ROOT / "target" / "fleet-model"
MANIFEST = HERE / "simulator" / "Cargo.toml"

ABOUT = """\
Simulates the fleet in tests/fleet/model/inputs.toml, in two minutes on one processor. Writes figures.json, quick.json (the same figures
for a fiftieth of the fleet), the tables of docs/fleet-model.md, and the plots. Needs Rust, and pip to install matplotlib."""


def main() -> int:
    parser = argparse.ArgumentParser("tests/fleet/model/run", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="compute only quick.json, which takes seconds")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a number or a plot differs from the committed one")
    options = parser.parse_args()
    wrong = figures("quick.json", ["--quick"], check=options.check)
    if not options.quick:
        wrong += figures("figures.json", [], check=options.check)
    wrong += tables(check=options.check)
    if not options.quick or options.check:
        wrong += plots(check=options.check)
    for each in wrong:
        print(f"fleet-model: {each}", file=sys.stderr)
    return 1 if wrong else 0


def figures(name: str, flags: list[str], *, check: bool) -> list[str]:
    cargo = ["cargo", "run", "--quiet", "--locked", "--manifest-path", str(MANIFEST), "--target-dir", str(MADE / "build")]
    command = [*cargo, "--", "figures", *flags, str(HERE / "inputs.toml")]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    file = HERE / name
    if not check:
        file.write_text(text)
        return []
    return differences(name, json.loads(file.read_text()), json.loads(text))


def differences(where: str, committed: Any, simulated: Any) -> list[str]:
    """Returns the exact differences between two sets of figures."""
    if isinstance(committed, dict) and isinstance(simulated, dict):
        keys = sorted(committed.keys() | simulated.keys())
        return [each for key in keys for each in differences(f"{where}: {key}", committed.get(key), simulated.get(key))]
    if isinstance(committed, list) and isinstance(simulated, list) and len(committed) == len(simulated):
        pairs = enumerate(zip(committed, simulated, strict=True))
        return [each for number, (one, other) in pairs for each in differences(f"{where}[{number}]", one, other)]
    return [] if committed == simulated else [f"{where}: committed {committed}, simulated {simulated}"]


def tables(*, check: bool) -> list[str]:
    """Writes the figures into the page, or compares them with it."""
    page = PAGE.read_text()
    filled = tables_of(page, json.loads((HERE / "figures.json").read_text()))
    if not check:
        PAGE.write_text(filled)
        return []
    return [] if filled == page else [f"{PAGE.name} does not match figures.json: run `tests/fleet/model/run`"]


def plots(*, check: bool) -> list[str]:
    """Draws the plots in a virtual environment, or compares them with the committed ones. The files are reproducible."""
    directory = MADE / "plots" if check else HERE / "plots"
    directory.mkdir(parents=True, exist_ok=True)
    code = "import sys; from pathlib import Path; from modelling.plots import draw; draw(Path(sys.argv[1]), Path(sys.argv[2]))"
    environment = os.environ | {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": str(MADE)}
    subprocess.run([drawer(), "-c", code, str(HERE / "figures.json"), str(directory)], check=True, env=environment)
    if not check:
        return []
    drawn = {file.name: file.read_bytes() for file in directory.glob("*.svg")}
    committed = {file.name: file.read_bytes() for file in (HERE / "plots").glob("*.svg")}
    names = sorted(drawn.keys() | committed.keys())
    return [f"plots/{name} differs from the committed plot" for name in names if drawn.get(name) != committed.get(name)]


def drawer() -> str:
    pins = HERE / "pins.txt"
    python, stamp = MADE / "env" / "bin" / "python", MADE / "pins.txt"
    if not stamp.is_file() or stamp.read_text() != pins.read_text():
        venv.create(MADE / "env", clear=True, with_pip=True)
        options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps"]
        subprocess.run([str(python), "-m", "pip", "install", *options, "-r", str(pins)], check=True)
        stamp.write_text(pins.read_text())
    return str(python)
