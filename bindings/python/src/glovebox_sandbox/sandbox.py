"""Sandboxes and sessions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import _check, _native_backend
from ._backend import Backend, BackendSession, Commit, Mount, Policy
from ._input import _input
from ._options import policy_of
from .errors import GloveboxError, SessionError, UnavailableError, UnsupportedError
from .network import Network
from .run import Diagnostic, Run, entries, value_of
from .tools import Await, Tool, await_here
from .types import CheckpointInfo, FileEntry, Limits, SessionInfo, SourceKind
from .waiting import Startable, WaitingCall, suspending_backend, waiting_calls

T = TypeVar("T")

Kind = Literal["native", "component", "daemon", "unsafe-native"]
"""The kinds of backends."""

_BACKENDS = (None, "auto", "wasm", "native", "component", "daemon")


def choose(backend: str | None, unsafe_native: bool) -> str:
    """Returns the requested backend. Only the name and the flag together select the backend without a sandbox."""
    if backend not in _BACKENDS:
        raise TypeError(f"backend must be one of {', '.join(map(repr, _BACKENDS[1:]))}, not {backend!r}")
    if not unsafe_native:
        return backend or "wasm"
    if backend != "native":
        raise TypeError(
            'unsafe_native=True requires an explicit backend="native": it runs scripts in an ordinary Python '
            "interpreter, without a sandbox, where they can read and write your files, use the network and start programs"
        )
    return "unsafe-native"


def _say(text: str) -> None:
    print(f"glovebox: {text}", file=sys.stderr, flush=True)


class Sandbox(Startable):
    """A sandbox for scripts of one language. Every `execute` starts a new interpreter with new files.

    >>> with Sandbox("python") as box:
    ...     box.execute("print(6 * 7)").stdout
    '42\\n'

    With the native backend, any number of threads may execute scripts concurrently.
    """

    def __init__(
        self,
        language: str = "python",
        *,
        backend: Literal["auto", "wasm", "native", "component", "daemon"] | None = None,
        unsafe_native: bool = False,
        limits: Limits | None = None,
        workspace: str | os.PathLike[str] | None = None,
        commit: Commit = "always",
        mounts: Mapping[str, str | os.PathLike[str] | Mount] | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        files: Mapping[str, str | bytes] | None = None,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        seed: int | None = None,
        clock_ns: int | None = None,
        checkpoints: Literal["auto", "always", "never"] | int | None = None,
        on_unwind: Literal["roll-back", "end"] | None = None,
        auto_persist_globals: bool = False,
        metering: Literal["fuel", "none"] = "fuel",
        packages: bool | None = None,
        network: Network | None = None,
        provider: str | os.PathLike[str] | None = None,
        progress: Callable[[str], None] | None = _say,
    ) -> None:
        """Prepares the interpreter if it is not prepared yet, which takes seconds the first time and milliseconds
        afterwards.

        `language` is `python`, `javascript`, or the name of a runtime, such as `python-3.15` or a custom image
        (`glovebox image`).

        `backend` is `native`, the engine in this process, or `component`, which runs a provider component on every
        platform that `wasmtime` supports. The default, `wasm`, is the first of these that is available. `daemon` runs
        the scripts in `glovebox daemon`. `auto` uses a daemon if one answers and supports the options, and no tool has
        `waits=True`; otherwise, it is `wasm`. `provider` is the component's file.

        `unsafe_native=True` with `backend="native"` runs scripts in an ordinary Python interpreter in another process,
        WITHOUT a sandbox. The scripts can read and write your files, use the network and start programs. This backend
        is never chosen automatically.

        `workspace` is the host directory behind `/app`. Without it, the workspace is in memory and starts with `files`.
        `commit` selects the executions whose changes are written back to the host: `always`, `on-success` or `never`.
        `mounts` are further host directories by their paths in the sandbox.

        `tools` are functions that scripts can call. `env` and `args` are the scripts' environment variables and
        arguments. `seed` makes random numbers reproducible. `clock_ns` fixes the clock at a time in nanoseconds since
        1970.

        `checkpoints` is the schedule of automatic checkpoints in sessions. `on_unwind` determines whether a session
        whose script was stopped by force is rolled back or ends. `auto_persist_globals` keeps variables between
        executions, if JSON can represent them: it saves them in the workspace, and the next execution loads them.
        `metering="none"` counts no fuel: scripts run faster, and only the timeout stops an endless script.
        `packages=False` runs Python without the bundled packages.

        `network` grants network access to `fetch`, `urllib.request` and `requests`; by default there is none.

        `progress` is called with a description of each slow step; by default, the steps are printed to standard error.
        """
        name = _check.of("language", str, language)
        policy = policy_of(
            limits=limits,
            workspace=workspace,
            commit=commit,
            mounts=mounts,
            tools=tools,
            files=files,
            env=env,
            args=args,
            seed=seed,
            clock_ns=clock_ns,
            checkpoints=checkpoints,
            on_unwind=on_unwind,
            auto_persist_globals=auto_persist_globals,
            metering=metering,
            packages=packages,
            network=network,
        )
        path = None if provider is None else _check.path("provider", provider)
        chosen = choose(backend, _check.of("unsafe_native", bool, unsafe_native))
        self._open(name, chosen, policy, path, _check.callback("progress", progress), await_here)

    def _open(
        self,
        name: str,
        backend: str | None,
        policy: Policy,
        provider: str | None,
        progress: Callable[[str], None] | None,
        wait: Await,
    ) -> None:
        kind: Kind = "component"
        opened: Backend | None = None
        waits = any(tool.waits for tool in policy.tools)
        if waits and backend == "auto":
            backend = "wasm"
        if backend in ("auto", "daemon"):
            # Imported here, because the module imports an HTTP client, which other backends do not need.
            from . import _daemon_backend
        if backend == "auto":
            try:
                kind, opened = "daemon", _daemon_backend.open_backend(name, policy, wait)
            except GloveboxError:
                # No daemon answers, or the daemon does not support the options. This process opens the sandbox, or
                # raises an error with the reason.
                backend = "wasm"
        if backend == "wasm":
            backend = "native" if _native_backend.is_here() else "component"
        if waits and backend == "component":
            raise UnsupportedError(
                'tools: a tool with waits=True needs backend="native" or "daemon"; remove the tool, or use one of them'
            )
        if backend == "daemon":
            kind, opened = "daemon", _daemon_backend.open_backend(name, policy, wait)
        elif backend == "unsafe-native":
            from . import _unsafe_native

            kind, opened = "unsafe-native", _unsafe_native.open_backend(name, policy, wait)
        elif backend == "native":
            if not _native_backend.is_here():
                raise UnavailableError(
                    'this package has no native module for this platform; use backend="component", or a platform that has a wheel'
                )
            kind, opened = "native", _native_backend.open_backend(name, policy, wait, progress)
        elif opened is None:
            from . import _component_backend

            opened = _component_backend.open_backend(name, policy, wait, provider)
        self._opened: Backend | None = opened
        self._tools = policy.tools
        self.backend: Kind = kind
        """The backend of the sandbox."""

    @property
    def _backend(self) -> Backend:
        if self._opened is None:
            raise SessionError("the sandbox was closed; create a new one")
        return self._opened

    @property
    def language(self) -> str:
        """`python` or `javascript`."""
        return self._backend.language

    @property
    def runtime_name(self) -> str:
        """The name of the runtime."""
        return self._backend.runtime_name

    @property
    def version(self) -> str | None:
        """The interpreter's version."""
        return self._backend.version

    def execute(
        self,
        source: str,
        *,
        name: str | None = None,
        kind: SourceKind | None = None,
        stdin: str | bytes | None = None,
        context: Any = None,
        timeout_ms: int | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> Run:
        """Runs a script in a new interpreter, and drops the interpreter.

        Also returns a `Run` if the script raises an exception or reaches a limit. `name` is the file name in
        tracebacks; a name that ends in `.ts` marks the script as TypeScript. `context` is a value that JSON can
        represent, for the script's global variable of that name. The execution is cancelled after `timeout_ms`.

        `on_stdout` and `on_stderr` are called on this thread with the script's output as it is written; with a
        component, after the script has ended. If one of them raises an exception, the execution is cancelled and the
        exception is raised again.
        """
        return Run(
            self._backend.execute(_input(source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr, None))
        )

    def validate(
        self, source: str, *, name: str | None = None, kind: SourceKind | None = None, types: bool = False
    ) -> list[Diagnostic]:
        """Parses a source with the language's own parser and returns its messages: an empty list if the source is
        well-formed. Executes nothing.

        `types=True` also checks the types of a well-formed Python script, for example the arguments of its tool calls.
        The native backend downloads the type checker on first use. A daemon requires `--types`. Other backends raise
        `UnsupportedError`.
        """
        input = _input(source, name, kind, None, None, None, None, None, None)
        is_typed = _check.of("types", bool, types)
        if is_typed:
            self._check_supports_types()
        backend = self._backend
        found = backend.validate(input)
        if is_typed and not found:
            from . import _types

            if isinstance(backend, _types.TypeCheckingBackend):
                found = backend.type_errors(input)
            else:
                found = _types.find_with_command(backend.runtime_name, self._tools, source)
        return [Diagnostic(*each) for each in found]

    def _check_supports_types(self) -> None:
        if self.language != "python":
            raise UnsupportedError("types: type checks support only Python; remove types")
        if self.backend not in ("native", "daemon"):
            raise UnsupportedError(
                f'types: backend="{self.backend}" checks no types; use backend="native", or "daemon" with `glovebox daemon --types`'
            )

    def session(self, *, context: Any = None, id: str | None = None) -> Session:
        """Opens a session: an interpreter that persists between executions. `context` becomes the global variable of
        that name."""
        backend = self._backend
        return Session(backend.session(_check.optional("id", str, id), _json("context", context)), backend, self._tools)

    def resume(self, state: bytes, *, id: str | None = None) -> Session:
        """Restores a session from the bytes that `Session.hibernate` returned, in this or another process.

        Resuming bytes from another author runs that author's code, within this sandbox's limits.
        """
        backend = self._backend
        restored = backend.resume(_check.of("state", bytes, state), _check.optional("id", str, id))
        return Session(restored, backend, self._tools)

    def _startable(self) -> object:
        return self._backend

    def _own_session(self) -> None:
        return None

    def _fork_place(self, state: bytes) -> Sandbox:
        return self

    def suspended_calls(self, state: bytes) -> list[WaitingCall]:
        """Returns the calls that a suspended run waits for, without running anything. `state` is the result of
        `WaitingRun.suspend`."""
        return waiting_calls(suspending_backend(self._backend).suspended_calls(_check.of("state", bytes, state)))

    def resume_suspended_session(self, state: bytes, *, id: str | None = None) -> Session:
        """Restores the session of a suspended run, in its state before the run. The session's `resume_suspended` then
        resumes the run.

        The interpreter's random number generators have the same state in all sessions that are restored from these
        bytes.
        """
        return _restored(self._backend, _check.of("state", bytes, state), _check.optional("id", str, id), self._tools)

    def close(self) -> None:
        """Releases the sandbox's resources. Its sessions continue."""
        self._opened = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandbox: {self._opened.runtime_name}, {self.backend}>" if self._opened else "<Sandbox: closed>"


class Session(Startable):
    """An interpreter whose variables, functions, imports and files persist between executions."""

    def __init__(self, session: BackendSession, backend: Backend, tools: Sequence[Tool] = ()) -> None:
        """Use `Sandbox.session` to open a session."""
        self._session = session
        self._backend = backend
        self._tools = tools

    @property
    def id(self) -> str:
        """The session's ID, which is not a secret."""
        return self._session.id

    @property
    def ended(self) -> str | None:
        """The reason for the end of the session, if it has ended."""
        return self._session.ended

    @property
    def info(self) -> SessionInfo:
        """The session's state after its last execution."""
        return SessionInfo(**json.loads(self._session.info()))

    @property
    def variables(self) -> Variables:
        """The session's global variables."""
        return Variables(self._session)

    @property
    def files(self) -> SessionFiles:
        """The files of the session's workspace, `/app`."""
        return SessionFiles(self._session)

    def execute(
        self,
        source: str,
        *,
        name: str | None = None,
        kind: SourceKind | None = None,
        stdin: str | bytes | None = None,
        context: Any = None,
        timeout_ms: int | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> Run:
        """Runs a script in the session's interpreter. `Run.value` is the value of its last expression."""
        return Run(
            self._session.execute(_input(source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr, None))
        )

    def validate(
        self, source: str, *, name: str | None = None, kind: SourceKind | None = None, types: bool = False
    ) -> list[Diagnostic]:
        """Parses a source like `Sandbox.validate`. Executes nothing.

        `types=True` also checks the types of a well-formed Python script, against the tools and the session's variables.
        Requires `backend="native"` or `backend="daemon"`, and for `types` a daemon with `--types`. Other backends raise
        `UnsupportedError`. The native backend downloads the type checker on first use.
        """
        from . import _types

        input = _input(source, name, kind, None, None, None, None, None, None)
        is_typed = _check.of("types", bool, types)
        session, backend = self._session, self._backend
        if isinstance(session, _types.ValidatingSession):
            return [Diagnostic(*each) for each in session.diagnostics(input, is_typed)]
        if not isinstance(session, _types.DescribingSession):
            raise UnsupportedError(
                'validate: only native and daemon sessions support validation; use backend="native" or "daemon", or '
                "`Sandbox.validate`"
            )
        if is_typed and backend.language != "python":
            raise UnsupportedError("types: type checks support only Python; remove types")
        found = backend.validate(input)
        if is_typed and not found:
            variables = session.described_variables() or "null"
            found = _types.find_with_command(backend.runtime_name, self._tools, source, variables)
        return [Diagnostic(*each) for each in found]

    def _startable(self) -> object:
        return self._session

    def _own_session(self) -> Session:
        return self

    def _fork_place(self, state: bytes) -> Session:
        return _restored(self._backend, state, None, self._tools)

    def fork(self, *, context: Any = None, id: str | None = None) -> Session:
        """Creates a second session with the same state. Later changes in either session do not affect the other."""
        fork = self._session.fork(_check.optional("id", str, id), _json("context", context))
        return Session(fork, self._backend, self._tools)

    def checkpoint(self) -> int:
        """Takes a checkpoint of the state for `undo`, and returns its ID."""
        return self._session.checkpoint()

    def checkpoints(self) -> list[CheckpointInfo]:
        """Returns the session's checkpoints, oldest first."""
        return [CheckpointInfo(**each) for each in json.loads(self._session.checkpoints())]

    def undo(self, checkpoint: int | None = None) -> int:
        """Restores a checkpoint; by default, undoes the last change: an execution, or a write to a file or variable.
        Returns the ID of the restored checkpoint.

        Files that were written to the host remain.
        """
        return self._session.undo(None if checkpoint is None else _check.whole("checkpoint", checkpoint))

    def hibernate(self) -> bytes:
        """Returns the session as bytes, for `Sandbox.resume` in any process on any machine that has the same
        interpreter. The session continues."""
        return self._session.hibernate()

    def close(self) -> None:
        """Runs the interpreter's exit handlers and ends the session. Closing it again has no effect."""
        self._session.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.id}>"


class Variables:
    """A session's global variables, by name."""

    __slots__ = ("_session",)

    def __init__(self, session: BackendSession) -> None:
        """Use `Session.variables`."""
        self._session = session

    def __getitem__(self, name: str) -> Any:
        """Returns a variable's value: an `Opaque` if JSON cannot represent it."""
        value = self._session.get_variable(_check.of("name", str, name))
        if value is None:
            raise KeyError(name)
        return value_of(value)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a variable's value, or `default` if there is no such variable."""
        try:
            return self[name]
        except KeyError:
            return default

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets a variable to a value that JSON can represent."""
        self._session.set_variable(_check.of("name", str, name), _check.as_json("value", value))

    def __contains__(self, name: object) -> bool:
        return self._session.get_variable(_check.of("name", str, name)) is not None


class SessionFiles:
    """The files of a session's workspace. Paths are relative to `/app`."""

    __slots__ = ("_session",)

    def __init__(self, session: BackendSession) -> None:
        """Use `Session.files`."""
        self._session = session

    def list(self, pattern: str = "**") -> list[FileEntry]:
        """Lists the files, directories and links that match a pattern (`*.csv`, `src/**/*.py`)."""
        return entries(self._session.list_files(_check.of("pattern", str, pattern)))

    def read(self, path: str) -> bytes:
        """Returns a file's contents."""
        return self._session.read_file(_check.of("path", str, path))

    def write(self, path: str, contents: str | bytes) -> None:
        """Writes or replaces a file. Creates missing parent directories."""
        self._session.write_file(_check.of("path", str, path), _check.contents("contents", contents))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, a link or a directory; with `recursive`, also everything below a directory."""
        self._session.delete_file(_check.of("path", str, path), _check.of("recursive", bool, recursive))


def _restored(backend: Backend, state: bytes, id: str | None, tools: Sequence[Tool]) -> Session:
    """Restores the session of a suspended run, in its state before the run."""
    return Session(suspending_backend(backend).resume_suspended_session(state, id), backend, tools)


def _json(name: str, value: Any) -> str | None:
    return None if value is None else _check.as_json(name, value)
