"""The backend that runs a provider component with `wasmtime`."""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import tools, types
from ._backend import Backend, BackendSession, Entry, Input, Policy
from .errors import FilesError, GloveboxError, PolicyError, SessionError, UnavailableError, UnsupportedError

PROVIDERS = Path(__file__).with_name("providers")
"""The directory of the bundled providers. Only packages without a native module contain it."""

_SESSION = frozenset({"session-ended", "session-busy", "no-checkpoint", "variable", "too-many-sessions", "not-resumable"})
_UNAVAILABLE = frozenset({"unavailable", "quota-exceeded"})


def open_backend(name: str, policy: Policy, wait: tools.Await, provider: str | None) -> Backend:
    """Creates a sandbox from a provider. Compiles the provider the first time."""
    _refuse(policy)
    try:
        from . import component
    except ImportError as error:
        message = "the component backend needs `wasmtime`; install it with: pip install 'glovebox-sandbox[component]'"
        raise UnavailableError(message) from error
    path = Path(provider) if provider else PROVIDERS / f"glovebox-{name}.wasm"
    if not path.is_file():
        raise UnavailableError(
            f"provider `{path}` does not exist; pass provider=… (see docs/embed-anywhere.md), or build it with "
            "`guest-shims/component/build`"
        )
    answers = _Answers(policy, wait)
    with _errors():
        return _Sandbox(component.Sandbox(str(path), answers), name, policy)


def _refuse(policy: Policy) -> None:
    """Refuses the options that only the engine supports."""
    requested = {
        "workspace": policy.workspace is not None,
        "mounts": bool(policy.mounts),
        "commit": policy.commit != "always",
    }
    for name, is_requested in requested.items():
        if is_requested:
            raise UnsupportedError(
                f"{name}: a component has no access to host directories; pass files={{…}} and read Run.files instead, or use "
                'backend="native"'
            )
    if policy.metering != "fuel":
        raise UnsupportedError('metering: a component always counts fuel; remove it, or use backend="native"')
    if policy.network is not None:
        raise UnsupportedError('network: a component has no network; remove it, or use backend="native"')
    if policy.packages:
        raise UnsupportedError('packages: not supported with a component; remove it, or use backend="native"')


def _Answers(policy: Policy, wait: tools.Await) -> Any:
    from .component._answers import Answers, Tool

    class AwaitedAnswers(Answers):
        def answer(self, name: str, arguments: str) -> str | types.CallFailure:
            tool = next((tool for tool in policy.tools if tool.name == name), None)
            if tool is None:
                return types.CallFailure(kind="unknown", message=f"unknown tool `{name}`; call a registered tool")
            kind, text = tools.answer(tool, wait, arguments, _Never())
            return text if kind == "returned" else types.CallFailure(kind=kind, message=text)

    return AwaitedAnswers([Tool(tool.name, tool.description, lambda _: None, tool.schema) for tool in policy.tools])


class _Never:
    """The token of a call that cannot be cancelled."""

    is_cancelled = False


@contextmanager
def _errors() -> Iterator[None]:
    """Converts a provider's errors to this package's errors."""
    import wasmtime

    from .component import InstanceLostError, RefusedError

    try:
        yield
    except InstanceLostError as error:
        raise UnavailableError(str(error)) from error
    except RefusedError as error:
        raise _error(error.tag, str(error), error.failure) from error
    except wasmtime.WasmtimeError as error:
        raise UnavailableError(
            f"cannot load the provider: {error}; rebuild it with `guest-shims/component/build`, or pass another one as "
            "provider=…"
        ) from error


def _error(tag: str, message: str, failure: types.SandboxError) -> GloveboxError:
    if isinstance(failure, types.SandboxErrorFile):
        return FilesError(message)
    if tag in _SESSION:
        return SessionError(message)
    if tag in _UNAVAILABLE:
        return UnavailableError(message)
    return UnsupportedError(message) if tag == "unsupported" else PolicyError(message)


def _entries(listed: list[types.FileEntry]) -> list[Entry]:
    return [(entry.path, entry.kind, entry.size_bytes, entry.modified_ns) for entry in listed]


def _pass_output(input: Input, execution: types.Execution) -> None:
    """Passes the output to the listener after the execution: a component delivers no output while a script runs."""
    listener = input[6]
    if listener is not None:
        for is_stderr, output in ((False, execution.stdout), (True, execution.stderr)):
            if output.bytes:
                listener(is_stderr, output.bytes)


class _Sandbox:
    version = None

    def __init__(self, sandbox: Any, name: str, policy: Policy) -> None:
        self._sandbox = sandbox
        info = sandbox.info()
        runtime = next((each for each in info.runtimes if name in (each.name, each.language)), None)
        if runtime is None:
            names = ", ".join(each.name for each in info.runtimes)
            raise PolicyError(f"the provider has no runtime `{name}`; it has {names}")
        self.language: str = runtime.language
        self.runtime_name: str = runtime.name
        self.version = runtime.version
        self._policy = policy
        has_tools = "tools" in info.features
        if policy.tools and not has_tools:
            raise UnsupportedError(
                "tools: this provider does not import tools; pass one that does, such as `glovebox-python.wasm`, with provider=…"
            )

    def _terms(self) -> dict[str, Any]:
        given = self._policy
        clock = None if given.clock_ns is None else types.ClockFixed(given.clock_ns)
        # A provider has no entropy source, so a policy without a seed gets a random one.
        entropy = types.EntropySeeded(secrets.randbits(64) if given.seed is None else given.seed)
        checkpoints: types.Checkpoints | None = None
        match given.checkpoints:
            case "auto":
                checkpoints = types.CheckpointsAuto()
            case "always":
                checkpoints = types.CheckpointsAlways()
            case "never":
                checkpoints = types.CheckpointsNever()
            case int(every):
                checkpoints = types.CheckpointsEvery(every)
        policy = types.Policy(
            limits=given.limits,
            clock=clock,
            entropy=entropy,
            args=given.args or None,
            env=list(given.env.items()) or None,
            auto_persist_globals=given.auto_persist_globals or None,
            session=types.SessionPolicy(checkpoints=checkpoints, on_unwind=given.on_unwind),
        )
        return {"runtime": self.runtime_name, "policy": policy}

    def execute(self, input: Input) -> _ComponentExecution:
        files = [types.InputFile(path=path, bytes=contents) for path, contents in self._policy.files.items()]
        with _errors():
            execution, contents, entries = self._sandbox.execute_with_files(_request(input, files), **self._terms())
        _pass_output(input, execution)
        return _ComponentExecution(execution, contents, _entries(entries))

    def validate(self, input: Input) -> list[tuple[int, int, str]]:
        with _errors():
            diagnostics = self._sandbox.validate(_request(input, None), **self._terms())
        return [(each.line, each.column, each.message) for each in diagnostics]

    def session(self, id: str | None, context: str | None) -> BackendSession:
        _no_id(id)
        with _errors():
            value = None if context is None else json.loads(context)
            session = self._sandbox.open(context=value, **self._terms())
            for path, contents in self._policy.files.items():
                session.write_file(path, contents)
        return _Session(session)

    def resume(self, state: bytes, id: str | None) -> BackendSession:
        _no_id(id)
        with _errors():
            return _Session(self._sandbox.resume(state, **self._terms()))


class _Session:
    def __init__(self, session: Any) -> None:
        self._session = session
        self.id: str = session.id

    @property
    def ended(self) -> str | None:
        try:
            with _errors():
                ended: str | None = self._session.info().ended
                return ended
        except SessionError as error:
            return str(error)

    def execute(self, input: Input) -> _ComponentExecution:
        if input[4] is not None:
            self.set_variable("context", input[4])
        with _errors():
            execution = self._session.execute(_request(input, None, with_context=False))
        _pass_output(input, execution)
        return _ComponentExecution(execution, None, [], self._session)

    def get_variable(self, name: str) -> tuple[str, str | None] | None:
        with _errors():
            value = self._session.get_variable(name)
        return value and (value.repr, value.json)

    def set_variable(self, name: str, text: str) -> None:
        with _errors():
            self._session.set_variable(name, json.loads(text))

    def list_files(self, pattern: str) -> list[Entry]:
        with _errors():
            return _entries(self._session.list_files(pattern))

    def read_file(self, path: str) -> bytes:
        with _errors():
            contents: bytes = self._session.read_file(path)
            return contents

    def write_file(self, path: str, contents: bytes) -> None:
        with _errors():
            self._session.write_file(path, contents)

    def delete_file(self, path: str, recursive: bool) -> None:
        with _errors():
            self._session.delete_file(path, recursive=recursive)

    def fork(self, id: str | None, context: str | None) -> _Session:
        _no_id(id)
        with _errors():
            fork = _Session(self._session.fork())
        if context is not None:
            fork.set_variable("context", context)
        return fork

    def checkpoint(self) -> int:
        with _errors():
            checkpoint: int = self._session.checkpoint()
            return checkpoint

    def checkpoints(self) -> str:
        with _errors():
            return json.dumps([dataclasses.asdict(each) for each in self._session.checkpoints()])

    def undo(self, checkpoint: int | None) -> int:
        with _errors():
            if checkpoint is None:
                undone: int = self._session.undo()
                return undone
            self._session.undo_to(checkpoint)
            return checkpoint

    def hibernate(self) -> bytes:
        with _errors():
            state: bytes = self._session.hibernate()
            return state

    def info(self) -> str:
        with _errors():
            return json.dumps(dataclasses.asdict(self._session.info()))

    def close(self) -> None:
        with _errors():
            self._session.close()


def _no_id(id: str | None) -> None:
    if id is not None:
        raise UnsupportedError('id: a component chooses its sessions\' IDs; remove it, or use backend="native"')


def _request(input: Input, files: list[types.InputFile] | None, with_context: bool = True) -> types.Request:
    source, name, kind, stdin, context, timeout_ms, _, _ = input
    kinds: dict[str | None, types.SourceKind] = {"script": "script", "module": "module", "detect": "detect"}
    return types.Request(
        source=source,
        name=name,
        kind=kinds.get(kind),
        stdin=stdin,
        context=context if with_context else None,
        files=files or None,
        deadline_ms=timeout_ms,
    )


class _ComponentExecution:
    """An execution in the engine's format."""

    def __init__(
        self,
        execution: types.Execution,
        contents: dict[str, bytes] | None,
        entries: list[Entry],
        session: Any = None,
    ) -> None:
        self._execution = execution
        self._contents = contents
        self._entries = entries
        self._session = session
        outcome = execution.outcome
        self.ok = isinstance(outcome, types.OutcomeCompleted) or outcome == types.OutcomeExited(0)
        self.stdout_bytes = execution.stdout.bytes
        self.stderr_bytes = execution.stderr.bytes
        self.fuel_consumed = execution.fuel_consumed

    @property
    def stdout(self) -> str:
        return _text(self._execution.stdout)

    @property
    def stderr(self) -> str:
        return _text(self._execution.stderr)

    @property
    def value(self) -> tuple[str, str | None] | None:
        value = self._execution.value
        return None if value is None else (value.repr, value.json)

    @property
    def displays(self) -> list[tuple[bool, list[tuple[str, bytes]]]]:
        return [
            (display.is_result, [(form.media_type, form.data) for form in display.forms])
            for display in self._execution.displays
        ]

    def list_files(self, pattern: str) -> list[Entry]:
        if self._session is not None:
            with _errors():
                return _entries(self._session.list_files(pattern))
        if pattern != "**":
            raise UnsupportedError(
                'pattern: this backend supports patterns only in sessions; remove it, or use backend="native"'
            )
        return self._entries

    def read_file(self, path: str) -> bytes:
        if self._contents is None:
            with _errors():
                contents: bytes = self._session.read_file(path)
                return contents
        try:
            return self._contents[os.path.normpath(path)]
        except KeyError:
            raise FilesError(f"the file `{path}` does not exist") from None

    def json(self) -> str:
        execution = self._execution
        outcome = _outcome(execution.outcome)
        value = execution.value
        record = {
            "success": self.ok,
            "outcome": outcome,
            "interrupted": execution.interrupted and _raised(execution.interrupted),
            "value": value and {"repr": value.repr, **({} if value.json is None else {"json": json.loads(value.json)})},
            "stdout": self.stdout,
            "stderr": self.stderr,
            "stdout_truncated": execution.stdout.total_bytes > execution.stdout.retained_bytes,
            "stderr_truncated": execution.stderr.total_bytes > execution.stderr.retained_bytes,
            "displays": [],
            "displays_dropped": execution.displays_dropped,
            "fuel_consumed": execution.fuel_consumed,
            "memory_used_bytes": execution.memory_used_bytes,
            "duration_ms": execution.duration_ns / 1e6,
            "files_created": execution.files_created,
            "files_modified": execution.files_modified,
            "files_deleted": execution.files_deleted,
            "tool_calls": [_tool_call(call) for call in execution.tool_calls],
            "workspace_path": None,
            "session_id": execution.session_id,
            "rolled_back_to": execution.rolled_back_to and dataclasses.asdict(execution.rolled_back_to),
            "guidance": dataclasses.asdict(execution.guidance),
            "metadata": dataclasses.asdict(execution.metadata),
        }
        return json.dumps(record)


def _text(output: types.Output) -> str:
    """Decodes output as text. Drops an incomplete character at the end of truncated output; other invalid UTF-8 becomes
    U+FFFD.
    """
    # With `final=False`, the decoder holds back an incomplete character.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(output.bytes, final=output.total_bytes <= len(output.bytes))


def _raised(raised: types.Raised) -> dict[str, Any]:
    return {
        "type": raised.type_name,
        "message": raised.message,
        "traceback": raised.traceback,
        "line": raised.line,
    }


def _outcome(outcome: types.Outcome) -> dict[str, Any]:
    match outcome:
        case types.OutcomeExited(code):
            return {"kind": "exited", "code": code}
        case types.OutcomeRaised(raised):
            return {"kind": "raised", **_raised(raised)}
        case types.OutcomeExhausted(exhausted):
            return {"kind": "exhausted", **dataclasses.asdict(exhausted)}
        case types.OutcomeTrapped(trap):
            return {"kind": "trapped", "trap": trap}
    return {"kind": outcome.tag}


_KINDS = {
    "failed": "ToolError",
    "limit": "ToolLimit",
    "timeout": "ToolTimeout",
    "unknown": "UnknownTool",
    "invalid-arguments": "InvalidArguments",
    "denied": "ToolDenied",
}


def _tool_call(call: types.ToolRecord) -> dict[str, Any]:
    result: Any = None
    error: dict[str, Any] | None = None
    match call.outcome:
        case types.ToolOutcomeReturned(text):
            result = None if text is None else json.loads(text)
        case types.ToolOutcomeFailed(failure):
            error = {"type": _KINDS.get(failure.kind, failure.kind), "message": failure.message}
        case _:
            error = {"type": "Unfinished", "message": "the execution ended before the tool returned"}
    return {
        "name": call.name,
        "arguments": None if call.arguments is None else json.loads(call.arguments),
        "result": result,
        "error": error,
        "started_ms": call.started_ns / 1e6,
        "duration_ms": call.duration_ns / 1e6,
    }



