"""The backend that runs scripts in an ordinary Python interpreter, without a sandbox: scripts have all rights of the
current user."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from . import tools
from ._backend import Entry, Input, Policy
from ._remote import RemoteExecution, RemoteSession, cancelled, encoded, positions, refuse, variable
from ._rpc import Connection, RpcError
from .errors import GloveboxError, PolicyError, SessionError, UnavailableError, UnsupportedError
from .tools import CancelToken

REPL = Path(__file__).with_name("_unsafe_repl.py")
"""The program that runs in the other process."""

WHY = (
    'backend="native" with unsafe_native=True runs scripts in an ordinary Python interpreter: they can read and write '
    "your files, use the network and start programs"
)

CANNOT_SUSPEND = (
    "scripts cannot wait for answers or be suspended without a sandbox; remove unsafe_native, so that "
    'backend="native" is the engine, or use backend="daemon"'
)

_CANCELLED = -32800
"""The error code of a request that was cancelled before it began."""

_OLDEST = (3, 8)
_VERSION_S = 10


def python() -> str:
    """Returns the path of the first Python that is at least version `_OLDEST`."""
    for path in (sys.executable, "python3", "python"):
        if path and (version := _version(path)) is not None and version >= _OLDEST:
            return path
    raise UnavailableError("unsafe_native: cannot find Python 3.8 or later; install it, or remove unsafe_native")


@functools.cache
def _version(path: str) -> tuple[int, int] | None:
    """Returns the version that `PATH --version` prints, or `None` if the program fails."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"Python (\d+)\.(\d+)", output.stdout or output.stderr)
    return None if found is None else (int(found[1]), int(found[2]))


def open_backend(name: str, policy: Policy, wait: tools.Await) -> UnsafeSandbox:
    """Starts a Python process in a new directory. Nothing else isolates the process."""
    if any(tool.waits for tool in policy.tools):
        raise UnsupportedError(f"tools: waits=True is not supported: {CANNOT_SUSPEND}")
    refuse(policy, "not supported without a sandbox; remove it, or remove unsafe_native")
    if name != "python":
        raise UnsupportedError(f"unsafe_native: `{name}` is not supported; only Python runs without a sandbox")
    if policy.files:
        raise UnsupportedError("files: not supported without a sandbox, because scripts run in a host directory; remove it")
    directory = tempfile.TemporaryDirectory(prefix="glovebox-native-")
    process = subprocess.Popen(
        # Passed as text: if Python ran the file, it would search the file's directory first, and the `types` module
        # there would replace the standard one.
        [python(), "-u", "-c", REPL.read_text(encoding="utf-8")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=directory.name,
        env={**os.environ, **policy.env},
        start_new_session=os.name == "posix",
    )

    def close() -> None:
        process.kill()
        process.wait()
        directory.cleanup()

    reader, writer = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stdin)
    connection = Connection(reader, writer, _answering(policy, wait), close)  # type: ignore[arg-type]
    return UnsafeSandbox(connection, policy)


def _answering(policy: Policy, wait: tools.Await) -> Any:
    """Returns the handler of requests from the other process: the tool calls of its scripts."""

    def answer(method: str, params: dict[str, Any], token: CancelToken) -> tools.Answer:
        called = params.get("name") if method == "tool" else None
        tool = next((tool for tool in policy.tools if tool.name == called), None)
        if tool is None:
            return "failed", f"unknown tool `{called or method}`; call a registered tool"
        return tools.answer(tool, wait, json.dumps(params.get("arguments") or {}), token)

    return answer


_CLASSES: dict[str, type[GloveboxError]] = {"not-initialized": SessionError, "unsupported": UnsupportedError}


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Converts the errors of the other process to this package's errors."""
    try:
        yield
    except RpcError as error:
        raise _CLASSES.get(error.name, PolicyError)(str(error)) from error


def _unsupported(what: str) -> NoReturn:
    raise UnsupportedError(f"{what}: not supported without a sandbox; remove unsafe_native")


def _input(input: Input) -> dict[str, Any]:
    source, name, kind, stdin, context, timeout_ms, _, _ = input
    given = {
        "name": name,
        "kind": kind,
        "stdin": None if stdin is None else encoded(stdin),
        "context": None if context is None else json.loads(context),
        "timeout_ms": timeout_ms,
    }
    return {"code": source, **{key: value for key, value in given.items() if value is not None}}


def _execute(connection: Connection, session: str, input: Input, *, fresh: bool) -> dict[str, Any]:
    """Executes a script and returns its record, even if the script is cancelled before it starts."""
    listener, token = input[6], input[7]
    params = {"session": session, **_input(input), "fresh": fresh, "stream": listener is not None}

    def on_output(stream: str, text: str) -> None:
        if listener is not None:
            listener(stream == "stderr", text.encode())

    try:
        record: dict[str, Any] = connection.call("execute", params, token=token, on_output=on_output)
        return record
    except RpcError as error:
        if error.code == _CANCELLED:
            return cancelled()
        raise


class UnsafeSandbox:
    """A Python process that runs scripts without a sandbox."""

    cannot_suspend = CANNOT_SUSPEND
    runtime_name = "native"
    language = "python"

    def __init__(self, connection: Connection, policy: Policy) -> None:
        self._connection = connection
        self._asked: dict[str, Any] = {
            # The timeout is the only limit that is enforced without a sandbox.
            "policy": {"limits": {} if policy.limits.timeout_ms is None else {"timeout_ms": policy.limits.timeout_ms}},
            "tools": [{"name": tool.name} for tool in policy.tools],
        }
        opened = self._open()
        self._session: str = opened["session"]
        self.version: str | None = opened["version"]

    def _open(self, **more: Any) -> dict[str, Any]:
        with _errors():
            opened: dict[str, Any] = self._connection.call("initialize", {**self._asked, **more})
            return opened

    def execute(self, input: Input) -> RemoteExecution:
        with _errors():
            return RemoteExecution(_execute(self._connection, self._session, input, fresh=True), None)

    def validate(self, input: Input) -> list[tuple[int, int, str]]:
        with _errors():
            return positions(self._connection.call("validate", {"session": self._session, **_input(input)})["diagnostics"])

    def session(self, id: str | None, context: str | None) -> UnsafeSession:
        if id is not None:
            _unsupported("id")
        more = {} if context is None else {"context": json.loads(context)}
        return UnsafeSession(self._connection, self._open(**more)["session"])

    def resume(self, state: bytes, id: str | None) -> UnsafeSession:
        _unsupported("resume")


class UnsafeSession(RemoteSession):
    """A session without a sandbox."""

    cannot_suspend = CANNOT_SUSPEND

    def __init__(self, connection: Connection, id: str) -> None:
        self._connection = connection
        self.id = id

    def _call(self, method: str, **params: Any) -> Any:
        self._check_open()
        with _errors():
            return self._connection.call(method, {"session": self.id, **params})

    def _live(self) -> dict[str, Any]:
        live: dict[str, Any] = self._call("info")
        return live

    def execute(self, input: Input) -> RemoteExecution:
        self._check_open()
        with _errors():
            return RemoteExecution(_execute(self._connection, self.id, input, fresh=False), self)

    def get_variable(self, name: str) -> tuple[str, str | None] | None:
        value = self._call("getVariable", name=name)
        return variable(value) if value["found"] else None

    def set_variable(self, name: str, text: str) -> None:
        self._call("setVariable", name=name, value=json.loads(text))

    def list_files(self, pattern: str) -> list[Entry]:
        _unsupported("files")

    def read_file(self, path: str) -> bytes:
        _unsupported("files")

    def write_file(self, path: str, contents: bytes) -> None:
        _unsupported("files")

    def delete_file(self, path: str, recursive: bool) -> None:
        _unsupported("files")

    def fork(self, id: str | None, context: str | None) -> UnsafeSession:
        _unsupported("fork")

    def checkpoint(self) -> int:
        _unsupported("checkpoints")

    def checkpoints(self) -> str:
        _unsupported("checkpoints")

    def undo(self, checkpoint: int | None) -> int:
        _unsupported("checkpoints")

    def hibernate(self) -> bytes:
        _unsupported("hibernate")

    def close(self) -> None:
        if self._is_closed:
            return
        with contextlib.suppress(SessionError, UnavailableError):
            self._call("destroy")
        self._is_closed = True
