"""The contestants."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .environments import Environment, Places, Unavailable, UsageError, run, say
from .suspension import NAMES as SUSPENDING

HERE = Path(__file__).resolve().parent.parent
DRIVERS = HERE / "drivers"

SESSIONS = frozenset({"live", "hibernate", "resume"})
SAVING = frozenset({"hibernate", "resume"})


@dataclass(frozen=True)
class Contestant:
    name: str
    language: str
    about: str
    environment: str | None
    """The section of pins.toml, `glovebox`, or `None` for an installed program."""
    command: Callable[[Environment, Places], Sequence[str]]
    """The command of the driver."""
    lacks: frozenset[str] = frozenset()
    """Measures that the contestant does not support according to its documentation."""
    runtime: str | None = None
    """The name of the runtime, for a contestant that is Glovebox."""
    optional: bool = False
    """True for a contestant that is measured only if it is already prepared or named with `--only`."""
    process: Callable[[Places], Sequence[str]] | None = None
    """The program that the measure `process` starts, if it is not the driver."""
    versions: Sequence[str] = field(default=())
    """Packages whose versions are shown in the table."""

    def prepared(self, environment: Environment, env: Mapping[str, str]) -> bool:
        """Returns `True` if Glovebox has the prepared interpreter in its cache."""
        command = [str(environment.bin / "glovebox"), "runtimes", "list", "--json"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, env=env, timeout=60).stdout
        named = (each for each in json.loads(listed) if self.runtime in (each["name"], *each.get("aliases", ())))
        return any(each["prepared"] for each in named)


def python_driver(name: str, *arguments: str) -> Callable[[Environment, Places], Sequence[str]]:
    return lambda environment, _: [str(environment.bin / "python"), str(DRIVERS / f"{name}_driver.py"), *arguments]


def node_driver(name: str, *arguments: str) -> Callable[[Environment, Places], Sequence[str]]:
    return lambda _, places: [places.node(), str(DRIVERS / f"{name}_driver.mjs"), *arguments]


def spawn(language: str) -> Callable[[Environment, Places], Sequence[str]]:
    def command(_: Environment, places: Places) -> Sequence[str]:
        program = places.python if language == "python" else places.node()
        return [places.python, str(DRIVERS / "spawn_driver.py"), language, program]

    return command


def glovebox(name: str, language: str, runtime: str, about: str, *, optional: bool = False) -> Contestant:
    return Contestant(
        name,
        language,
        about,
        "glovebox",
        python_driver("glovebox", runtime),
        runtime=runtime,
        optional=optional,
        versions=("glovebox-sandbox",),
    )


CONTESTANTS = (
    Contestant(
        "python3",
        "python",
        "a process for each script, no sandbox: the zero line",
        None,
        spawn("python"),
        lacks=SESSIONS | SUSPENDING,
        process=lambda places: [places.python, "-I", "-c", "print(1)"],
    ),
    glovebox("glovebox-python", "python", "python-3.12", "Glovebox, CPython 3.12 in WebAssembly"),
    glovebox("glovebox-python-3.15", "python", "python-3.15", "Glovebox, CPython 3.15 with numpy and others in WebAssembly", optional=True),
    Contestant(
        "monty",
        "python",
        "Pydantic's own interpreter of a subset of Python, in worker processes",
        "monty",
        python_driver("monty"),
        # Its parser does not support `yield`.
        lacks=frozenset({"generators"}),
        versions=("pydantic-monty",),
    ),
    Contestant("eryx", "python", "CPython 3.14 in WebAssembly", "eryx", python_driver("eryx"), versions=("pyeryx",)),
    Contestant(
        "ipykernel",
        "python",
        "IPython's kernel by jupyter_client, no sandbox",
        "ipykernel",
        python_driver("ipykernel"),
        lacks=SAVING | SUSPENDING,
        versions=("ipykernel", "jupyter_client"),
    ),
    Contestant(
        "dspy",
        "python",
        "dspy's PythonInterpreter: Pyodide in Deno",
        "dspy",
        python_driver("dspy"),
        lacks=SAVING | SUSPENDING,
        versions=("dspy", "deno", "pyodide"),
    ),
    Contestant(
        "pyodide",
        "python",
        "CPython 3.14 in Node.js, an instance for each session",
        "pyodide",
        node_driver("pyodide"),
        lacks=SAVING | SUSPENDING,
        versions=("pyodide",),
    ),
    Contestant(
        "node",
        "javascript",
        "a process for each script, no sandbox: the zero line",
        None,
        spawn("javascript"),
        lacks=SESSIONS | SUSPENDING,
        process=lambda places: [places.node(), "-e", "console.log(1)"],
    ),
    glovebox("glovebox-javascript", "javascript", "javascript", "Glovebox, QuickJS-NG in WebAssembly"),
    Contestant(
        "quickjs-emscripten",
        "javascript",
        "QuickJS in WebAssembly, a new context in memory shared by all",
        "quickjs-emscripten",
        node_driver("quickjs", "shared"),
        lacks=SAVING | SUSPENDING,
        versions=("quickjs-emscripten",),
    ),
    Contestant(
        "quickjs-emscripten-module",
        "javascript",
        "the same, an instance of the module for each",
        "quickjs-emscripten",
        node_driver("quickjs", "module"),
        lacks=SAVING | SUSPENDING,
        versions=("quickjs-emscripten",),
    ),
)


def chosen(names: str | None) -> list[Contestant]:
    """Returns the contestants that `--only` names, or all."""
    if names is None:
        return list(CONTESTANTS)
    by_name = {each.name: each for each in CONTESTANTS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in by_name]
    if unknown or not wanted:
        raise UsageError(f"unknown contestant `{', '.join(unknown)}`; the contestants are {', '.join(by_name)}")
    return [each for each in CONTESTANTS if each.name in wanted]


def home_of(contestant: Contestant, places: Places) -> Path:
    """Returns the directory for files that a contestant makes at run time. The user's own files are neither read nor
    written."""
    return places.root / "home" / contestant.name


def environment_variables(contestant: Contestant, places: Places, *, own_cache: bool = False) -> dict[str, str]:
    home = home_of(contestant, places)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    cache = None if own_cache else os.environ.get("GLOVEBOX_CACHE_DIR")
    return kept | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_RUNTIME_DIR": str(home / "runtime"),
        "GLOVEBOX_CACHE_DIR": str(Path(cache).resolve()) if cache else str(home / "cache" / "glovebox"),
        "DENO_DIR": str(home / "deno"),
        "DENO_NO_UPDATE_CHECK": "1",
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "DSPY_CACHEDIR": str(home / "dspy"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONNOUSERSITE": "1",
        # pip has already compiled the installed packages.
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }


def require(contestant: Contestant, environment: Environment, places: Places, *, named: bool) -> None:
    """Prepares an optional contestant if it is named. Otherwise raises `Unavailable` if it is not prepared yet."""
    if not contestant.optional:
        return
    env = environment_variables(contestant, places)
    if contestant.prepared(environment, env):
        return
    cache = env["GLOVEBOX_CACHE_DIR"]
    if not named:
        raise Unavailable(f"not prepared in {cache}; name it with --only to prepare it, which takes minutes")
    say(f"preparing {contestant.runtime}, which takes minutes")
    # Keeps the user's own pip configuration.
    own = {name: env[name] for name in ("GLOVEBOX_CACHE_DIR", "XDG_DATA_HOME")}
    run([str(environment.bin / "glovebox"), "runtimes", "prepare", str(contestant.runtime)], env=os.environ | own)
