"""The backend that runs scripts in `glovebox daemon`, over a Unix socket of the current user."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import re
import threading
import time
import weakref
from typing import Any
from urllib.parse import quote, urlencode

from . import _native_backend, tools
from ._backend import Call, Entry, Input, Policy, SuspendedInput
from ._daemon_client import RESUME, Client, Problem, connect
from ._daemon_errors import IN_SESSION, errors
from ._daemon_execution import Handlers, execute
from ._daemon_started import OF_RESUMPTION, DaemonStarted
from ._remote import RemoteExecution, RemoteSession, encoded, entries, positions, refuse, variable
from ._types import described
from .errors import FilesError, GloveboxError, SessionError, SuspensionError, UnavailableError

_NO_HOST_ACCESS = (
    "a daemon's sandboxes have no access to your directories, and use the daemon's own packages and network; remove "
    'it, or use backend="native"'
)

_CLOSE_S = 60.0
"""Timeout in seconds for closing a dropped session, including its exit handlers."""

_EXIT_S = 2.0
"""Maximum time in seconds to close sessions when this process exits."""


def open_backend(name: str, policy: Policy, wait: tools.Await) -> DaemonSandbox:
    """Opens a sandbox in the daemon."""
    refuse(policy, _NO_HOST_ACCESS)
    return DaemonSandbox(connect(), name, policy, wait)


def _fields(**fields: Any) -> str:
    """Serializes the fields of a JSON object without its braces. Omits fields that are `None`."""
    return json.dumps({name: value for name, value in fields.items() if value is not None})[1:-1]


def _context(context: str | None) -> str:
    return "" if context is None else f'"context": {context}'


def _object(*fields: str) -> str:
    return f"{{{', '.join(filter(None, fields))}}}"


def _script(input: Input) -> str:
    source, name, kind, stdin, context, timeout_ms, _, _ = input
    given = None if stdin is None else encoded(stdin)
    fields = _fields(source=source, name=name, kind=kind, stdin=given, deadline_ms=timeout_ms)
    return fields if context is None else f"{fields}, {_context(context)}"


def _repeat(started: DaemonStarted) -> list[Call]:
    """Repeats a suspended execution until it waits, suspends it again, and returns its calls.

    Does not cancel the execution: a cancelled script can handle the exception and call tools, and its session is then
    not rolled back.
    """
    executed, calls = started.advance([], None)
    if executed is None:
        try:
            started.suspend()
        except BaseException:
            started.cancel()
            raise
    return calls


class DaemonSandbox:
    """A sandbox in a daemon."""

    def __init__(self, client: Client, name: str, policy: Policy, wait: tools.Await) -> None:
        self.client = client
        self.handlers = Handlers({tool.name: tool for tool in policy.tools}, wait)
        # These request fields never change, so they are serialized once.
        self._runtime = _fields(**{("language" if name in ("python", "javascript") else "runtime"): name})
        # Requests without a policy share a sandbox that the daemon already has.
        self._policy = _fields(policy=_native_backend.policy_record(policy) or None)
        self._files = _fields(files={path: encoded(contents) for path, contents in policy.files.items()} or None)
        self.tools = _fields(tools=described(policy.tools) or None)
        self.suspendable = _fields(suspendable=True if self.tools else None)
        # The daemon checks all options when it executes this empty script. The result names the runtime.
        body = _object(_fields(source="", value=False), self._runtime, self._policy, self._files, self.tools)
        with errors():
            opened = client.json("POST", "/v1/execute", body)["metadata"]
        self.language: str = opened["runtime"]
        self.runtime_name: str = opened["runtime_name"]
        self.version: str | None = opened["version"]

    def execute(self, input: Input) -> RemoteExecution:
        more = _fields(value=False, return_files=["**"])
        body = _object(_script(input), more, self._runtime, self._policy, self._files, self.tools)
        with errors():
            return RemoteExecution(execute(self.client, self.handlers, "/v1/execute", body, input), None)

    def start(self, input: Input) -> DaemonStarted:
        more = _fields(value=False, return_files=["**"])
        body = _object(_script(input), more, self.suspendable, self._runtime, self._policy, self._files, self.tools)
        return DaemonStarted(self.client, self.handlers, input[7], "/v1/execute", body, None)

    def start_suspended(self, input: SuspendedInput) -> DaemonStarted:
        state, timeout_ms, _, token = input
        more = _fields(suspended=encoded(state), deadline_ms=timeout_ms, return_files=["**"])
        body = _object(more, self._runtime, self._policy, self._files, self.tools or '"tools": []')
        return DaemonStarted(self.client, self.handlers, token, RESUME, body, None, OF_RESUMPTION)

    def suspended_calls(self, state: bytes) -> list[Call]:
        # The daemon has no request that only reads the calls, so this method resumes the execution and suspends it again.
        try:
            return _repeat(self.start_suspended((state, None, False, None)))
        except SuspensionError as error:
            if IN_SESSION not in str(error):
                raise
        session = self.session(None, None)
        try:
            return _repeat(session.start_suspended((state, None, False, None)))
        finally:
            session.close()

    def resume_suspended_session(self, state: bytes, id: str | None) -> DaemonSession:
        # The daemon has no request that only restores the session, so this method resumes the execution in a new session
        # and suspends it again. The session is then rolled back to its state before the execution.
        session = self.session(id, None)
        try:
            _repeat(session.start_suspended((state, None, False, None)))
        except BaseException:
            session.close()
            raise
        return session

    def validate(self, input: Input) -> list[tuple[int, int, str]]:
        with errors():
            body = _object(_script(input), self._runtime, self._policy)
            return positions(self.client.json("POST", "/v1/validate", body)["diagnostics"])

    def type_errors(self, input: Input) -> list[tuple[int, int, str]]:
        with errors():
            body = _object(_script(input), _fields(check_types=True), self._runtime, self._policy, self.tools)
            return positions(self.client.json("POST", "/v1/validate", body)["diagnostics"])

    def session(self, id: str | None, context: str | None) -> DaemonSession:
        return self.opened("/v1/sessions", _fields(id=id), self._runtime, self._policy, self._files, _context(context))

    def resume(self, state: bytes, id: str | None) -> DaemonSession:
        session = self.opened("/v1/sessions", _fields(id=id, state=encoded(state)), self._policy)
        if session.runtime_name == self.runtime_name:
            return session
        session.close()
        raise SessionError(
            f"the session was saved with the runtime `{session.runtime_name}`, and this sandbox has "
            f"`{self.runtime_name}`; create a sandbox with its runtime"
        )

    def opened(self, target: str, *fields: str) -> DaemonSession:
        """Opens a session by sending a request to `target`."""
        with errors():
            answer = self.client.json("POST", target, _object(*fields))
        return DaemonSession(self, answer["id"], answer["runtime"])


class DaemonSession(RemoteSession):
    """A session in a daemon."""

    def __init__(self, sandbox: DaemonSandbox, id: str, runtime_name: str) -> None:
        self._sandbox = sandbox
        self._client = sandbox.client
        self._path = f"/v1/sessions/{quote(id, safe='')}"
        self.id = id
        self.runtime_name = runtime_name
        self._dropped = _close_when_dropped(self, self._client, self._path)

    def _request(self, method: str, target: str = "", body: str | bytes | None = None, *, of_files: bool = False) -> Any:
        self._check_open()
        with errors(of_files=of_files):
            return self._client.json(method, f"{self._path}{target}", body)

    def execute(self, input: Input) -> RemoteExecution:
        self._check_open()
        body = _object(_script(input), self._sandbox.tools)
        with errors():
            return RemoteExecution(execute(self._client, self._sandbox.handlers, f"{self._path}/execute", body, input), self)

    def start(self, input: Input) -> DaemonStarted:
        self._check_open()
        body = _object(_script(input), self._sandbox.suspendable, self._sandbox.tools)
        return DaemonStarted(self._client, self._sandbox.handlers, input[7], f"{self._path}/execute", body, self)

    def diagnostics(self, input: Input, types: bool) -> list[tuple[int, int, str]]:
        more = (_fields(check_types=True), self._sandbox.tools) if types else ()
        return positions(self._request("POST", "/validate", _object(_script(input), *more))["diagnostics"])

    def start_suspended(self, input: SuspendedInput) -> DaemonStarted:
        self._check_open()
        state, timeout_ms, _, token = input
        more = _fields(session=self.id, suspended=encoded(state), deadline_ms=timeout_ms)
        body = _object(more, self._sandbox.tools or '"tools": []')
        return DaemonStarted(self._client, self._sandbox.handlers, token, RESUME, body, self, OF_RESUMPTION)

    def get_variable(self, name: str) -> tuple[str, str | None] | None:
        try:
            return variable(self._request("GET", f"/variables/{quote(name, safe='')}"))
        except GloveboxError as error:
            if isinstance(error.__cause__, Problem) and error.__cause__.type == "no-variable":
                return None
            raise

    def set_variable(self, name: str, text: str) -> None:
        self._request("PUT", f"/variables/{quote(name, safe='')}", text)

    def list_files(self, pattern: str) -> list[Entry]:
        listed: list[Entry] = []
        query = {"pattern": pattern}
        while True:
            page = self._request("GET", f"/files?{urlencode(query)}", of_files=True)
            listed += entries(page["files"])
            if page["next"] is None:
                return listed
            query["cursor"] = page["next"]

    def read_file(self, path: str) -> bytes:
        self._check_open()
        target = self._path + _file(path)
        with errors(of_files=True):
            try:
                return self._client.request("GET", target)[1]
            except Problem as problem:
                if problem.type != "too-large":
                    raise
            # The file is too large for one response, so it is read in parts.
            parts: list[bytes] = []
            offset = 0
            while True:
                headers, part = self._client.request("GET", target, headers={"Range": f"bytes={offset}-"})
                parts.append(part)
                offset += len(part)
                size = re.search(r"/(\d+)$", headers["Content-Range"] or "")
                if not part or size is None or offset >= int(size[1]):
                    return b"".join(parts)

    def write_file(self, path: str, contents: bytes) -> None:
        self._request("PUT", _file(path), contents, of_files=True)

    def delete_file(self, path: str, recursive: bool) -> None:
        self._request("DELETE", f"{_file(path)}?recursive={'true' if recursive else 'false'}", of_files=True)

    def fork(self, id: str | None, context: str | None) -> DaemonSession:
        self._check_open()
        fork = self._sandbox.opened(f"{self._path}/fork", _fields(id=id))
        if context is not None:
            fork.set_variable("context", context)
        return fork

    def checkpoint(self) -> int:
        return int(self._request("POST", "/checkpoint")["checkpoint"])

    def checkpoints(self) -> str:
        return json.dumps(self._request("GET", "/checkpoints")["checkpoints"])

    def undo(self, checkpoint: int | None) -> int:
        return int(self._request("POST", "/undo", _object(_fields(checkpoint=checkpoint)))["checkpoint"])

    def hibernate(self) -> bytes:
        self._check_open()
        with errors():
            return self._client.request("GET", f"{self._path}/state")[1]

    def _live(self) -> dict[str, Any]:
        live: dict[str, Any] = self._request("GET")["live"]
        return live

    def close(self) -> None:
        self._close(None)

    def _close(self, timeout_s: float | None) -> None:
        if self._is_closed:
            return
        with contextlib.suppress(SessionError, UnavailableError), errors():
            self._client.json("DELETE", self._path, timeout_s=timeout_s)
        # If the request is interrupted, these lines do not run, and the session stays open until it is dropped.
        self._is_closed = True
        self._dropped.detach()
        _open_sessions.discard(self)


def _file(path: str) -> str:
    if not path:
        raise FilesError("the path is empty; use a path relative to the workspace, such as `a/b`")
    return f"/files/{quote(path)}"


# The daemon keeps a session until it is closed or has been idle for a long time. This process closes its sessions when
# it drops them and when it exits.

_open_sessions: weakref.WeakSet[DaemonSession] = weakref.WeakSet()

_Closing = queue.SimpleQueue[tuple[Client, str] | threading.Event]

_closing: tuple[int, _Closing] | None = None
"""The sessions to close: the ID of the process that opened them, and a queue of their clients and paths. An event in
the queue is set when all sessions before it are closed."""


def _close_when_dropped(session: DaemonSession, client: Client, path: str) -> weakref.finalize[Any, DaemonSession]:
    """Closes a session when it is dropped. The garbage collector can run on any thread, so a separate thread sends the
    request."""
    global _closing
    if _closing is None or _closing[0] != os.getpid():
        # A forked child does not inherit its parent's threads, and does not own its parent's sessions.
        _closing = os.getpid(), queue.SimpleQueue()
        threading.Thread(target=_close_dropped, args=(_closing[1],), name="glovebox-sessions", daemon=True).start()
    _open_sessions.add(session)
    dropped = weakref.finalize(session, _closing[1].put, (client, path))
    dropped.atexit = False
    return dropped


def _close_dropped(closing: _Closing) -> None:
    while True:
        dropped = closing.get()
        if isinstance(dropped, threading.Event):
            dropped.set()
            continue
        client, path = dropped
        with contextlib.suppress(Problem, GloveboxError):
            client.json("DELETE", path, timeout_s=_CLOSE_S)
        # Otherwise, these variables would keep the client's connections open while the thread waits.
        del client, dropped


@atexit.register
def _close_at_exit() -> None:
    if _closing is None or _closing[0] != os.getpid():
        return
    end = time.monotonic() + _EXIT_S
    for session in list(_open_sessions):
        # An execution that is still running is cancelled when this process ends.
        session._close(max(end - time.monotonic(), 0.01))
    closed = threading.Event()
    _closing[1].put(closed)
    closed.wait(max(end - time.monotonic(), 0))
