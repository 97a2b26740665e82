"""The environments of contestants: a directory under target/peers/env for each section of pins.toml."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).resolve().parent.parent / "pins.toml"
# The oldest Python version that the pinned IPython supports.
OLDEST = (3, 11)
INSTALL_SECONDS = 900


class UsageError(Exception):
    """The command line requests something impossible. The message is the reason."""


class Unavailable(Exception):
    """A contestant is unavailable. The message is the reason."""


def say(line: str) -> None:
    print(f"peers: {line}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Places:
    root: Path
    """target/peers"""
    python: str
    """The interpreter for the environments, which is also the baseline."""
    wheel: Path | None
    """The wheel of Glovebox."""

    @functools.cache
    def node(self) -> str:
        program = shutil.which("node")
        if program is None:
            raise Unavailable("requires Node.js, but `node` is not in PATH")
        return program


@dataclass(frozen=True)
class Environment:
    directory: Path

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    @property
    def node(self) -> Path:
        """The directory with `node_modules`."""
        return self.directory / "node"


def resolved(program: str) -> tuple[str, tuple[int, int]] | None:
    """Returns the actual interpreter behind a launcher, and its version."""
    code = "import sys; print(sys.executable); print(*sys.version_info[:2])"
    try:
        output = subprocess.run([program, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
        executable, numbers = output.splitlines()
        major, minor = numbers.split()
        return executable, (int(major), int(minor))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def find_python(named: str | None) -> str:
    """Finds the named interpreter, or the first that fits: CPython 3.12, as in Glovebox, then later versions, then
    `python3`."""
    if named is not None:
        found = resolved(named)
        if found is None or found[1] < OLDEST:
            raise UsageError(f"`{named}` is not Python {OLDEST[0]}.{OLDEST[1]} or later")
        return found[0]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    numbers = (12, 13, 14)
    installed = [str(path) for number in numbers for path in sorted(pyenv.glob(f"3.{number}.*/bin/python3"))]
    for program in [*(f"python3.{number}" for number in numbers), *installed, "python3", sys.executable]:
        found = resolved(program)
        if found is not None and found[1] >= OLDEST:
            return found[0]
    raise UsageError(f"Python {OLDEST[0]}.{OLDEST[1]} or later was not found; name an interpreter with --python")


def find_wheel(named: str | None, target: Path) -> Path | None:
    """Finds Glovebox's wheel: the named file, or the newest local build."""
    if named is not None:
        path = Path(named).resolve()
        if not path.is_file():
            raise UsageError(f"the wheel `{named}` does not exist; build one with `bindings/python/build --dev`")
        return path
    built = [*target.glob("wheels/glovebox_sandbox-*-abi3-*.whl"), *target.glob("wheels/dev/glovebox_sandbox-*-abi3-*.whl")]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def run(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Runs an installation or preparation. Raises `Unavailable` with the first error line if it fails."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=INSTALL_SECONDS)
    except OSError as error:
        raise Unavailable(f"`{command[0]}` cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{' '.join(command)}` did not end within {INSTALL_SECONDS} s") from error
    if ended.returncode != 0:
        lines = [line.strip() for line in (ended.stderr + ended.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines or ["no error output"]
        raise Unavailable(f"`{Path(command[0]).name} {' '.join(command[1:4])} …` failed: {errors[0][:300]}")


def pip(places: Places, directory: Path, *arguments: str) -> None:
    command = [places.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    # The environment does not contain pip, which would increase the size of the installation.
    environment = os.environ | {"PIP_PYTHON": str(directory)}
    run([*command, *arguments], env=environment)


def prepare(name: str | None, places: Places) -> Environment:
    """Installs everything that is not installed yet. The baseline needs nothing."""
    if name is None:
        return Environment(places.root)
    directory = places.root / "env" / name
    pins = tomllib.loads(PINS.read_text())
    wanted: dict[str, list[str]] = pins.get(name, {})
    at_least = tuple(pins.get(name, {}).get("at_least", OLDEST))
    found = resolved(places.python)
    if found is None or found[1] < at_least:
        raise Unavailable(f"requires Python {at_least[0]}.{at_least[1]} or later, but {places.python} is older; name another with --python")
    stamp = [places.python, json.dumps(wanted)]
    wheel = places.wheel if name == "glovebox" else None
    if wheel is not None:
        stamp.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    elif name == "glovebox":
        raise Unavailable("the wheel is missing; build it with `bindings/python/build --dev`, or name one with --wheel")
    stamped = directory / "pins"
    environment = Environment(directory)
    if stamped.is_file() and stamped.read_text() == "\n".join(stamp):
        return environment
    say(f"installing {' '.join([name] if name == 'glovebox' else wanted.get('python', []) + wanted.get('node', []))}")
    begun = time.monotonic()
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    run([places.python, "-m", "venv", "--without-pip", str(directory)])
    if wheel is not None:
        pip(places, directory, "--no-index", "--find-links", str(wheel.parent), str(wheel))
    if packages := wanted.get("python"):
        constraints = directory / "constraints.txt"
        constraints.write_text("".join(f"{each}\n" for each in wanted.get("with", [])))
        pip(places, directory, "--constraint", str(constraints), *packages)
    if packages := wanted.get("node"):
        environment.node.mkdir()
        (environment.node / "package.json").write_text('{ "private": true }\n')
        run(["npm", "install", "--save-exact", "--ignore-scripts", "--no-audit", "--no-fund", *packages], cwd=environment.node)
    stamped.write_text("\n".join(stamp))
    if time.monotonic() - begun > 1:
        say(f"installed in {time.monotonic() - begun:.0f} s")
    return environment


def size_bytes(directory: Path) -> int:
    """Returns the size of the files under a directory, each counted once."""
    seen: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            stat = os.lstat(os.path.join(parent, name))
            seen[stat.st_dev, stat.st_ino] = stat.st_size
    return sum(seen.values())


def version(environment: Environment, package: str) -> str | None:
    """Returns the version of an installed package, from pip or from npm."""
    for found in environment.directory.glob(f"lib/python*/site-packages/{package.replace('-', '_')}-*.dist-info"):
        return found.name.removesuffix(".dist-info").rsplit("-", 1)[1]
    manifest = environment.node / "node_modules" / package / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.is_file() else None
