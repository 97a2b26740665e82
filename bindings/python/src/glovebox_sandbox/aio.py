"""Sandboxes and sessions for asynchronous code."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from . import _check, _native_backend
from ._backend import Backend, Policy
from ._input import _input, listener_of
from .run import Diagnostic, Run
from .sandbox import Sandbox, Session
from .tools import Await, CancelToken, Token
from .types import CheckpointInfo, FileEntry, SessionInfo, SourceKind
from .waiting import WaitingCall, WaitingRun, resume, start

P = ParamSpec("P")
T = TypeVar("T")

_MOST_THREADS = 64
"""Maximum number of concurrent executions of one sandbox, 1 with a component. Further executions wait."""


class _Threads:
    """The threads that run a sandbox's guests."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="glovebox")
        self.token: Callable[[], Any] = lambda: _native_backend.token() if _native_backend.is_here() else None
        """Creates the token that cancels an execution."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function on one of the threads."""
        return await asyncio.shield(self._submit(functools.partial(call, *args, **kwargs)))

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        if self._executor is None:
            raise RuntimeError("the sandbox was closed; create a new one")
        context = contextvars.copy_context()
        return asyncio.get_running_loop().run_in_executor(self._executor, functools.partial(context.run, call))

    async def run_cancellable(self, call: Callable[[Any], T], token: Any = None) -> T:
        """Like `run`, but passes a cancellation token, by default a new one. A cancelled task cancels its execution,
        and raises after the execution has ended. Without a native module, there is no token: the task raises
        immediately.
        """
        token = self.token() if token is None else token
        future = self._submit(functools.partial(call, token))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if token is not None:
                token.cancel()
                await asyncio.wait([future])
            raise

    def limit(self) -> None:
        """Reduces the threads to one, because a component's instance serves one caller at a time."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="glovebox")

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self._executor = None


class _ThreadedSandbox(Sandbox):
    """A sandbox that opens on a worker thread after its options have been checked. Its `async` tools run on the
    caller's loop."""

    def _open(
        self,
        name: str,
        backend: str | None,
        policy: Policy,
        provider: str | None,
        progress: Callable[[str], None] | None,
        wait: Await,
    ) -> None:
        self._described = (name, backend, policy, provider, progress)
        self._opened = None

    def open(self, wait: Await) -> None:
        """Opens the sandbox with the options that `_open` recorded."""
        super()._open(*self._described, wait)


class AsyncSandbox:
    """Like `Sandbox`, for asynchronous code. A cancelled task cancels its execution.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncSandbox("python") as box:
    ...         return (await box.execute("print(6 * 7)")).stdout
    >>> asyncio.run(main())
    '42\\n'

    Guests run on up to 64 threads; `async` tools run on the loop. The interpreter is prepared when the sandbox is
    entered or first used. With a component, a cancelled execution continues until it ends, and the next execution waits
    for it.
    """

    def __init__(self, language: str = "python", **options: Any) -> None:
        """Accepts the options of `Sandbox`."""
        self._sandbox = _ThreadedSandbox(language, **options)
        self._threads = _Threads()
        self._lock = asyncio.Lock()
        self._is_open = False

    async def _ready(self) -> Sandbox:
        async with self._lock:
            if not self._is_open:
                loop = asyncio.get_running_loop()
                asked = self._sandbox._described[1]
                is_here = asked == "native" or (asked in ("auto", "wasm") and _native_backend.is_here())
                if not is_here and asked not in ("daemon", "unsafe-native"):
                    self._threads.limit()

                def wait(coroutine: Coroutine[Any, Any, Any], token: Token) -> Any:
                    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
                    while True:
                        try:
                            return future.result(timeout=0.05)
                        except TimeoutError:
                            if future.done():
                                raise
                            if token.is_cancelled:
                                future.cancel()

                await self._threads.run(self._sandbox.open, wait)
                if self._sandbox.backend in ("daemon", "unsafe-native"):
                    self._threads.token = CancelToken
                self._is_open = True
        return self._sandbox

    async def execute(
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
        """Like `Sandbox.execute`. The callbacks are called on the execution's thread."""
        backend: Backend = (await self._ready())._backend
        given = (source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr)
        return Run(await self._threads.run_cancellable(lambda token: backend.execute(_input(*given, token))))

    async def start(
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
    ) -> Run | AsyncWaitingRun:
        """Like `Sandbox.start`. The callbacks are called on the execution's thread."""
        box = await self._ready()
        given = (source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr)
        return await _advance(self, lambda token: start(box, _input(*given, token)))

    async def resume_suspended(
        self,
        state: bytes,
        answers: Mapping[int, Any] | None = None,
        *,
        denied: Mapping[int, str] | None = None,
        failed: Mapping[int, str] | None = None,
        timeout_ms: int | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> Run | AsyncWaitingRun:
        """Like `Sandbox.resume_suspended`. The callbacks are called on the execution's thread."""
        box = await self._ready()
        listener, given = listener_of(on_stdout, on_stderr), (answers, denied, failed)
        return await _advance(self, lambda token: resume(box, state, timeout_ms, listener, token, *given))

    async def suspended_calls(self, state: bytes) -> list[WaitingCall]:
        """Like `Sandbox.suspended_calls`."""
        return await self._threads.run((await self._ready()).suspended_calls, state)

    def resume_suspended_session(self, state: bytes, *, id: str | None = None) -> AsyncSession:
        """Like `Sandbox.resume_suspended_session`. The session opens when it is entered or first used."""
        return AsyncSession(self, lambda box: box.resume_suspended_session(state, id=id))

    async def validate(
        self, source: str, *, name: str | None = None, kind: SourceKind | None = None, types: bool = False
    ) -> list[Diagnostic]:
        """Like `Sandbox.validate`."""
        return await self._threads.run((await self._ready()).validate, source, name=name, kind=kind, types=types)

    def session(self, *, context: Any = None, id: str | None = None) -> AsyncSession:
        """Like `Sandbox.session`. The session opens when it is entered or first used."""
        return AsyncSession(self, lambda box: box.session(context=context, id=id))

    def resume(self, state: bytes, *, id: str | None = None) -> AsyncSession:
        """Like `Sandbox.resume`. The session opens when it is entered or first used."""
        return AsyncSession(self, lambda box: box.resume(state, id=id))

    async def close(self) -> None:
        """Releases the sandbox's resources."""
        self._sandbox.close()
        self._threads.close()

    async def __aenter__(self) -> AsyncSandbox:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class AsyncSession:
    """Like `Session`, for asynchronous code."""

    def __init__(self, sandbox: AsyncSandbox, make: Callable[[Sandbox], Session]) -> None:
        """Use `AsyncSandbox.session` to open a session."""
        self._sandbox = sandbox
        self._make = make
        self._lock = asyncio.Lock()
        self._session: Session | None = None

    async def _ready(self) -> Session:
        async with self._lock:
            if self._session is None:
                self._session = await self._sandbox._threads.run(self._make, await self._sandbox._ready())
            return self._session

    async def _run(self, call: Callable[[Session], T]) -> T:
        return await self._sandbox._threads.run(call, await self._ready())

    @property
    def id(self) -> str:
        """The session's ID. Raises `RuntimeError` before the session is open."""
        if self._session is None:
            raise RuntimeError("the session has not been entered; use `async with`")
        return self._session.id

    async def info(self) -> SessionInfo:
        """Like `Session.info`."""
        return await self._run(lambda session: session.info)

    async def execute(
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
        """Like `Session.execute`. The callbacks are called on the execution's thread."""
        session = (await self._ready())._session
        given = (source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr)
        run = self._sandbox._threads.run_cancellable(lambda token: session.execute(_input(*given, token)))
        return Run(await run)

    async def start(
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
    ) -> Run | AsyncWaitingRun:
        """Like `Session.start`. The callbacks are called on the execution's thread."""
        session = await self._ready()
        given = (source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr)
        return await _advance(self._sandbox, lambda token: start(session, _input(*given, token)))

    async def resume_suspended(
        self,
        state: bytes,
        answers: Mapping[int, Any] | None = None,
        *,
        denied: Mapping[int, str] | None = None,
        failed: Mapping[int, str] | None = None,
        timeout_ms: int | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> Run | AsyncWaitingRun:
        """Like `Session.resume_suspended`. The callbacks are called on the execution's thread."""
        session = await self._ready()
        listener, given = listener_of(on_stdout, on_stderr), (answers, denied, failed)
        return await _advance(
            self._sandbox, lambda token: resume(session, state, timeout_ms, listener, token, *given)
        )

    async def validate(
        self, source: str, *, name: str | None = None, kind: SourceKind | None = None, types: bool = False
    ) -> list[Diagnostic]:
        """Like `Session.validate`."""
        return await self._run(lambda session: session.validate(source, name=name, kind=kind, types=types))

    async def get_variable(self, name: str, default: Any = None) -> Any:
        """Returns a global variable, or `default` if there is no such variable."""
        return await self._run(lambda session: session.variables.get(name, default))

    async def set_variable(self, name: str, value: Any) -> None:
        """Sets a global variable to a value that JSON can represent."""
        await self._run(lambda session: session.variables.__setitem__(name, value))

    async def list_files(self, pattern: str = "**") -> list[FileEntry]:
        """Like `SessionFiles.list`."""
        return await self._run(lambda session: session.files.list(pattern))

    async def read_file(self, path: str) -> bytes:
        """Like `SessionFiles.read`."""
        return await self._run(lambda session: session.files.read(path))

    async def write_file(self, path: str, contents: str | bytes) -> None:
        """Like `SessionFiles.write`."""
        await self._run(lambda session: session.files.write(path, contents))

    async def delete_file(self, path: str, *, recursive: bool = False) -> None:
        """Like `SessionFiles.delete`."""
        await self._run(lambda session: session.files.delete(path, recursive=recursive))

    async def fork(self, *, context: Any = None, id: str | None = None) -> AsyncSession:
        """Like `Session.fork`."""
        return _opened(self._sandbox, await self._run(lambda session: session.fork(context=context, id=id)))

    async def checkpoint(self) -> int:
        """Like `Session.checkpoint`."""
        return await self._run(lambda session: session.checkpoint())

    async def checkpoints(self) -> list[CheckpointInfo]:
        """Like `Session.checkpoints`."""
        return await self._run(lambda session: session.checkpoints())

    async def undo(self, checkpoint: int | None = None) -> int:
        """Like `Session.undo`."""
        return await self._run(lambda session: session.undo(checkpoint))

    async def hibernate(self) -> bytes:
        """Like `Session.hibernate`."""
        return await self._run(lambda session: session.hibernate())

    async def close(self) -> None:
        """Like `Session.close`."""
        if self._session is not None:
            await self._run(lambda session: session.close())

    async def __aenter__(self) -> AsyncSession:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _opened(sandbox: AsyncSandbox, session: Session) -> AsyncSession:
    """Wraps an open session."""
    opened = AsyncSession(sandbox, lambda _: session)
    opened._session = session
    return opened


class AsyncWaitingRun:
    """Like `WaitingRun`, for asynchronous code."""

    def __init__(self, sandbox: AsyncSandbox, token: Any, run: WaitingRun) -> None:
        """Use `AsyncSandbox.start` or `AsyncSession.start` to create an instance."""
        self._sandbox = sandbox
        self._token = token
        self._run = run

    @property
    def calls(self) -> list[WaitingCall]:
        """The waiting calls, in the order in which the script made them."""
        return self._run.calls

    @property
    def session(self) -> AsyncSession | None:
        """The session in which the script runs. `None` outside sessions."""
        session = self._run.session
        return None if session is None else _opened(self._sandbox, session)

    @property
    def stdout(self) -> str:
        """Standard output so far, as text."""
        return self._run.stdout

    @property
    def stderr(self) -> str:
        """Standard error so far, as text."""
        return self._run.stderr

    async def answer(
        self,
        answers: Mapping[int, Any] | None = None,
        *,
        denied: Mapping[int, str] | None = None,
        failed: Mapping[int, str] | None = None,
    ) -> Run | AsyncWaitingRun:
        """Like `WaitingRun.answer`. A cancelled task cancels the script."""
        run = self._run
        return await _advance(
            self._sandbox, lambda _: run.answer(answers, denied=denied, failed=failed), self._token
        )

    async def suspend(self) -> bytes:
        """Like `WaitingRun.suspend`."""
        return await self._sandbox._threads.run(self._run.suspend)

    async def fork(self, count: int) -> list[AsyncWaitingRun]:
        """Like `WaitingRun.fork`."""
        threads = self._sandbox._threads
        tokens = [threads.token() for _ in range(_check.whole("count", count))]
        forks = await threads.run(self._run._fork, tokens)
        return [AsyncWaitingRun(self._sandbox, token, run) for token, run in zip(tokens, forks, strict=True)]

    def __repr__(self) -> str:
        return f"<Async{repr(self._run)[1:]}"


async def _advance(
    sandbox: AsyncSandbox, advance: Callable[[Any], Run | WaitingRun], token: Any = None
) -> Run | AsyncWaitingRun:
    """Advances a run on one of the sandbox's threads."""
    threads = sandbox._threads
    token = threads.token() if token is None else token
    run = await threads.run_cancellable(advance, token)
    return AsyncWaitingRun(sandbox, token, run) if isinstance(run, WaitingRun) else run
