"""The daemon as a backend: `glovebox daemon`, at a socket of the current user. An ordinary subprocess without a sandbox
speaks the same protocol."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _native_backend, tools
from ._backend import Entry, Input, Policy
from ._rpc import Connection, RpcError, Token
from .displays import is_text
from .errors import FilesError, GloveboxError, PolicyError, SessionError, UnavailableError, UnsupportedError

CONNECT_S = 0.5
"""Timeout for a daemon's answer. A slower daemon counts as absent."""

_CLASSES: dict[str, type[GloveboxError]] = {
    "not-initialized": SessionError,
    "session-ended": SessionError,
    "session-busy": SessionError,
    "no-checkpoint": SessionError,
    "not-resumable": SessionError,
    "variable": SessionError,
    "unavailable": UnavailableError,
    "quota-exceeded": UnavailableError,
    "rate-exceeded": UnavailableError,
    "forbidden": UnavailableError,
    "internal": UnavailableError,
    "unsupported": UnsupportedError,
    "file": FilesError,
}
_CANCELLED = -32800


def place() -> Path:
    """Returns the path of the daemon's socket."""
    given = os.environ.get("GLOVEBOX_DAEMON_SOCKET")
    return Path(given) if given else Path(os.path.expanduser("~")) / ".rlm" / "daemon.sock"


def connect(answer: Any) -> Connection:
    """Connects to the daemon of the current user. Fails if no daemon answers."""
    path = place()
    if not hasattr(socket, "AF_UNIX"):
        raise UnsupportedError("daemon: Python has no Unix sockets on this platform; remove backend")
    hint = "start one with `glovebox daemon`, and set GLOVEBOX_DAEMON_SOCKET to its socket"
    try:
        # A socket created by another user is not trusted.
        if path.stat().st_uid != os.geteuid():
            raise UnavailableError(f"the socket `{path}` belongs to another user; {hint}")
        link = socket.socket(socket.AF_UNIX)
        try:
            link.settimeout(CONNECT_S)
            link.connect(str(path))
        except OSError:
            link.close()
            raise
    except OSError as error:
        raise UnavailableError(f"no daemon is listening at `{path}` ({error}); {hint}") from error
    if sys.platform == "linux":
        _, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if user != os.geteuid():
            link.close()
            raise UnavailableError(f"another user listens at `{path}`; {hint}")
    link.settimeout(None)

    reader, writer = link.makefile("rb"), link.makefile("wb")

    def close() -> None:
        # The shutdown wakes the reading thread, which closes its own stream.
        try:
            link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        link.close()

    connection = Connection(reader, writer, answer, close)
    try:
        pong = connection.call("ping", {}, timeout_s=CONNECT_S)
    except (RpcError, UnavailableError) as error:
        connection.close()
        raise UnavailableError(f"the daemon at `{path}` does not respond: {error}") from error
    if not isinstance(pong, dict) or pong.get("protocol") != 1:
        connection.close()
        raise UnavailableError(f"the server at `{path}` is not a daemon of this version; stop it and start a new one")
    return connection


def refuse(policy: Policy) -> None:
    """Refuses the options that only the engine in this process supports."""
    asked = {
        "workspace": policy.workspace is not None,
        "mounts": bool(policy.mounts),
        "commit": policy.commit != "always",
        "packages": policy.packages is not None,
        "network": policy.network is not None,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise UnsupportedError(
                f'{name}: a daemon\'s sandboxes have no access to your directories, and use the daemon\'s own packages and network; remove it, or use backend="native"'
            )


def open_backend(name: str, policy: Policy, wait: tools.Await) -> Remote:
    """Opens a sandbox at the daemon."""
    refuse(policy)
    return Remote(connect(answering(policy, wait)), name, policy)


def answering(policy: Policy, wait: tools.Await) -> Any:
    """Returns the handler of requests that scripts make."""

    def answer(method: str, params: dict[str, Any], token: Token) -> tuple[bool, str]:
        called = params.get("name") if method == "tool" else None
        tool = next((tool for tool in policy.tools if tool.name == called), None)
        if tool is None:
            return False, f"unknown tool `{called or method}`; call a registered tool"
        return tools.answer(tool, wait, json.dumps(params.get("arguments") or {}), token)

    return answer


@contextmanager
def _errors(of_files: bool = False) -> Iterator[None]:
    """Converts a daemon's errors to this package's errors."""
    try:
        yield
    except RpcError as error:
        kind = _CLASSES.get(error.name, PolicyError)
        raise (FilesError if of_files and kind is PolicyError else kind)(str(error)) from error


class Remote:
    """A sandbox in another process."""

    def __init__(self, connection: Connection, name: str, policy: Policy) -> None:
        self._connection = connection
        record = {key: value for key, value in _native_backend.policy_record(policy).items() if key not in _OURS}
        self._asked: dict[str, Any] = {
            ("language" if name in ("python", "javascript") else "runtime"): name,
            "policy": record,
            "files": {path: _bytes(contents) for path, contents in policy.files.items()},
            "tools": [
                {"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in policy.tools
            ],
            "queries": [],
        }
        opened = self._open(open=False)
        self._session: str = opened["session"]
        self.language: str = opened["language"]
        self.runtime_name: str = opened["runtime"]
        self.version: str | None = opened["version"]

    def _open(self, **more: Any) -> dict[str, Any]:
        with _errors():
            opened: dict[str, Any] = self._connection.call("initialize", {**self._asked, **more})
            return opened

    def execute(self, input: Input) -> Executed:
        more = {"fresh": True, "return_files": True}
        return Executed(execute(self._connection, self._session, input, more), None)

    def validate(self, input: Input) -> list[tuple[int, int, str]]:
        params = {"session": self._session, **_input(input)}
        with _errors():
            diagnostics = self._connection.call("validate", params)["diagnostics"]
        return [(each["line"], each["column"], each["message"]) for each in diagnostics]

    def session(self, id: str | None, context: str | None) -> RemoteSession:
        _no_id(id)
        more = {} if context is None else {"context": json.loads(context)}
        return RemoteSession(self._connection, self._open(**more)["session"])

    def resume(self, state: bytes, id: str | None) -> RemoteSession:
        _no_id(id)
        return RemoteSession(self._connection, self._open(state=_bytes(state))["session"])


_OURS = ("commit", "mounts", "workspace")


def _no_id(id: str | None) -> None:
    if id is not None:
        raise UnsupportedError('id: a daemon chooses its sessions\' ids; remove it, or use backend="native"')


def _bytes(contents: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(contents).decode()}


def _input(input: Input) -> dict[str, Any]:
    source, name, kind, stdin, context, timeout_ms, _, _ = input
    given = {
        "name": name,
        "kind": kind,
        "stdin": None if stdin is None else _bytes(stdin),
        "context": None if context is None else json.loads(context),
        "timeout_ms": timeout_ms,
    }
    return {"code": source, **{key: value for key, value in given.items() if value is not None}}


def execute(connection: Connection, session: str, input: Input, more: dict[str, Any]) -> dict[str, Any]:
    """Executes a script. A cancellation before the start yields an execution too."""
    listener, token = input[6], input[7]
    params = {"session": session, **_input(input), **more, "stream": listener is not None}

    def on_output(stream: str, text: str) -> None:
        if listener is not None:
            listener(stream == "stderr", text.encode())

    try:
        with _errors():
            record: dict[str, Any] = connection.call("execute", params, token=token, on_output=on_output)
            return record
    except PolicyError as error:
        if isinstance(error.__cause__, RpcError) and error.__cause__.code == _CANCELLED:
            return not_begun()
        raise


def not_begun() -> dict[str, Any]:
    """Returns the record of an execution that was cancelled before it began."""
    lists = ("files_created", "files_modified", "files_deleted", "tool_calls", "displays")
    numbers = ("fuel_consumed", "memory_used_bytes", "duration_ms", "displays_dropped")
    fuel = {"used": 0, "limit": 0, "utilization_percent": 0, "status": "efficient", "suggested_limit": None}
    return {
        "success": False,
        "outcome": {"kind": "cancelled"},
        "exit_code": 130,
        "interrupted": None,
        "value": None,
        "stdout": "",
        "stderr": "",
        "stdout_truncated": False,
        "stderr_truncated": False,
        **{name: [] for name in lists},
        **dict.fromkeys(numbers, 0),
        "workspace_path": None,
        "session_id": None,
        "rolled_back_to": None,
        "guidance": {"fuel": {**fuel, "likely_causes": []}, "advice": []},
        "metadata": {},
    }


class RemoteSession:
    """A session in another process."""

    def __init__(self, connection: Connection, id: str) -> None:
        self._connection = connection
        self.id = id
        self._ended: str | None = None

    def _ask(self, method: str, *, of_files: bool = False, **params: Any) -> Any:
        if self._ended is not None:
            raise SessionError(self._ended)
        with _errors(of_files):
            return self._connection.call(method, {"session": self.id, **params})

    @property
    def ended(self) -> str | None:
        if self._ended is not None:
            return self._ended
        try:
            ended: str | None = self._ask("info")["ended"]
            return ended
        except (SessionError, UnavailableError) as error:
            return str(error)

    def execute(self, input: Input) -> Executed:
        if self._ended is not None:
            raise SessionError(self._ended)
        return Executed(execute(self._connection, self.id, input, {}), self)

    def get_variable(self, name: str) -> tuple[str, str | None] | None:
        value = self._ask("getVariable", name=name)
        if not value["found"]:
            return None
        return value["repr"], json.dumps(value["value"]) if "value" in value else None

    def set_variable(self, name: str, text: str) -> None:
        self._ask("setVariable", name=name, value=json.loads(text))

    def list_files(self, pattern: str) -> list[Entry]:
        return _entries(self._ask("listFiles", pattern=pattern, of_files=True)["files"])

    def read_file(self, path: str) -> bytes:
        pieces: list[bytes] = []
        while True:
            # A large file arrives in chunks.
            read = self._ask("readFile", path=path, offset=sum(map(len, pieces)), of_files=True)
            pieces.append(base64.b64decode(read["contents"]["base64"]))
            if not pieces[-1] or sum(map(len, pieces)) >= read["size_bytes"]:
                return b"".join(pieces)

    def write_file(self, path: str, contents: bytes) -> None:
        self._ask("writeFile", path=path, contents=_bytes(contents), of_files=True)

    def delete_file(self, path: str, recursive: bool) -> None:
        self._ask("deleteFile", path=path, recursive=recursive, of_files=True)

    def fork(self, id: str | None, context: str | None) -> RemoteSession:
        _no_id(id)
        more = {} if context is None else {"context": json.loads(context)}
        return RemoteSession(self._connection, self._ask("fork", **more)["session"])

    def checkpoint(self) -> int:
        return int(self._ask("checkpoint")["checkpoint"])

    def checkpoints(self) -> str:
        return json.dumps(self._ask("checkpoints")["checkpoints"])

    def undo(self, checkpoint: int | None) -> int:
        more: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
        return int(self._ask("undo", **more)["checkpoint"])

    def hibernate(self) -> bytes:
        return base64.b64decode(self._ask("hibernate")["state"]["base64"])

    def info(self) -> str:
        return json.dumps(self._ask("info"))

    def close(self) -> None:
        if self._ended is not None:
            return
        try:
            self._ask("destroy")
        except (SessionError, UnavailableError):
            pass
        self._ended = "the session was closed"


def _entries(listed: list[dict[str, Any]]) -> list[Entry]:
    return [(entry["path"], entry["kind"], entry["size_bytes"], entry["modified_ns"]) for entry in listed]


class Executed:
    """An execution in another process."""

    def __init__(self, record: dict[str, Any], session: RemoteSession | None) -> None:
        self._record = record
        self._session = session
        self.ok: bool = record["success"]
        self.stdout: str = record["stdout"]
        self.stderr: str = record["stderr"]
        self.fuel_consumed: int = record["fuel_consumed"]

    def _output(self, name: str) -> bytes:
        encoded = self._record.get(f"{name}_base64")
        return base64.b64decode(encoded) if encoded is not None else str(self._record[name]).encode()

    @property
    def stdout_bytes(self) -> bytes:
        return self._output("stdout")

    @property
    def stderr_bytes(self) -> bytes:
        return self._output("stderr")

    @property
    def value(self) -> tuple[str, str | None] | None:
        value = self._record["value"]
        return value and (value["repr"], json.dumps(value["json"]) if "json" in value else None)

    @property
    def displays(self) -> list[tuple[bool, list[tuple[str, bytes]]]]:
        return [
            (shown["is_result"], [(name, _form(name, data)) for name, data in shown["data"].items()])
            for shown in self._record["displays"]
        ]

    def list_files(self, pattern: str) -> list[Entry]:
        if self._session is not None:
            return self._session.list_files(pattern)
        if pattern != "**":
            raise UnsupportedError(
                'pattern: outside a session this backend only lists all files; remove it, or use backend="native"'
            )
        return _entries(self._record.get("files", {}).get("entries", []))

    def read_file(self, path: str) -> bytes:
        if self._session is not None:
            return self._session.read_file(path)
        files = self._record.get("files", {})
        contents = files.get("contents", {}).get(os.path.normpath(path))
        if contents is None:
            more = ", or it was too large to be returned" if files.get("left_out") else ""
            raise FilesError(f"there is no file `{path}`{more}")
        return base64.b64decode(contents)

    def json(self) -> str:
        ours = ("error", "files", "stdout_base64", "stderr_base64")
        record = {key: value for key, value in self._record.items() if key not in ours}
        return json.dumps({**record, "displays": []})


def _form(media_type: str, data: str) -> bytes:
    return data.encode() if is_text(media_type) else base64.b64decode(data)
