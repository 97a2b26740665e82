"""What one execution did."""

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
    from ._backend import Executed


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of a script that JSON has no form for."""

    repr: str
    """As the interpreter shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a script ended."""

    kind: Literal["completed", "exited", "raised", "exhausted", "cancelled", "trapped"]
    """Which it is. The fields below are `None` unless they belong to it."""
    code: int | None = None
    """`exited`: with this code."""
    type: str | None = None
    """`raised`: the exception's class; empty where the value thrown is no object."""
    message: str | None = None
    """`raised`: its message."""
    traceback: str | None = None
    """`raised`: as the interpreter prints it."""
    line: int | None = None
    """`raised`: the script's line, counted from 1, where that is known."""
    resource: Literal["fuel", "time", "memory"] | None = None
    """`exhausted`: what ran out."""
    limit: int | None = None
    """`exhausted`: the limit, in the resource's unit."""
    used: int | None = None
    """`exhausted`: what was used or asked for."""
    trap: TrapKind | None = None
    """`trapped`: how the interpreter broke."""

    @property
    def exit_code(self) -> int:
        """As a shell has it."""
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
                return f"out of {self.resource}: {self.used} of {self.limit}"
            case "trapped":
                return f"the interpreter broke: {self.trap}"
        return self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool."""

    name: str
    """The name that the script called."""
    arguments: Any = None
    """The arguments; `None` over `Limits.tool_record_bytes`."""
    result: Any = None
    """What it returned; `None` over `Limits.tool_record_bytes`."""
    error: str | None = None
    """Why it returned nothing: the error's type, and what the script was told."""
    started_ms: float = 0.0
    """When the script called, counted from the start of the execution."""
    duration_ms: float = 0.0
    """How long it took, its wait for a turn included."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the language's own parser."""

    line: int
    """The line, counted from 1."""
    column: int
    """The column in code points, counted from 1."""
    message: str
    """The parser's message."""


class RunFiles(Mapping[str, bytes]):
    """The workspace's files as an execution left them: a mapping of paths to contents, read when asked for."""

    __slots__ = ("_executed",)

    def __init__(self, executed: Executed) -> None:
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
        """What matches a pattern (`*.csv`, `src/**/*.py`): files, directories and links."""
        return entries(self._executed.list_files(_check.of("pattern", str, pattern)))

    def __repr__(self) -> str:
        return f"RunFiles({list(self)!r})"


def entries(listed: list[tuple[str, FileKind, int, int]]) -> list[FileEntry]:
    """Entries as users see them."""
    return [FileEntry(path=path, kind=kind, size_bytes=size, modified_ns=at) for path, kind, size, at in listed]


def value_of(value: tuple[str, str | None] | None) -> Any:
    """A value of a script in Python."""
    if value is None:
        return None
    text, form = value
    return Opaque(text) if form is None else json.loads(form)


class Run:
    """What one execution did, wrote, used and changed."""

    def __init__(self, executed: Executed) -> None:
        """Made by `Sandbox.execute` and `Session.execute`."""
        self._executed = executed

    @property
    def ok(self) -> bool:
        """Whether the script ran to its end, or exited with 0."""
        return self._executed.ok

    @property
    def stdout(self) -> str:
        """What it wrote to standard output, as text."""
        return self._executed.stdout

    @property
    def stderr(self) -> str:
        """What it wrote to standard error, as text. Where a limit ended it, the last line names that."""
        return self._executed.stderr

    @property
    def stdout_bytes(self) -> bytes:
        """What it wrote to standard output."""
        return self._executed.stdout_bytes

    @property
    def stderr_bytes(self) -> bytes:
        """What it wrote to standard error."""
        return self._executed.stderr_bytes

    @property
    def fuel_consumed(self) -> int:
        """Fuel used: about one unit for each instruction. Where the time limit or a cancellation ended it, a lower bound."""
        return self._executed.fuel_consumed

    @cached_property
    def value(self) -> Any:
        """In a session, the value of the script's last expression: an `Opaque` where JSON has no form for it. `None` where there is none."""
        return value_of(self._executed.value)

    @property
    def value_repr(self) -> str | None:
        """The same as the interpreter shows it."""
        value = self._executed.value
        return value and value[0]

    @cached_property
    def displays(self) -> list[Display]:
        """What it showed, in order: pictures, tables, and in a session the value of its last expression where that has more than a text."""
        return [Display(forms, is_result) for is_result, forms in self._executed.displays]

    @property
    def displays_dropped(self) -> int:
        """How many displays `Limits.display_bytes` or their number dropped."""
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
        """How it ended."""
        return Outcome(**self._record["outcome"])

    @property
    def interrupted(self) -> Outcome | None:
        """The exception by which the script ended when it was asked to stop, shortly before it would have been unwound."""
        raised = self._record["interrupted"]
        return raised and Outcome(kind="raised", **raised)

    @property
    def files_created(self) -> list[str]:
        """Files that were not there before, sorted."""
        return list(self._record["files_created"])

    @property
    def files_modified(self) -> list[str]:
        """Files that were written to, sorted."""
        return list(self._record["files_modified"])

    @property
    def files_deleted(self) -> list[str]:
        """Files that are gone, sorted."""
        return list(self._record["files_deleted"])

    @property
    def stdout_truncated(self) -> bool:
        """Whether it wrote more than `Limits.stdout_bytes`."""
        return bool(self._record["stdout_truncated"])

    @property
    def stderr_truncated(self) -> bool:
        """Whether it wrote more than `Limits.stderr_bytes`."""
        return bool(self._record["stderr_truncated"])

    @property
    def memory_used_bytes(self) -> int:
        """The most memory in use."""
        return int(self._record["memory_used_bytes"])

    @property
    def duration_ms(self) -> float:
        """Wall-clock time of the script."""
        return float(self._record["duration_ms"])

    @property
    def session_id(self) -> str | None:
        """The session, where there is one."""
        id: str | None = self._record["session_id"]
        return id

    @property
    def rolled_back_to(self) -> Rollback | None:
        """The state that the session was rolled back to, where the script had to be unwound."""
        rollback = self._record["rolled_back_to"]
        return rollback and Rollback(**rollback)

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """The calls of tools, in order."""
        calls = []
        for call in self._record["tool_calls"]:
            error = call["error"] and ": ".join(filter(None, (call["error"]["type"], call["error"]["message"])))
            calls.append(ToolCall(**{**call, "error": error}))
        return calls

    @cached_property
    def guidance(self) -> Guidance:
        """What it did with its fuel, and what can be done about a failure: for people, and for models that write scripts."""
        guidance = self._record["guidance"]
        advice = [
            Advice(**{**each, "correction": each["correction"] and Correction(**each["correction"])})
            for each in guidance["advice"]
        ]
        return Guidance(fuel=FuelAnalysis(**guidance["fuel"]), advice=advice)

    def to_dict(self) -> dict[str, Any]:
        """All of it but the files' contents, as JSON has it: what `glovebox run --json` prints."""
        displays = [{"is_result": shown.is_result, "data": shown.bundle()} for shown in self.displays]
        # Each caller gets its own copy. The JSON already has a place for `displays`.
        return {**json.loads(self._executed.json()), "displays": displays}

    def raise_for_outcome(self) -> Run:
        """Raises `ScriptError` unless the script succeeded. Returns the run, so that calls can be chained."""
        if not self.ok:
            raise ScriptError(self)
        return self

    def __repr__(self) -> str:
        return f"<Run: {self.outcome}; {len(self.stdout_bytes)} bytes of output, {self.fuel_consumed} fuel>"
