"""The backend interface, on which `Sandbox` and `Session` are built. Script values are text, bytes or JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from .tools import AnswerKind, Tool
from .types import FileKind, Limits

Commit = Literal["always", "on-success", "never"]
"""Selects the executions whose changes to host directories are written back."""

Entry: TypeAlias = "tuple[str, FileKind, int, int]"
"""A file's path, kind, size in bytes, and modification time in nanoseconds since 1970."""

Listener: TypeAlias = "Callable[[bool, bytes], None]"
"""Receives output: `True` for standard error, and the data."""

Input: TypeAlias = "tuple[str, str | None, str | None, bytes | None, str | None, int | None, Listener | None, Any]"
"""The input of an execution: source, name, kind of source, standard input, context as JSON text, milliseconds until the
execution is cancelled, output listener, and cancellation token."""

SuspendedInput: TypeAlias = "tuple[bytes, int | None, bool, Any]"
"""The input for resuming a suspended execution: its bytes, milliseconds until it is cancelled, `True` if
`Started.advance` receives an output listener, and cancellation token."""

Call: TypeAlias = "tuple[int, str, str]"
"""A waiting tool call: ID, name of the tool, and arguments as JSON text."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A host directory that scripts can access."""

    host: str | os.PathLike[str]
    """The path of the directory."""
    read_only: bool = False
    """Makes the directory read-only for scripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The validated options of a sandbox: the permissions and inputs of its scripts."""

    limits: Limits
    workspace: str | None
    commit: Commit
    mounts: dict[str, Mount]
    tools: Sequence[Tool]
    files: dict[str, bytes]
    env: dict[str, str]
    args: list[str]
    seed: int | None
    clock_ns: int | None
    checkpoints: Literal["auto", "always", "never"] | int | None
    on_unwind: Literal["roll-back", "end"] | None
    auto_persist_globals: bool
    metering: Literal["fuel", "none"] = "fuel"
    packages: bool | None = field(default=None)
    network: dict[str, Any] | None = field(default=None)


class BackendExecution(Protocol):
    """The result of an execution."""

    @property
    def ok(self) -> bool: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def stdout_bytes(self) -> bytes: ...
    @property
    def stderr_bytes(self) -> bytes: ...
    @property
    def fuel_consumed(self) -> int: ...
    @property
    def value(self) -> tuple[str, str | None] | None: ...
    @property
    def displays(self) -> list[tuple[bool, list[tuple[str, bytes]]]]: ...
    def json(self) -> str:
        """Returns the result in the format of `glovebox run --json`, without displays, which may be large."""

    def list_files(self, pattern: str) -> list[Entry]: ...
    def read_file(self, path: str) -> bytes: ...


class BackendSession(Protocol):
    """An interpreter that persists between executions."""

    @property
    def id(self) -> str: ...
    @property
    def ended(self) -> str | None: ...
    def execute(self, input: Input) -> BackendExecution: ...
    def get_variable(self, name: str) -> tuple[str, str | None] | None: ...
    def set_variable(self, name: str, json: str) -> None: ...
    def list_files(self, pattern: str) -> list[Entry]: ...
    def read_file(self, path: str) -> bytes: ...
    def write_file(self, path: str, contents: bytes) -> None: ...
    def delete_file(self, path: str, recursive: bool) -> None: ...
    def fork(self, id: str | None, context: str | None) -> BackendSession: ...
    def checkpoint(self) -> int: ...
    def checkpoints(self) -> str: ...
    def undo(self, checkpoint: int | None) -> int: ...
    def hibernate(self) -> bytes: ...
    def info(self) -> str: ...
    def close(self) -> None: ...


class Backend(Protocol):
    """A backend's sandbox."""

    @property
    def language(self) -> str: ...
    @property
    def runtime_name(self) -> str: ...
    @property
    def version(self) -> str | None: ...
    def execute(self, input: Input) -> BackendExecution: ...
    def validate(self, input: Input) -> list[tuple[int, int, str]]: ...
    def session(self, id: str | None, context: str | None) -> BackendSession: ...
    def resume(self, state: bytes, id: str | None) -> BackendSession: ...


class Started(Protocol):
    """An execution that the caller advances from one wait to the next. It is cancelled when it is dropped."""

    def advance(
        self, answers: list[tuple[int, AnswerKind, str]], listener: Listener | None
    ) -> tuple[BackendExecution | None, list[Call]]:
        """Passes answers to the script, and waits until it ends or needs more answers. Returns the execution or the
        waiting calls. Calls `listener` with the output since the last step if the input asked for a listener."""

    def suspend(self) -> bytes: ...
    def output(self, is_stderr: bool) -> bytes: ...


@runtime_checkable
class SuspendingSession(Protocol):
    """A session or sandbox whose backend can suspend executions."""

    def start(self, input: Input) -> Started:
        """Starts a script. Its output listener is passed to `Started.advance`."""

    def start_suspended(self, input: SuspendedInput) -> Started: ...


@runtime_checkable
class SuspendingBackend(SuspendingSession, Protocol):
    """A sandbox whose backend can suspend executions."""

    def suspended_calls(self, state: bytes) -> list[Call]: ...
    def resume_suspended_session(self, state: bytes, id: str | None) -> BackendSession: ...
