"""A Jupyter kernel whose cells run in a sandbox.

`python -m glovebox_sandbox.kernel install` registers the kernel with Jupyter. Each notebook has its own interpreter, in
the kernel's process. Cells can access neither that process nor the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

try:
    from ipykernel.kernelapp import IPKernelApp
    from ipykernel.kernelbase import Kernel
except ImportError as error:
    raise ImportError("the kernel needs ipykernel; install it with: pip install 'glovebox-sandbox[kernel]'") from error

from . import __version__, _introspection, _native_backend
from ._input import _input
from ._named import MagicError, NamedSessions, split
from ._report import error_name, error_value, explain, traceback_of
from .errors import GloveboxError
from .run import Run
from .sandbox import Sandbox, Session
from .types import Limits

T = TypeVar("T")

LANGUAGES: dict[str, dict[str, Any]] = {
    "python": {
        "name": "python",
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "pygments_lexer": "python3",
        "codemirror_mode": {"name": "python", "version": 3},
        "nbconvert_exporter": "python",
    },
    "javascript": {
        "name": "javascript",
        "mimetype": "text/javascript",
        "file_extension": ".js",
        "pygments_lexer": "javascript",
        "codemirror_mode": "javascript",
    },
}
"""The kernel information for each language."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings with which a kernel is installed."""

    language: str = "python"
    runtime: str | None = None
    timeout_ms: int | None = None
    memory_bytes: int | None = None
    saves: Path | None = None

    def sandbox(self, progress: Callable[[str], None]) -> Sandbox:
        """Creates the sandbox of a kernel with these settings."""
        # Keeps the default ratio of fuel to time, so that a cell times out before it runs out of fuel.
        fuel = None if self.timeout_ms is None else 40_000_000 * max(self.timeout_ms, 10_000)
        limits = Limits(timeout_ms=self.timeout_ms, fuel=fuel, memory_bytes=self.memory_bytes)
        return Sandbox(self.runtime or self.language, limits=limits, progress=progress)


@dataclass
class _Reply:
    """The result of a cell."""

    run: Run | None = None
    value: str | None = None
    error: tuple[str, str, list[str]] | None = None
    expressions: dict[str, Any] = field(default_factory=dict)


class _Output:
    """A buffer that sends a cell's output at most every 50 ms, from the thread of the kernel's loop.

    The end of standard error is delayed a little longer: it can be the traceback of an exception, which is sent as a
    separate message.
    """

    INTERVAL = 0.05
    HOLD = 0.3

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[str, str], None]) -> None:
        self._loop = loop
        self._send = send
        self._lock = threading.Lock()
        self._pending: list[tuple[str, str, float]] = []
        self._is_scheduled = False

    def write(self, name: str, text: str) -> None:
        """Accepts text for a stream, on any thread."""
        with self._lock:
            self._pending.append((name, text, time.monotonic()))
            if self._is_scheduled:
                return
            self._is_scheduled = True
        self._loop.call_soon_threadsafe(self._loop.call_later, self.INTERVAL, self._tick)

    def end(self, run: Run | None) -> None:
        """Sends the remaining output, on the loop's thread. Omits a traceback at the end of the output, and the name of
        the limit after the traceback."""
        with self._lock:
            pending, self._pending = self._pending, []
        at = len(pending)
        while at and pending[at - 1][0] == "stderr":
            at -= 1
        last = "".join(text for _, text, _ in pending[at:])
        if run is not None and not run.ok:
            body, _, line = last.rstrip("\n").rpartition("\n")
            if run.outcome.kind == "exhausted" and line.startswith(error_name(run.outcome)):
                last = body + "\n"
            traceback = traceback_of(run)
            if traceback and last.rstrip("\n").endswith(traceback):
                last = last.rstrip("\n").removesuffix(traceback)
        self._send_all([*pending[:at], ("stderr", last, 0.0)])

    def _tick(self) -> None:
        now = time.monotonic()
        with self._lock:
            at = len(self._pending)
            while at and self._pending[at - 1][0] == "stderr" and now - self._pending[at - 1][2] < self.HOLD:
                at -= 1
            ready, self._pending = self._pending[:at], self._pending[at:]
            self._is_scheduled = bool(self._pending)
            if self._is_scheduled:
                self._loop.call_later(self.INTERVAL, self._tick)
        self._send_all(ready)

    def _send_all(self, pieces: list[tuple[str, str, float]]) -> None:
        merged: list[tuple[str, list[str]]] = []
        for name, text, _ in pieces:
            if not merged or merged[-1][0] != name:
                merged.append((name, []))
            merged[-1][1].append(text)
        for name, texts in merged:
            if text := "".join(texts):
                self._send(name, text)


class GloveboxKernel(Kernel):
    """A kernel that runs cells in a sandbox. Its sessions live on a separate thread, so that interrupts and streams are
    handled while a cell runs."""

    implementation = "glovebox"
    implementation_version = __version__
    settings = Settings()
    """The settings of the kernel, assigned before it is launched."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="glovebox")
        self._opening: Future[NamedSessions] | None = None
        self._token: Any = None
        self._output: _Output | None = None

    @property
    def language_info(self) -> dict[str, Any]:
        """The description of the language, including the interpreter's version if it is known."""
        opening = self._opening
        is_open = opening is not None and opening.done() and opening.exception() is None
        version = opening.result().box.version if is_open and opening is not None else None
        return {**LANGUAGES[self.settings.language], "version": version or ""}

    @property
    def banner(self) -> str:
        """The greeting that a console shows."""
        return f"{self.settings.runtime or self.settings.language} in a sandbox (glovebox {__version__})"

    @property
    def kernel_info(self) -> dict[str, Any]:
        """The kernel information of the base class, without the debugger and subshells, which a sandbox does not
        support."""
        info: dict[str, Any] = super().kernel_info
        return {**info, "supported_features": []}

    def start(self) -> None:
        """Starts serving requests and preparing the interpreter."""
        super().start()
        # On platforms where an interrupt is a signal, it cancels the running cell.
        signal.signal(signal.SIGINT, lambda *_: self._cancel())
        self._opening = self._worker.submit(self._open)

    def pre_handler_hook(self) -> None:
        """Does nothing: the base class would replace the signal handler that `start` installs."""

    def post_handler_hook(self) -> None:
        """Does nothing, like `pre_handler_hook`."""

    async def kernel_info_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Waits up to two seconds for the interpreter, because the reply contains its version. The first start after an
        installation can take longer."""
        if self._opening is not None:
            await asyncio.wait([asyncio.wrap_future(self._opening)], timeout=2)
        await super().kernel_info_request(stream, ident, parent)

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Cancels the running cell."""
        self._cancel()
        self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: Any = None,
        cell_id: Any = None,
    ) -> dict[str, Any]:
        """Runs a cell in the current session."""
        loop = asyncio.get_running_loop()
        parent = self.get_parent("shell")
        count: int = self.execution_count

        def publish(kind: str, content: dict[str, Any]) -> None:
            if not silent:
                self.session.send(self.iopub_socket, kind, content, parent, ident=self._topic(kind))

        output = _Output(loop, lambda name, text: publish("stream", {"name": name, "text": text}))
        token = _native_backend.token() if _native_backend.is_here() else None
        self._token, self._output = token, output
        work = functools.partial(self._cell, code, f"<cell {count}>", user_expressions or {}, output, token)
        try:
            reply = await loop.run_in_executor(self._worker, work)
        except Exception as error:
            # The frontend expects a reply after every error.
            name = type(error).__name__
            is_ours = isinstance(error, GloveboxError)
            text = str(error) if is_ours else f"{error} (this is a bug in the kernel)"
            reply = _Reply(error=(name, text, [f"{name}: {text}"]))
        finally:
            self._token = self._output = None
        output.end(reply.run)
        if not store_history and not silent:
            self._uncount()
        displays = [] if reply.run is None else reply.run.displays
        for display in displays:
            if not display.is_result:
                publish("display_data", {"data": display.bundle(), "metadata": {}})
        if reply.error is not None:
            name, value, lines = reply.error
            content = {"ename": name, "evalue": value, "traceback": lines}
            publish("error", content)
            return {"status": "error", "execution_count": count, **content}
        if reply.value is not None:
            data = {"text/plain": reply.value}
            for display in displays:
                if display.is_result:
                    data = display.bundle()
            publish("execute_result", {"execution_count": count, "data": data, "metadata": {}})
        return {
            "status": "ok",
            "execution_count": count,
            "payload": [],
            "user_expressions": reply.expressions,
        }

    async def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        """Returns completions of the session's names and their attributes."""
        nothing: tuple[list[str], int] = ([], cursor_pos)
        matches, start = await self._query(
            lambda sessions: _introspection.complete(sessions.current, self.settings.language, code, cursor_pos),
            nothing,
        )
        return {"status": "ok", "matches": matches, "cursor_start": start, "cursor_end": cursor_pos, "metadata": {}}

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Returns the signature or value, the type and the docstring of a Python name."""
        text = await self._query(
            lambda sessions: _introspection.inspect(sessions.current, self.settings.language, code, cursor_pos), None
        )
        data = {} if text is None else {"text/plain": text}
        return {"status": "ok", "found": text is not None, "data": data, "metadata": {}}

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        """Checks with the language's own parser that the code is complete."""
        return await self._query(
            lambda sessions: _introspection.is_complete(sessions.box, self.settings.language, split(code)[1]),
            {"status": "unknown"},
        )

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """Cancels the running cell and ends the sessions. After a restart, a new process opens a new session."""
        self._cancel()

        def close() -> None:
            if self._opening is not None and self._opening.done() and self._opening.exception() is None:
                self._opening.result().close()

        try:
            await asyncio.wait_for(asyncio.wrap_future(self._worker.submit(close)), timeout=5)
        except Exception:
            self.log.exception("the sessions could not be ended")
        self._worker.shutdown(wait=False, cancel_futures=True)
        return {"status": "ok", "restart": restart}

    def _uncount(self) -> None:
        self.execution_count -= 1

    def _cancel(self) -> None:
        token = self._token
        if token is not None:
            token.cancel()

    async def _query(self, query: Callable[[NamedSessions], T], otherwise: T) -> T:
        """Runs a function on the sessions' thread. Returns `otherwise` if the sandbox fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: query(self._named()))
        except GloveboxError as error:
            self.log.warning("cannot answer the request: %s", error)
            return otherwise

    def _open(self) -> NamedSessions:
        return NamedSessions(self.settings.sandbox(self._progress), self.settings.saves)

    def _named(self) -> NamedSessions:
        """Returns the sessions, on their thread. Opens the sandbox again if it failed to open earlier."""
        opening = self._opening
        if opening is None or opening.exception() is not None:
            opening = Future()
            opening.set_result(self._open())
            self._opening = opening
        return opening.result()

    def _progress(self, text: str) -> None:
        output = self._output
        if output is not None:
            output.write("stderr", f"glovebox: {text}\n")

    def _cell(
        self, code: str, name: str, expressions: dict[str, str], output: _Output, token: Any
    ) -> _Reply:
        """Runs the magics and the code of a cell, on the sessions' thread."""
        sessions = self._named()
        magics, code = split(code)
        for magic in magics:
            try:
                output.write("stdout", sessions.magic(magic) + "\n")
            except GloveboxError as error:
                kind = "UsageError" if isinstance(error, MagicError) else type(error).__name__
                return _Reply(error=(kind, str(error), [f"{kind}: {error}"]))
        reply = _Reply()
        if code.strip():
            run = reply.run = _execute(sessions.current, code, name, output, token)
            reply.value = run.value_repr
            if not run.ok:
                reply.error = (error_name(run.outcome), error_value(run.outcome), _lines(run))
            elif explanation := explain(run):
                output.write("stderr", explanation + "\n")
            if (ended := sessions.ended) is not None:
                message = f"glovebox: the session has ended: {ended}; the next cell starts a new one"
                if reply.error is not None:
                    reply.error[2].append(message)
                else:
                    output.write("stderr", message + "\n")
        if reply.error is None:
            for key, expression in expressions.items():
                reply.expressions[key] = _expression(sessions.current, self.settings.language, expression)
        return reply


def _execute(session: Session, code: str, name: str, output: _Output, token: Any) -> Run:
    out = functools.partial(output.write, "stdout")
    err = functools.partial(output.write, "stderr")
    return Run(session._session.execute(_input(code, name, None, None, None, None, out, err, token)))


def _lines(run: Run) -> list[str]:
    """Returns the lines of the traceback in an error message."""
    message = explain(run)
    if run.outcome.kind == "raised":
        # The last line of the traceback already contains the first line of the message.
        message = message.partition("\n")[2]
    return [*traceback_of(run).splitlines(), *message.splitlines()]


def _expression(session: Session, language: str, expression: str) -> dict[str, Any]:
    """Evaluates an expression of the frontend, in a fork, so that it changes nothing."""
    run = session.fork().execute(expression, name="<expression>", timeout_ms=_introspection.TIMEOUT_MS)
    if run.ok:
        nothing = "None" if language == "python" else "undefined"
        return {"status": "ok", "data": {"text/plain": run.value_repr or nothing}, "metadata": {}}
    name, value = error_name(run.outcome), error_value(run.outcome)
    return {"status": "error", "ename": name, "evalue": value, "traceback": _lines(run)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m glovebox_sandbox.kernel", description="A Jupyter kernel in a sandbox.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="install")
    install = commands.add_parser("install", help="register the kernel with Jupyter, and prepare its interpreter")
    run = commands.add_parser("run", help="run the kernel; called by Jupyter")
    for command in (install, run):
        command.add_argument("--language", choices=sorted(LANGUAGES), default=None, help="language of the cells (python)")
        command.add_argument("--runtime", metavar="NAME", help="runtime or image to use (the language's default)")
        command.add_argument("--timeout-ms", type=int, metavar="N", help="cancel a cell after N milliseconds (10000)")
        command.add_argument("--memory-bytes", type=int, metavar="N", help="memory of a session, including its files (134217728)")
        command.add_argument("--saves", type=Path, metavar="DIR", help="directory for %%save and %%load (disabled by default)")
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="install for this user (the default)")
    where.add_argument("--prefix", metavar="DIR", help="install into this directory, such as that of a virtual environment")
    install.add_argument("--name", help="the kernel's name (glovebox-LANGUAGE, or glovebox-RUNTIME)")
    install.add_argument("--display-name", help="the name shown to users")
    run.add_argument("-f", dest="connection_file", required=True, metavar="FILE", help="the connection file")
    return parser


def install(options: argparse.Namespace) -> str:
    """Writes the kernelspec, and returns its directory. Opens the sandbox once, so that invalid settings are reported
    during the installation."""
    from jupyter_client.kernelspec import KernelSpecManager

    settings = _settings(options)
    with settings.sandbox(lambda text: print(f"glovebox: {text}", file=sys.stderr, flush=True)) as box:
        language = box.language
    if options.language not in (None, language):
        raise GloveboxError(
            f"the runtime `{settings.runtime}` runs {language}, not {options.language}; omit --language, or use "
            "another runtime"
        )
    arguments = ["--language", language]
    for option in ("runtime", "timeout_ms", "memory_bytes"):
        value = getattr(settings, option)
        if value is not None:
            arguments += [f"--{option.replace('_', '-')}", str(value)]
    if settings.saves is not None:
        settings.saves.mkdir(parents=True, exist_ok=True)
        arguments += ["--saves", os.fspath(settings.saves.absolute())]
    title = {"python": "Python", "javascript": "JavaScript"}[language]
    runtime = f", {settings.runtime}" if settings.runtime else ""
    spec = {
        "argv": [sys.executable, "-m", "glovebox_sandbox.kernel", "run", "-f", "{connection_file}", *arguments],
        "display_name": options.display_name or f"{title} (sandbox{runtime})",
        "language": language,
        "interrupt_mode": "message",
    }
    name = options.name or f"glovebox-{settings.runtime or language}"
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        Path(directory, "kernel.json").write_text(json.dumps(spec, indent=2) + "\n")
        installed: str = KernelSpecManager().install_kernel_spec(
            directory, kernel_name=name, user=options.prefix is None, prefix=options.prefix
        )
    return installed


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        language=options.language or "python",
        runtime=options.runtime,
        timeout_ms=options.timeout_ms,
        memory_bytes=options.memory_bytes,
        saves=options.saves,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Installs the kernel, or runs it."""
    options = _parser().parse_args(arguments)
    if options.command == "install":
        try:
            print(f"installed {install(options)}")
        except (GloveboxError, OSError, ValueError) as error:
            print(f"glovebox: {error}", file=sys.stderr)
            return 1
        return 0
    GloveboxKernel.settings = _settings(options)
    IPKernelApp.launch_instance(argv=["-f", options.connection_file], kernel_class=GloveboxKernel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
