"""A JSON-RPC 2.0 connection with requests in both directions: one message per line, over a process's standard
streams."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, BinaryIO

from .errors import UnavailableError
from .tools import Answer as ToolAnswer
from .tools import CancelToken

Answer = Callable[[str, dict[str, Any], CancelToken], ToolAnswer]
"""Answers a request of the peer with JSON text or a failure, given its method, parameters and cancellation token."""

OnOutput = Callable[[str, str], None]
"""Receives the output of a script: the name of the stream, and the text."""

_LOOK_S = 0.05
"""Polling interval for the cancellation token of a request, in seconds."""

_END_S = 30.0
"""Maximum wait for the end of a request after an interrupt, in seconds."""


class RpcError(Exception):
    """An error with which the peer refused a request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.code = int(error.get("code") or 0)
        data = error.get("data")
        self.name = str(data.get("code")) if isinstance(data, dict) else ""


class _Link:
    """The state of the reading thread. It has no reference to the connection, so that a dropped connection closes."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO, answer: Answer) -> None:
        self.reader = reader
        self.writer = writer
        self.answer = answer
        self.lock = threading.Lock()
        self.waiting: dict[int, queue.SimpleQueue[tuple[str, Any]]] = {}
        self.running: dict[Any, CancelToken] = {}
        self.is_over = False

    def send(self, message: dict[str, Any], result: str | None = None) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message})
        if result is not None:
            text = f'{text[:-1]}, "result": {result}}}'
        try:
            with self.lock:
                self.writer.write(text.encode() + b"\n")
                self.writer.flush()
        except (OSError, ValueError):
            self.end()

    def end(self) -> None:
        """Marks the link as closed, ends all waits for answers, and cancels the running requests of the peer."""
        with self.lock:
            self.is_over = True
            waiting = list(self.waiting.values())
            running = list(self.running.values())
        for token in running:
            token.cancel()
        for one in waiting:
            one.put(("over", None))

    def read(self) -> None:
        try:
            for line in self.reader:
                message = json.loads(line)
                if isinstance(message, dict):
                    self.take(message)
        except (OSError, ValueError):
            pass
        finally:
            self.end()
            for stream in (self.reader, self.writer):
                with contextlib.suppress(OSError, ValueError):
                    stream.close()

    def take(self, message: dict[str, Any]) -> None:
        method, id = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method is None:
            waiting = self.waiting.get(id) if isinstance(id, int) else None
            if waiting is not None:
                waiting.put(("end", message))
        elif method == "output":
            waiting = self.waiting.get(int(params.get("request") or 0))
            if waiting is not None:
                waiting.put(("output", params))
        elif method == "cancel":
            token = self.running.get(params.get("id"))
            if token is not None:
                token.cancel()
        elif id is not None:
            token = self.running[id] = CancelToken()
            threading.Thread(target=self.reply, args=(id, method, params, token), daemon=True).start()

    def reply(self, id: Any, method: str, params: dict[str, Any], token: CancelToken) -> None:
        kind, text = self.answer(method, params, token)
        self.running.pop(id, None)
        if kind == "returned":
            self.send({"id": id}, text)
        else:
            self.send({"id": id, "error": {"code": -32000, "message": text}})


class Connection:
    """A connection to a peer. It closes when the last reference to it is dropped."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO, answer: Answer, close: Callable[[], object]) -> None:
        """`close` must make a pending read return."""
        self._link = _Link(reader, writer, answer)
        self._process = os.getpid()
        self._ids = itertools.count(1)
        self.close = weakref.finalize(self, close)
        """Closes the connection."""
        threading.Thread(target=self._link.read, name="glovebox-rpc", daemon=True).start()

    def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        token: Any = None,
        on_output: OnOutput | None = None,
    ) -> Any:
        """Sends a request to the peer, and waits for the answer. Cancels the request if the token is cancelled, or if
        the listener raises."""
        if self._process != os.getpid():
            raise UnavailableError("this process was forked after connecting; create a new sandbox in it")
        link, id = self._link, next(self._ids)
        events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        with link.lock:
            if link.is_over:
                raise _gone()
            link.waiting[id] = events
        try:
            link.send({"id": id, "method": method, "params": params})
            try:
                return self._wait(id, events, token, on_output, None)
            except (RpcError, UnavailableError):
                raise
            except BaseException:
                # After an interrupt, or an exception from a listener, cancels the request and waits for its end.
                link.send({"method": "cancel", "params": {"id": id}})
                try:
                    self._wait(id, events, None, None, _END_S)
                except (RpcError, UnavailableError):
                    pass
                raise
        finally:
            with link.lock:
                link.waiting.pop(id, None)

    def _wait(
        self,
        id: int,
        events: queue.SimpleQueue[tuple[str, Any]],
        token: Any,
        on_output: OnOutput | None,
        timeout_s: float | None,
    ) -> Any:
        waited = 0.0
        is_cancelled = False
        while True:
            try:
                kind, event = events.get(timeout=_LOOK_S)
            except queue.Empty:
                waited += _LOOK_S
                if timeout_s is not None and waited > timeout_s:
                    raise UnavailableError(
                        f"the script process did not answer within {timeout_s:.0f} seconds; create a new sandbox"
                    ) from None
                if token is not None and token.is_cancelled and not is_cancelled:
                    is_cancelled = True
                    self._link.send({"method": "cancel", "params": {"id": id}})
                continue
            if kind == "output":
                if on_output is not None:
                    on_output(str(event.get("stream")), str(event.get("text")))
            elif kind == "over":
                raise _gone()
            elif "error" in event:
                raise RpcError(event["error"])
            else:
                return event.get("result")


def _gone() -> UnavailableError:
    return UnavailableError("the script process has ended; create a new sandbox")
