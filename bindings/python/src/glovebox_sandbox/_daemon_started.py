"""Executions in the daemon whose caller answers tool calls."""

from __future__ import annotations

import json
import queue
import weakref
from typing import Any

from ._backend import Call, Listener
from ._daemon_client import Client, Problem
from ._daemon_errors import errors
from ._daemon_execution import CallAnswer, Execution, Handlers
from ._remote import RemoteExecution, SessionFiles, cancelled
from .errors import SuspensionError
from .tools import AnswerKind

OF_RESUMPTION = ("invalid-argument", "not-resumable", "diverged")
"""The error types of a request whose suspended execution cannot be resumed. The sandbox's options were checked earlier,
so an invalid argument can only be the suspended execution."""


def _dropped(requests: queue.SimpleQueue[Any], waiting: list[str]) -> None:
    """Cancels a dropped execution if it waits for the caller, and ends the thread that sends its requests."""
    for path in waiting:
        requests.put((path, None))
    requests.put(None)


class DaemonStarted(Execution):
    """An execution that the caller advances from one wait to the next. It is cancelled when it is dropped."""

    def __init__(
        self,
        client: Client,
        handlers: Handlers,
        token: Any,
        target: str,
        body: str,
        session: SessionFiles | None,
        of_suspension: tuple[str, ...] = (),
    ) -> None:
        super().__init__(client, handlers, None, token)
        # Each step collects its output, so every response is streamed, on a separate thread.
        self._is_direct = False
        self._waiting = handlers.waiting
        self._first = (target, body)
        self._session = session
        self._of_suspension = of_suspension
        self._executed: RemoteExecution | None = None
        self._output: dict[bool, list[bytes]] = {False: [], True: []}
        self._cancel_paths: list[str] = []
        """The path of the execution while it waits for the caller; otherwise empty."""
        weakref.finalize(self, _dropped, self._requests, self._cancel_paths).atexit = False

    def _wrote(self, is_stderr: bool, written: bytes) -> None:
        self._output[is_stderr].append(written)
        super()._wrote(is_stderr, written)

    def advance(
        self, answers: list[tuple[int, AnswerKind, str]], listener: Listener | None
    ) -> tuple[RemoteExecution | None, list[Call]]:
        if self._executed is not None:
            return self._executed, []
        self._listener = listener
        self._cancel_paths.clear()
        try:
            record = self._step([CallAnswer(*answer) for answer in answers])
        except BaseException:
            self._abandon()
            self._end(cancelled())
            raise
        finally:
            self._listener = None
        if record is not None:
            return self._end(record), []
        # Idle tool threads would keep this object alive.
        self._end_threads()
        self._cancel_paths.append(str(self._path))
        return None, [(call["id"], call["name"], json.dumps(call["arguments"])) for call in self._open]

    def _step(self, answers: list[CallAnswer]) -> dict[str, Any] | None:
        """Starts the script, or passes answers to it. Returns its record, or `None` if it waits."""
        if not self._has_begun and self._token is not None and self._token.is_cancelled:
            return cancelled()
        with errors(of_suspension=self._of_suspension):
            try:
                if not self._has_begun:
                    self._begin(*self._first, True)
                else:
                    self._of_suspension = ("not-found", "diverged")
                    self._answers += answers
                    self._resume_at = 0.0
                return self._follow(None)
            except Problem as problem:
                if problem.type == "cancelled" or (self.is_cancelled and problem.type == "not-found"):
                    return cancelled()
                raise

    def _end(self, record: dict[str, Any]) -> RemoteExecution:
        self._has_ended = True
        self._executed = RemoteExecution(record, self._session)
        self._finish()
        return self._executed

    def suspend(self) -> bytes:
        if self._executed is not None:
            raise SuspensionError("cannot suspend the run: it has ended")
        with errors(of_suspension=("not-suspendable", "not-found")):
            state = self._client.request("POST", f"{self._path}/suspend")[1]
        self._cancel_paths.clear()
        self._end(cancelled())
        return state

    def cancel(self) -> None:
        """Cancels the execution and discards its result."""
        if self._executed is None:
            self._abandon()
            self._cancel_paths.clear()
            self._end(cancelled())

    def output(self, is_stderr: bool) -> bytes:
        if self._executed is not None:
            return self._executed.stderr_bytes if is_stderr else self._executed.stdout_bytes
        return b"".join(self._output[is_stderr])
