"""Third-party programs and libraries, in pinned versions, in target/tools."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from .places import PINS, TARGET, ReleaseError


def pins() -> dict[str, Any]:
    """Reads dist/pins.toml."""
    return tomllib.loads(PINS.read_text())


def tool(name: str) -> Path:
    """Returns the directory of a tool. Installs the tool with pip, unless the pinned version is already installed."""
    directory = TARGET / "tools" / name
    wanted: list[str] = pins()["tools"][name]
    pin = directory / "pin"
    if not pin.is_file() or pin.read_text().split() != wanted:
        print(f"  installing {' '.join(wanted)}", flush=True)
        subprocess.run(["rm", "-rf", directory], check=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
        done = subprocess.run([*pip, "--target", directory, *wanted], capture_output=True, text=True)
        if done.returncode:
            raise ReleaseError(f"pip could not install {' '.join(wanted)}:\n{done.stderr.strip()}")
        pin.write_text("\n".join(wanted) + "\n")
    return directory


def load(name: str) -> None:
    """Makes a tool's modules importable."""
    path = str(tool(name))
    if path not in sys.path:
        sys.path.insert(0, path)
