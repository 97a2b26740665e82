"""Sandboxes and sessions of a provider component."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import wasmtime
from wasmtime import component

from .. import types
from ._answers import Answers, Tool
from ._values import lift, lift_result, lower
from .errors import InstanceLostError, RefusedError

_SANDBOX = "glovebox:sandbox/sandbox@0.2.0"
_TOOLS = "glovebox:sandbox/tools@0.2.0"

_PIECE_BYTES = 16 << 20
"""Maximum size of the result of one read call, in bytes."""

_STACK_BYTES = 512 << 10
"""Stack size of guests, in bytes. It equals Wasmtime's default, and is set explicitly because it determines the maximum
call depth of scripts."""


@functools.cache
def _engine(stack_bytes: int) -> wasmtime.Engine:
    config = wasmtime.Config()
    config.max_wasm_stack = stack_bytes
    # Compiling a provider takes seconds; Wasmtime caches compiled code in the user's cache directory.
    config.cache = True
    return wasmtime.Engine(config)


class Provider:
    """A compiled provider, from which instances are created."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Compiles a component, or loads it from Wasmtime's cache."""
        self._engine = _engine(_STACK_BYTES)
        self._component = component.Component.from_file(self._engine, os.fspath(path))

    def _instantiate(self, answers: Answers) -> _Instance:
        linker = component.Linker(self._engine)
        linker.allow_shadowing = True
        store = wasmtime.Store(self._engine)
        wanted = self._component.type.imports(self._engine)
        if any(name.startswith("wasi:") for name in wanted):
            # Clocks are the providers' only WASI imports.
            store.set_wasi(wasmtime.WasiConfig())
            linker.add_wasip2()
        if _TOOLS in wanted:
            with linker.root() as root, root.add_instance(_TOOLS) as tools:
                tools.add_func("list-tools", answers.list_tools)
                tools.add_func("call", answers.call)
        return _Instance(store, linker.instantiate(store, self._component))


@dataclass
class _Instance:
    store: wasmtime.Store
    exports: component.Instance
    functions: dict[str, component.Func] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)

    def call(self, name: str, *arguments: Any) -> Any:
        return self.function(name)(self.store, *arguments)

    def answers(self) -> bool:
        """Returns `True` if the instance can be entered, which is impossible after a trap."""
        try:
            self.call("info")
        except wasmtime.WasmtimeError:
            return False
        return True

    def function(self, name: str) -> component.Func:
        if name not in self.functions:
            sandbox = self.exports.get_export_index(self.store, _SANDBOX)
            index = sandbox and self.exports.get_export_index(self.store, name, sandbox)
            function = index and self.exports.get_func(self.store, index)
            if not function:
                raise ValueError(f"the component is not a provider: it does not export `{name}` of `{_SANDBOX}`")
            self.functions[name] = function
        return self.functions[name]


class Sandbox:
    """An instance of a provider. After a trap, a new instance replaces the old one.

    Only one thread may use the sandbox at a time.
    """

    def __init__(
        self, provider: Provider | str | os.PathLike[str], tools: Sequence[Tool] | Answers = ()
    ) -> None:
        """Creates a sandbox from a provider, or from the path of its component. Closed providers support no tools."""
        self._provider = provider if isinstance(provider, Provider) else Provider(provider)
        self._answers = tools if isinstance(tools, Answers) else Answers(tools)
        self._instance: _Instance | None = None
        self._current()

    def info(self) -> types.ProviderInfo:
        """Returns the provider's description."""
        info: types.ProviderInfo = lift(types.ProviderInfo, self._enter("info"))
        return info

    def default_policy(self) -> types.Policy:
        """Returns the default policy, with a value in every field."""
        policy: types.Policy = lift(types.Policy, self._enter("default-policy"))
        return policy

    def execute(
        self, script: str | types.Request, *, runtime: str | None = None, policy: types.Policy | None = None
    ) -> types.Execution:
        """Runs a script in a new interpreter, and drops the interpreter.

        Also returns an execution if the script raises an exception or reaches a limit. `runtime` is `python`,
        `javascript`, or the name of a runtime that `info` lists. Default: the provider's first runtime.
        """
        execution: types.Execution = self._call(types.Execution, "execute", *self._script(script, runtime, policy))
        return execution

    def execute_with_files(
        self, script: str | types.Request, *, runtime: str | None = None, policy: types.Policy | None = None
    ) -> tuple[types.Execution, dict[str, bytes], list[types.FileEntry]]:
        """Like `execute`, but also returns the files that the script left: their contents and their entries."""
        no_tools, no_answers = lower(list[types.Tool], []), lower(list[types.ToolAnswer], [])
        started = self._call(object, "start", *self._script(script, runtime, policy), no_tools)
        try:
            step = self._call(types.Step, "[method]started.continue", started, no_answers, None)
            while not isinstance(step, types.StepDone):
                step = self._call(types.Step, "[method]started.continue", started, no_answers, None)
            files = self._call(object, "[method]started.files", started)
            try:
                entries: list[types.FileEntry] = self._call(list[types.FileEntry], "[method]files.list", files, "**")
                contents = {entry.path: self._read(files, entry.path) for entry in entries if entry.kind == "file"}
            finally:
                self._drop(files)
        finally:
            self._drop(started)
        return step.value, contents, entries

    def validate(
        self, script: str | types.Request, *, runtime: str | None = None, policy: types.Policy | None = None
    ) -> list[types.Diagnostic]:
        """Parses a source with the language's own parser and returns its messages: an empty list if the source is
        well-formed. Executes nothing."""
        arguments = self._script(script, runtime, policy)
        diagnostics: list[types.Diagnostic] = self._call(list[types.Diagnostic], "validate", *arguments)
        return diagnostics

    def open(
        self, *, runtime: str | None = None, policy: types.Policy | None = None, context: object = None
    ) -> Session:
        """Opens a session: an interpreter that persists between executions. `context` becomes the global variable of
        that name."""
        handle = self._call(object, "[static]session.open", *self._terms(runtime, policy), self._options(context))
        return self._keep(handle)

    def resume(
        self, state: bytes, *, runtime: str | None = None, policy: types.Policy | None = None, context: object = None
    ) -> Session:
        """Restores a session from the bytes that `hibernate` returned, in this or another process. The bytes grant no
        rights."""
        terms, options = self._terms(runtime, policy), self._options(context)
        blob = self._enter("[constructor]blob")
        try:
            for at in range(0, len(state), _PIECE_BYTES):
                self._call(object, "[method]blob.append", blob, state[at : at + _PIECE_BYTES])
            handle = self._call(object, "[static]session.resume", terms[0], blob, terms[1], options)
        finally:
            self._drop(blob)
        return self._keep(handle)

    def _script(self, script: str | types.Request, runtime: str | None, policy: types.Policy | None) -> tuple[Any, Any, Any]:
        of, terms = self._terms(runtime, policy)
        return of, _request(script), terms

    def _terms(self, runtime: str | None, policy: types.Policy | None) -> tuple[Any, Any]:
        name = runtime if runtime is not None else self.info().runtimes[0].name
        known: dict[str, types.Runtime] = {"python": types.RuntimePython(), "javascript": types.RuntimeJavascript()}
        of = known.get(name) or types.RuntimeNamed(name)
        return lower(types.Runtime, of), lower(types.Policy, policy or types.Policy())

    @staticmethod
    def _options(context: object) -> Any:
        text = None if context is None else json.dumps(context)
        return lower(types.SessionOptions, types.SessionOptions(context=text))

    def _current(self) -> _Instance:
        if self._instance is None:
            self._instance = self._provider._instantiate(self._answers)
        return self._instance

    def _keep(self, handle: Any) -> Session:
        instance = self._current()
        session = Session(self, instance, handle, self._enter("[method]session.id", handle))
        instance.sessions[id(session)] = session
        return session

    def _read(self, files: Any, path: str) -> bytes:
        return _pieces(lambda at: self._call(bytes, "[method]files.read", files, path, at, _PIECE_BYTES))

    def _enter(self, name: str, *arguments: Any) -> Any:
        """Calls into the instance. All calls use this method, so that no call enters an instance that has trapped."""
        instance = self._current()
        try:
            return instance.call(name, *arguments)
        except wasmtime.WasmtimeError as error:
            raise self._lose(instance) from error
        except Exception as error:
            # A value that cannot be lowered is detected before the instance is entered, so the instance still answers.
            if instance.answers():
                raise
            raise self._lose(instance) from error

    def _call(self, ok: Any, name: str, *arguments: Any) -> Any:
        is_ok, value = lift_result(ok, self._enter(name, *arguments))
        if not is_ok:
            raise RefusedError(value)
        return value

    def _lose(self, instance: _Instance) -> InstanceLostError:
        lost = [session.id for session in instance.sessions.values()]
        instance.sessions.clear()
        self._instance = None
        return InstanceLostError(lost)

    def _drop(self, handle: Any) -> None:
        """Drops a handle, unless it was lost with its instance."""
        if self._instance is not None:
            try:
                handle.drop(self._instance.store)
            except wasmtime.WasmtimeError as error:
                raise self._lose(self._instance) from error


class Session:
    """An interpreter whose variables, functions, imports and files persist between executions."""

    def __init__(self, sandbox: Sandbox, instance: _Instance, handle: Any, name: str) -> None:
        """Use `Sandbox.open` to open a session."""
        self._sandbox = sandbox
        self._instance = instance
        self._handle = handle
        self.id = name
        """The session's ID. The provider chooses it, and it is not a secret."""

    def info(self) -> types.SessionInfo:
        """Returns the session's state after its last execution."""
        info: types.SessionInfo = lift(types.SessionInfo, self._enter("info"))
        return info

    def execute(self, script: str | types.Request) -> types.Execution:
        """Runs a script in the session's interpreter."""
        execution: types.Execution = self._call(types.Execution, "execute", _request(script))
        return execution

    def get_variable(self, name: str) -> types.GuestValue | None:
        """Returns a global variable, or `None` if there is no such variable."""
        value: types.GuestValue | None = self._call(types.GuestValue | None, "get-variable", name)
        return value

    def set_variable(self, name: str, value: object) -> None:
        """Sets a global variable to a value that JSON can represent."""
        self._call(object, "set-variable", name, json.dumps(value))

    def list_files(self, pattern: str = "**") -> list[types.FileEntry]:
        """Lists the entries of the workspace that match a pattern. Default: everything."""
        files = self._call(object, "files")
        try:
            entries: list[types.FileEntry] = self._sandbox._call(list[types.FileEntry], "[method]files.list", files, pattern)
            return entries
        finally:
            self._sandbox._drop(files)

    def read_file(self, path: str) -> bytes:
        """Reads a whole file."""
        files = self._call(object, "files")
        try:
            return self._sandbox._read(files, path)
        finally:
            self._sandbox._drop(files)

    def write_file(self, path: str, contents: bytes) -> None:
        """Writes or replaces a file. Creates missing parent directories."""
        self._call(object, "write-file", path, contents, "replace")

    def delete_file(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, a link or a directory; with `recursive`, also everything below a directory."""
        self._call(object, "delete-file", path, recursive)

    def fork(self) -> Session:
        """Creates a second session with the same state. Later changes in either session do not affect the other."""
        return self._sandbox._keep(self._call(object, "fork"))

    def checkpoint(self) -> int:
        """Takes a checkpoint of the state for `undo_to`."""
        checkpoint: int = self._call(int, "checkpoint")
        return checkpoint

    def checkpoints(self) -> list[types.CheckpointInfo]:
        """Returns the session's checkpoints, oldest first."""
        checkpoints: list[types.CheckpointInfo] = self._call(list[types.CheckpointInfo], "checkpoints")
        return checkpoints

    def undo(self) -> int:
        """Restores the last checkpoint that differs from the current state, and returns its ID."""
        checkpoint: int = self._call(int, "undo")
        return checkpoint

    def undo_to(self, checkpoint: int) -> None:
        """Restores a checkpoint and discards later ones."""
        self._call(object, "undo-to", checkpoint)

    def hibernate(self) -> bytes:
        """Returns the session as bytes, for `Sandbox.resume` with any provider that has the same runtime."""
        blob = self._call(object, "hibernate")
        try:
            return _pieces(lambda at: self._sandbox._enter("[method]blob.read", blob, at, _PIECE_BYTES))
        finally:
            self._sandbox._drop(blob)

    def close(self) -> None:
        """Runs the interpreter's exit handlers, ends the session and releases its resources. Closing it again has no
        effect."""
        if self._is_there():
            try:
                self._call(object, "close")
            finally:
                self._forget()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._forget()

    def _is_there(self) -> bool:
        return id(self) in self._instance.sessions

    def _forget(self) -> None:
        if self._instance.sessions.pop(id(self), None) is not None:
            self._sandbox._drop(self._handle)

    def _enter(self, name: str, *arguments: Any) -> Any:
        if not self._is_there():
            ended = f"the session `{self.id}` is closed, or was lost with its instance; open a new one"
            raise RefusedError(types.SandboxErrorSessionEnded(ended))
        return self._sandbox._enter(f"[method]session.{name}", self._handle, *arguments)

    def _call(self, ok: Any, name: str, *arguments: Any) -> Any:
        is_ok, value = lift_result(ok, self._enter(name, *arguments))
        if not is_ok:
            raise RefusedError(value)
        return value


def _pieces(read: Any) -> bytes:
    parts: list[bytes] = []
    while not parts or len(parts[-1]) == _PIECE_BYTES:
        parts.append(read(sum(map(len, parts))))
    return b"".join(parts)


def _request(script: str | types.Request) -> Any:
    request = types.Request(source=script) if isinstance(script, str) else script
    return lower(types.Request, request)
