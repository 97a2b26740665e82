"""The result of one execution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from . import _check
from .displays import Display
from .errors import FilesError, ScriptError
from .types import Advice, Correction, FileEntry, FileKind, FuelAnalysis, Guidance, Rollback, TrapKind

if TYPE_CHECKING:
    from ._backend import BackendExecution

_UNITS = {"fuel": "units", "time": "ms", "memory": "bytes"}


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of a script that JSON cannot represent."""

    repr: str
    """The value as the interpreter prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The way in which a script ended."""

    kind: Literal["completed", "exited", "raised", "exhausted", "cancelled", "trapped"]
    """The kind of outcome. The fields of other kinds are `None`."""
    code: int | None = None
    """`exited`: the exit code."""
    type: str | None = None
    """`raised`: the exception's class; empty if the thrown value is not an object."""
    message: str | None = None
    """`raised`: the exception's message."""
    traceback: str | None = None
    """`raised`: the traceback as the interpreter prints it."""
    line: int | None = None
    """`raised`: the script's line, counted from 1, if known."""
    resource: Literal["fuel", "time", "memory"] | None = None
    """`exhausted`: the exhausted resource."""
    limit: int | None = None
    """`exhausted`: the limit, in the resource's unit."""
    used: int | None = None
    """`exhausted`: the amount that was used or requested, in the same unit."""
    trap: TrapKind | None = None
    """`trapped`: the cause of the trap."""

    @property
    def exit_code(self) -> int:
        """The exit code by shell convention, for example 124 after a timeout."""
        if self.kind == "exhausted":
            return 124 if self.resource == "time" else 137
        return self.code or {"completed": 0, "exited": 0, "raised": 1, "cancelled": 130, "trapped": 134}[self.kind]

    def __str__(self) -> str:
        match self.kind:
            case "exited":
                return f"exited with {self.code}"
            case "raised":
                return f"{self.type}: {self.message}" if self.type else f"threw {self.message}"
            case "exhausted":
                return f"out of {self.resource}: used {self.used} of {self.limit} {_UNITS.get(self.resource or '', '')}"
            case "trapped":
                return f"the interpreter trapped: {self.trap}"
        return self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of a script, with its result."""

    name: str
    """The name of the called tool."""
    arguments: Any = None
    """The arguments; `None` if they exceed `Limits.tool_record_bytes`."""
    result: Any = None
    """The result; `None` if it exceeds `Limits.tool_record_bytes`."""
    error: str | None = None
    """The reason for a failed call: the type and message of the error that the script received."""
    started_ms: float = 0.0
    """The time of the call, in milliseconds from the start of the execution."""
    duration_ms: float = 0.0
    """The duration in milliseconds, including the wait in the queue."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message of the language's own parser, or of the type checker."""

    line: int
    """The line, counted from 1."""
    column: int
    """The column in code points, counted from 1."""
    message: str
    """A description of the fault, in the words of the parser or the type checker."""


class RunFiles(Mapping[str, bytes]):
    """The workspace's files as an execution left them: a mapping from paths to contents, read on demand."""

    __slots__ = ("_executed",)

    def __init__(self, executed: BackendExecution) -> None:
        """Use `Run.files`."""
        self._executed = executed

    def __getitem__(self, path: str) -> bytes:
        try:
            return self._executed.read_file(_check.of("path", str, path))
        except FilesError:
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        return (path for path, kind, _, _ in self._executed.list_files("**") if kind == "file")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def list(self, pattern: str = "**") -> list[FileEntry]:
        """Lists the files, directories and links that match a pattern (`*.csv`, `src/**/*.py`)."""
        return entries(self._executed.list_files(_check.of("pattern", str, pattern)))

    def __repr__(self) -> str:
        return f"RunFiles({list(self)!r})"


def entries(listed: list[tuple[str, FileKind, int, int]]) -> list[FileEntry]:
    """Converts a backend's entries to `FileEntry` objects."""
    return [FileEntry(path=path, kind=kind, size_bytes=size, modified_ns=at) for path, kind, size, at in listed]


def value_of(value: tuple[str, str | None] | None) -> Any:
    """Converts a script's value to a Python value."""
    if value is None:
        return None
    text, form = value
    return Opaque(text) if form is None else json.loads(form)


class Run:
    """The outcome, output, resource use and changes of one execution."""

    def __init__(self, executed: BackendExecution) -> None:
        """Use `Sandbox.execute` or `Session.execute` to create an instance."""
        self._executed = executed

    @property
    def ok(self) -> bool:
        """True if the script ran to its end, or exited with code 0."""
        return self._executed.ok

    @property
    def stdout(self) -> str:
        """Standard output as text."""
        return self._executed.stdout

    @property
    def stderr(self) -> str:
        """Standard error as text. If a limit ended the script, the last line names the limit."""
        return self._executed.stderr

    @property
    def stdout_bytes(self) -> bytes:
        """Standard output as bytes."""
        return self._executed.stdout_bytes

    @property
    def stderr_bytes(self) -> bytes:
        """Standard error as bytes."""
        return self._executed.stderr_bytes

    @property
    def fuel_consumed(self) -> int:
        """Fuel used: about one unit per instruction. A lower bound if a time limit or a cancellation ended the script.
        """
        return self._executed.fuel_consumed

    @cached_property
    def value(self) -> Any:
        """In a session, the value of the script's last expression: an `Opaque` if JSON cannot represent it, `None` if
        there is no value."""
        return value_of(self._executed.value)

    @property
    def value_repr(self) -> str | None:
        """The value as the interpreter prints it."""
        value = self._executed.value
        return value and value[0]

    @cached_property
    def displays(self) -> list[Display]:
        """The script's displays, in order: images, tables and, in a session, the value of the last expression if it has
        a form other than text."""
        return [Display(forms, is_result) for is_result, forms in self._executed.displays]

    @property
    def displays_dropped(self) -> int:
        """The number of displays that were dropped because of `Limits.display_bytes` or their maximum number."""
        return int(self._record["displays_dropped"])

    @property
    def files(self) -> RunFiles:
        """The workspace's files as the execution left them."""
        return RunFiles(self._executed)

    @cached_property
    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._executed.json())
        return record

    @cached_property
    def outcome(self) -> Outcome:
        """The way in which the script ended."""
        return Outcome(**self._record["outcome"])

    @property
    def interrupted(self) -> Outcome | None:
        """The exception that ended the script after the soft limit or a cancellation interrupted it; otherwise `None`.
        """
        raised = self._record["interrupted"]
        return raised and Outcome(kind="raised", **raised)

    @property
    def files_created(self) -> list[str]:
        """Created files, sorted."""
        return list(self._record["files_created"])

    @property
    def files_modified(self) -> list[str]:
        """Modified files, sorted."""
        return list(self._record["files_modified"])

    @property
    def files_deleted(self) -> list[str]:
        """Deleted files, sorted."""
        return list(self._record["files_deleted"])

    @property
    def stdout_truncated(self) -> bool:
        """True if the script wrote more than `Limits.stdout_bytes`."""
        return bool(self._record["stdout_truncated"])

    @property
    def stderr_truncated(self) -> bool:
        """True if the script wrote more than `Limits.stderr_bytes`."""
        return bool(self._record["stderr_truncated"])

    @property
    def memory_used_bytes(self) -> int:
        """Peak memory use, in bytes."""
        return int(self._record["memory_used_bytes"])

    @property
    def duration_ms(self) -> float:
        """Wall-clock time of the script, in milliseconds."""
        return float(self._record["duration_ms"])

    @property
    def session_id(self) -> str | None:
        """The session's ID, if the execution was in a session."""
        id: str | None = self._record["session_id"]
        return id

    @property
    def rolled_back_to(self) -> Rollback | None:
        """The state that the session was rolled back to, if the script was unwound."""
        rollback = self._record["rolled_back_to"]
        return rollback and Rollback(**rollback)

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls, in order."""
        calls = []
        for call in self._record["tool_calls"]:
            error = call["error"] and ": ".join(filter(None, (call["error"]["type"], call["error"]["message"])))
            calls.append(ToolCall(**{**call, "error": error}))
        return calls

    @cached_property
    def guidance(self) -> Guidance:
        """The fuel use and advice on a failure, for people and for models that write scripts."""
        guidance = self._record["guidance"]
        advice = [
            Advice(**{**each, "correction": each["correction"] and Correction(**each["correction"])})
            for each in guidance["advice"]
        ]
        return Guidance(fuel=FuelAnalysis(**guidance["fuel"]), advice=advice)

    def to_dict(self) -> dict[str, Any]:
        """Returns the run without the files' contents, in the format of `glovebox run --json`."""
        displays = [{"is_result": shown.is_result, "data": shown.bundle()} for shown in self.displays]
        # Each call returns a new copy. The JSON already has an entry for `displays`, which keeps its position.
        return {**json.loads(self._executed.json()), "displays": displays}

    def raise_for_outcome(self) -> Run:
        """Raises `ScriptError` unless the script succeeded. Returns the run, so that calls can be chained."""
        if not self.ok:
            raise ScriptError(self)
        return self

    def __repr__(self) -> str:
        return f"<Run: {self.outcome}; {len(self.stdout_bytes)} bytes of output, {self.fuel_consumed} fuel>"
