"""An HTTP client for the daemon, over its Unix socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import struct
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import UnavailableError, UnsupportedError

PROTOCOL = 2
"""The version of the protocol that `GET /v1/info` must report."""

_CONNECT_S = 0.5
"""Timeout in seconds for a daemon's first response. A slower daemon is treated as absent."""

_IDLE_S = 15.0
"""Maximum age of an idle connection that is reused, in seconds. It is well below the daemon's idle timeout of one
minute: otherwise, the daemon could close a connection just when a request is sent on it."""

_MAX_IDLE = 8
"""Maximum number of idle connections of a client."""

_PIECE_BYTES = 1 << 16

_LOST = (OSError, http.client.HTTPException, ValueError)
"""The exceptions that indicate a lost connection, or a server that is not a daemon."""

_HINT = "start one with `glovebox daemon`, and set GLOVEBOX_DAEMON_SOCKET to its socket"


class Problem(Exception):
    """An error that the daemon reports: a problem document (RFC 9457)."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.type = str(document.get("type") or "")
        self.status = int(document.get("status") or 0)
        super().__init__(str(document.get("detail") or f"HTTP status {self.status}"))


def socket_path() -> Path:
    """Returns the path of the daemon's socket."""
    given = os.environ.get("GLOVEBOX_DAEMON_SOCKET")
    return Path(given) if given else Path(os.path.expanduser("~")) / ".rlm" / "daemon.sock"


def connect() -> Client:
    """Returns a client for the current user's daemon. Raises `UnavailableError` if no daemon answers."""
    if not hasattr(socket, "AF_UNIX"):
        raise UnsupportedError(
            'backend: Python does not support Unix sockets on this platform; use backend="native" or "component"'
        )
    client = Client(socket_path())
    try:
        info = client.json("GET", "/v1/info", timeout_s=_CONNECT_S)
    except Problem as problem:
        raise UnavailableError(f"the daemon at `{client.path}` rejects requests: {problem}") from problem
    except ValueError:
        info = None
    if not isinstance(info, dict) or info.get("protocol") != PROTOCOL:
        raise UnavailableError(
            f"the server at `{client.path}` is not a daemon, or has another protocol version; stop it, and start "
            "`glovebox daemon` of this version"
        )
    return client


class _Link(http.client.HTTPConnection):
    """A connection to the daemon."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path
        self.used_at = 0.0

    def connect(self) -> None:
        try:
            # A socket created by another user is not trusted.
            if self._path.stat().st_uid != os.geteuid():
                raise UnavailableError(f"the socket `{self._path}` belongs to another user; {_HINT}")
            link = socket.socket(socket.AF_UNIX)
            try:
                link.settimeout(_CONNECT_S)
                link.connect(str(self._path))
            except BaseException:
                link.close()
                raise
        except OSError as error:
            raise UnavailableError(f"no daemon is listening at `{self._path}` ({error}); {_HINT}") from error
        if sys.platform == "linux":
            size = struct.calcsize("3i")
            _, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
            if user != os.geteuid():
                link.close()
                raise UnavailableError(f"a process of another user listens at `{self._path}`; {_HINT}")
        self.sock = link

    def is_usable(self) -> bool:
        """Returns `True` if the idle connection is young enough and the daemon has not closed it."""
        if time.monotonic() - self.used_at >= _IDLE_S:
            return False
        self.sock.settimeout(0)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


def _close_all(links: list[_Link]) -> None:
    while links:
        links.pop().close()


RESUME = "/v1/executions/resume"
"""The path of the route that resumes a suspended execution."""


class Client:
    """A pool of connections to the daemon. Each request in progress has its own connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = os.getpid()
        self._idle: list[_Link] = []
        weakref.finalize(self, _close_all, self._idle)

    def json(self, method: str, target: str, body: str | bytes | None = None, *, timeout_s: float | None = None) -> Any:
        """Sends a request and returns the JSON of the response, or `None` if the response has no body."""
        _, contents = self.request(method, target, body, timeout_s=timeout_s)
        return json.loads(contents) if contents else None

    def request(
        self,
        method: str,
        target: str,
        body: str | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> tuple[http.client.HTTPMessage, bytes]:
        """Sends a request and returns the headers and the body of the response. Raises `Problem` if the daemon reports
        an error."""
        with self._link() as link:
            response = _send(link, method, target, body, headers or {}, timeout_s)
            contents = response.read()
        if response.status >= 400:
            raise _problem(response.status, contents)
        return response.headers, contents

    def stream(self, target: str, body: str) -> Iterator[dict[str, Any]]:
        """Sends a request and yields the JSON objects of the streamed response as they arrive."""
        headers = {"Accept": "application/x-ndjson"}
        if target == RESUME:
            # Replaces the state of the session, if the request names one.
            headers["If-Match"] = "*"
        with self._link() as link:
            response = _send(link, "POST", target, body, headers, None)
            if response.status < 400:
                for line in _lines(response):
                    yield json.loads(line)
            contents = response.read()
        if response.status >= 400:
            raise _problem(response.status, contents)

    @contextlib.contextmanager
    def _link(self) -> Iterator[_Link]:
        """Provides a connection for one request. If the request fails, closes the connection; otherwise, keeps it for
        later requests."""
        link = self._take()
        try:
            yield link
        except _LOST as error:
            link.close()
            reason = error or type(error).__name__
            raise UnavailableError(f"the daemon does not respond ({reason}); create a new sandbox") from error
        except BaseException:
            link.close()
            raise
        if link.sock is None or len(self._idle) >= _MAX_IDLE:
            link.close()
        else:
            link.used_at = time.monotonic()
            self._idle.append(link)

    def _take(self) -> _Link:
        if self._process != os.getpid():
            raise UnavailableError("this process was forked after connecting; create a new sandbox in it")
        # The pool raises `IndexError` when it is empty. Other threads can empty it at any time.
        with contextlib.suppress(IndexError):
            while True:
                link = self._idle.pop()
                if link.is_usable():
                    return link
                link.close()
        return _Link(self.path)


def _send(
    link: _Link,
    method: str,
    target: str,
    body: str | bytes | None,
    headers: Mapping[str, str],
    timeout_s: float | None,
) -> http.client.HTTPResponse:
    if link.sock is None:
        link.connect()
    link.sock.settimeout(timeout_s)
    media_type = "application/json" if isinstance(body, str) else "application/octet-stream"
    contents = body.encode() if isinstance(body, str) else body
    # The daemon can reject a large request and close the connection before it has read the whole body.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        link.request(method, target, contents, {**({} if body is None else {"Content-Type": media_type}), **headers})
    return link.getresponse()


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yields the lines of a response as they arrive."""
    pieces: list[bytes] = []
    while piece := response.read1(_PIECE_BYTES):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end])
            pieces = []
        pieces.append(rest)


def _problem(status: int, contents: bytes) -> Problem:
    try:
        document = json.loads(contents)
    except ValueError:
        document = None
    return Problem({**(document if isinstance(document, dict) else {}), "status": status})
