"""The backend that runs scripts with the engine in this process. The native module implements the backend interface, so
this module converts only the policy and the tools."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import tools
from ._backend import Backend, Policy

try:
    from . import _native
except ImportError:
    _native = None  # type: ignore[assignment]

_engines: dict[tuple[int, bool], Any] = {}


def is_here() -> bool:
    """Returns `True` if this package has a native module for this platform."""
    return _native is not None


def _interpreters(file: str, variable: str) -> list[str]:
    """Returns the files that an environment variable lists, or the files called `file` in the installed packages."""
    if given := os.environ.get(variable):
        return given.split(os.pathsep)
    from importlib.util import find_spec

    # Locates the packages without importing them, because they contain only these files.
    found = [find_spec(name) for name in ("glovebox_sandbox_python", "glovebox_sandbox_data")]
    modules = [__file__, *(spec.origin for spec in found if spec and spec.origin)]
    return [str(path) for module in modules if (path := Path(module).with_name(file)).is_file()]


def bundles() -> list[str]:
    """Returns the bundles of interpreters, from which the engine reads before it uses the network."""
    return _interpreters("interpreters.zip", "GLOVEBOX_BUNDLE")


def prepared() -> list[str]:
    """Returns the prepared bundles. Their machine code and images replace compiling and booting."""
    return _interpreters("prepared.zip", "GLOVEBOX_PREPARED")


def images() -> Path | None:
    """Returns the directory of images that `glovebox image build` has made, if it exists."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    base = Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~/.local/state"))
    path = base / "glovebox" / "images"
    return path if path.is_dir() else None


def _engine(packages: bool) -> Any:
    # A forked child does not inherit its parent's threads, so it needs a new engine.
    key = (os.getpid(), packages)
    if key not in _engines:
        cache = os.environ.get("GLOVEBOX_CACHE_DIR") or None
        _engines[key] = _native.Engine(cache, bundles(), prepared(), images(), packages)
    return _engines[key]


def open_backend(name: str, policy: Policy, wait: tools.Await, progress: Callable[[str], None] | None) -> Backend:
    """Creates a sandbox. Downloads and compiles only the parts that the installed packages do not contain."""
    answered: list[Any] = [
        (
            tool.name,
            tool.description,
            json.dumps(tool.schema),
            None if tool.waits else functools.partial(tools.answer, tool, wait),
        )
        for tool in policy.tools
    ]
    engine = _engine(policy.packages is not False)
    backend: Backend = _native.Sandbox(
        engine, name, json.dumps(policy_record(policy)), list(policy.files.items()), answered, progress
    )
    return backend


def token() -> Any:
    """Creates a token that cancels an execution."""
    return _native.CancelToken()


def policy_record(policy: Policy) -> dict[str, Any]:
    """Converts a policy to the format of the engine's policy files. Omits default values: the engine has the same
    defaults, and a daemon applies its own policy."""
    limits = {key: value for key, value in dataclasses.asdict(policy.limits).items() if value is not None}
    session: dict[str, Any] = {}
    if policy.checkpoints is not None:
        every = policy.checkpoints
        session["checkpoints"] = {"every": every} if isinstance(every, int) else every
    if policy.on_unwind is not None:
        session["on_unwind"] = policy.on_unwind
    mounts = [
        {"host": os.fspath(mount.host), "guest": guest, "read_only": mount.read_only}
        for guest, mount in policy.mounts.items()
    ]
    record: dict[str, Any] = {
        "limits": limits,
        "session": session,
        "workspace": policy.workspace,
        "commit": None if policy.commit == "always" else policy.commit,
        "mounts": mounts,
        "env": policy.env,
        "args": policy.args,
        "auto_persist_globals": policy.auto_persist_globals,
        "metering": None if policy.metering == "fuel" else policy.metering,
        "entropy": None if policy.seed is None else {"seeded": policy.seed},
        "clock": None if policy.clock_ns is None else {"fixed": policy.clock_ns},
        "network": policy.network,
    }
    return {key: value for key, value in record.items() if value not in (None, {}, [], False)}
