"""The options of a sandbox."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _check
from ._backend import Mount, Policy
from .network import record as network_record
from .tools import tool_of
from .types import Limits

_NARROW = {"open_files", "tool_calls_at_once", "session_count"}
"""The limits that the engine stores as unsigned 32-bit numbers."""

_MAX_NARROW = 2**32 - 1


def policy_of(**given: Any) -> Policy:
    """Returns the policy for the keyword arguments of a sandbox. Raises `TypeError` or `ValueError` if one is invalid."""
    limits = given["limits"]
    limits = Limits() if limits is None else _check.of("limits", Limits, limits)
    for field in dataclasses.fields(limits):
        if (limit := getattr(limits, field.name)) is not None:
            _check.whole(f"limits.{field.name}", limit, _MAX_NARROW if field.name in _NARROW else 2**64 - 1)
    for name, choices in (
        ("commit", ("always", "on-success", "never")),
        ("on_unwind", (None, "roll-back", "end")),
        ("metering", ("fuel", "none")),
    ):
        if given[name] not in choices:
            raise TypeError(f"{name} must be one of {', '.join(map(repr, choices))}, not {given[name]!r}")
    checkpoints = given["checkpoints"]
    if checkpoints not in (None, "auto", "always", "never"):
        _check.whole("checkpoints", checkpoints, _MAX_NARROW)
    return Policy(
        limits=limits,
        workspace=None if given["workspace"] is None else _check.path("workspace", given["workspace"]),
        commit=given["commit"],
        mounts=_check.mapping("mounts", given["mounts"], _mount),
        tools=_check.sequence("tools", given["tools"], tool_of),
        files=_check.mapping("files", given["files"], _check.contents),
        env=_check.mapping("env", given["env"], lambda name, value: _check.of(name, str, value)),
        args=_check.sequence("args", given["args"], lambda name, value: _check.of(name, str, value)),
        seed=None if given["seed"] is None else _check.whole("seed", given["seed"]),
        clock_ns=None if given["clock_ns"] is None else _check.whole("clock_ns", given["clock_ns"]),
        checkpoints=checkpoints,
        on_unwind=given["on_unwind"],
        auto_persist_globals=_check.of("auto_persist_globals", bool, given["auto_persist_globals"]),
        metering=given["metering"],
        packages=_check.optional("packages", bool, given["packages"]),
        network=network_record(given["network"]),
    )


def _mount(name: str, mount: Any) -> Mount:
    if isinstance(mount, Mount):
        return Mount(_check.path(f"{name}.host", mount.host), _check.of(f"{name}.read_only", bool, mount.read_only))
    return Mount(_check.path(name, mount))
