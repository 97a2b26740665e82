"""One execution in the daemon: its output, its tool calls and its cancellation."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._backend import Input, Listener
from ._daemon_client import Client, Problem
from ._remote import cancelled
from .errors import GloveboxError, UnavailableError
from .tools import Answer, AnswerKind, Await, CancelToken, Tool, answer

_LOOK_S = 0.05
"""Polling interval for the cancellation token, in seconds."""

_FIRST_POLL_S = 0.05
_POLL_S = 0.25
"""Intervals between checks that a script still waits for its tools, in seconds: the first interval, and all later ones.
A limit can end the script while its tools run."""

_RETRY_S = 1.0
"""Interval between attempts to resume an execution while the daemon is busy, in seconds."""

_END_S = 30.0
"""Maximum wait for the response to a cancellation, and for the end of an execution after an interrupt, in seconds."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The tools of a sandbox by name, and the function that awaits the coroutines of `async` tools."""

    tools: Mapping[str, Tool]
    wait: Await

    @property
    def waiting(self) -> frozenset[str]:
        """The names of the tools whose calls wait for the caller of `start`."""
        return frozenset(name for name, tool in self.tools.items() if tool.waits)

    def answer(self, call: dict[str, Any], token: CancelToken) -> Answer:
        """Answers a call. Denies the call if the daemon's policy requires approval for it."""
        name: str = call["name"]
        if call.get("approve"):
            return "denied", f"calls to `{name}` need an approval; define the tool with `waits=True`, and use `start`"
        tool = self.tools.get(name)
        if tool is None:
            return "failed", f"unknown tool `{name}`; call a registered tool"
        if tool.waits:
            return "failed", f"calls to `{name}` wait for an answer, but the script was not begun with `start`; use `start`"
        return answer(tool, self.wait, json.dumps(call["arguments"]), token)


_Jobs = queue.SimpleQueue[tuple[dict[str, Any], CancelToken] | None]


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to a tool call, to be sent with the next request."""

    call: int
    kind: AnswerKind
    text: str
    jobs: _Jobs | None = None
    """The job queue of the tool thread that produced the answer."""

    def json(self) -> str:
        if self.kind == "returned":
            return f'{{"id": {self.call}, "value": {self.text}}}'
        error = {"type": "ToolDenied", "message": self.text} if self.kind == "denied" else self.text
        return json.dumps({"id": self.call, "error": error})


_Event = dict[str, Any] | CallAnswer | Exception
"""A chunk of a response, a tool's answer, or the failure of a request."""


def execute(client: Client, handlers: Handlers, target: str, body: str, input: Input) -> dict[str, Any]:
    """Executes a script and returns its record, even if the script is cancelled before it starts. Raises `Problem` if
    the daemon reports an error."""
    token = input[7]
    if token is not None and token.is_cancelled:
        return cancelled()
    execution = Execution(client, handlers, input[6], token)
    try:
        return execution.run(target, body)
    except Problem as problem:
        if problem.type == "cancelled" or (execution.is_cancelled and problem.type == "not-found"):
            return cancelled()
        raise


def _read(
    client: Client, requests: queue.SimpleQueue[Any], events: queue.SimpleQueue[_Event], has_listener: bool
) -> None:
    """Sends an execution's requests one after another, and queues the chunks of the responses. Runs on a separate
    thread, so that a slow listener does not delay the script and an interrupt loses no chunk. A request without a body
    cancels the execution."""
    while (request := requests.get()) is not None:
        target, body = request
        if body is None:
            with contextlib.suppress(Problem, GloveboxError):
                client.json("DELETE", target, timeout_s=_END_S)
            continue
        try:
            last: dict[str, Any] | None = None
            for chunk in client.stream(target, body):
                if chunk["type"] in ("result", "needs-tools", "error"):
                    # Queued only after the connection is free, so that the next request can reuse the connection.
                    last = chunk
                elif has_listener or chunk["type"] == "started":
                    events.put(chunk)
            if last is None:
                raise UnavailableError("the daemon's response ended without a result; create a new sandbox")
            events.put(last)
        except Exception as error:  # Raised again by the thread that waits for the execution.
            events.put(error)


class Execution:
    """An execution in the daemon, from its start to its end."""

    _waiting: frozenset[str] = frozenset()
    """The names of the tools whose calls wait for the caller."""

    def __init__(self, client: Client, handlers: Handlers, listener: Listener | None, token: Any) -> None:
        self._client = client
        self._handlers = handlers
        self._listener, self._token = listener, token
        self._is_direct = listener is None and token is None
        """True if the calling thread sends the requests itself, because no output is streamed and no token is
        watched."""
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[tuple[str, str | None] | None] = queue.SimpleQueue()
        self._path: str | None = None
        self._is_running = True
        """True while a request runs the script. Otherwise the script waits for its tools."""
        self._has_begun = self._has_ended = False
        self._is_abandoned = False
        """True if the execution must be cancelled because waiting for it was interrupted."""
        self.is_cancelled = False
        self._calls: dict[int, CancelToken | None] = {}
        """The cancellation tokens of the calls to handlers that the script waits for, by ID; `None` once answered."""
        self._open: list[dict[str, Any]] = []
        """The calls that wait for the caller."""
        self._jobs: _Jobs = queue.SimpleQueue()
        """Calls for the idle tool threads. Each `None` ends one thread."""
        self._threads = self._idle_threads = 0
        """The number of tool threads, and the number of them that are idle because they have sent their answer."""
        self._answers: list[CallAnswer] = []
        self._sent: list[CallAnswer] | None = None
        """The answers in the last request that resumed the script; `None` before the script is first resumed."""
        self._sends_one = False
        """True if each request contains at most one answer, because the daemon rejected a request with several."""
        self._refused: Problem | None = None
        """The error with which the daemon last refused to resume the script because it was busy."""
        self._resume_at = 0.0

    def run(self, target: str, body: str) -> dict[str, Any]:
        try:
            self._begin(target, body, self._listener is not None)
            record = self._follow(None)
            assert record is not None, "no calls wait for the caller"
            return record
        except BaseException:
            self._abandon()
            raise
        finally:
            self._finish()

    def _begin(self, target: str, body: str, has_listener: bool) -> None:
        if not self._is_direct:
            arguments = (self._client, self._requests, self._events, has_listener)
            threading.Thread(target=_read, args=arguments, name="glovebox-execution", daemon=True).start()
        self._has_begun = True
        self._send(target, body)

    def _abandon(self) -> None:
        """Cancels the execution and waits for its end, after an interrupt or an exception in a listener."""
        if self._has_begun and not self._has_ended:
            self._listener, self._is_abandoned = None, True
            with contextlib.suppress(Problem, UnavailableError):
                self._follow(time.monotonic() + _END_S)

    def _finish(self) -> None:
        """Ends the threads, and cancels the calls that the script has abandoned."""
        self._requests.put(None)
        self._end_threads()
        for token in self._calls.values():
            if token is not None:
                token.cancel()

    def _end_threads(self) -> None:
        """Ends each tool thread after it has sent its answer."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._jobs = queue.SimpleQueue()
        self._threads = self._idle_threads = 0

    def _follow(self, deadline: float | None) -> dict[str, Any] | None:
        """Handles events until the execution has ended, and returns its record. Returns `None` when the script waits
        only for calls in `_open`."""
        while True:
            event = self._next(deadline)
            if isinstance(event, CallAnswer):
                if event.jobs is self._jobs:
                    self._idle_threads += 1
                if event.call in self._calls:
                    self._calls[event.call] = None
                    self._answers.append(event)
                    self._resume_at = 0.0
            elif isinstance(event, Exception):
                self._failed(event)
            elif event["type"] in ("stdout", "stderr"):
                self._wrote(event["type"] == "stderr", event["text"].encode())
            elif event["type"] == "started":
                self._path = f"/v1/executions/{event['execution']}"
            elif event["type"] == "needs-tools":
                self._suspended(event)
                if self._open and not self._calls and not self._answers and not self._is_abandoned:
                    return None
            elif event["type"] == "error":
                self._failed(Problem(event["problem"]))
            elif event["type"] == "result":
                self._has_ended = True
                record: dict[str, Any] = event["result"]
                return record

    def _wrote(self, is_stderr: bool, written: bytes) -> None:
        if self._listener is not None:
            self._listener(is_stderr, written)

    def _next(self, deadline: float | None) -> _Event:
        """Waits for the next event. Cancels or resumes the execution in the meantime if necessary."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._events.get_nowait()
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise UnavailableError(f"the daemon did not end the execution within {_END_S:.0f} seconds; restart the daemon")
            is_watched = self._token is not None or self._is_abandoned
            if is_watched and self._path is not None and not self.is_cancelled:
                if self._is_abandoned or self._token.is_cancelled:
                    result = self._cancel(self._path)
                    if result is not None:
                        return {"type": "result", "result": result}
                    continue
            if not self._is_running and now >= self._resume_at:
                self._resume()
            wait_s = _LOOK_S if is_watched else None
            if not self._is_running:
                wait_s = min(max(self._resume_at - now, 0), wait_s or _POLL_S)
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=wait_s)

    def _cancel(self, path: str) -> Any:
        """Cancels the execution. Returns its result if the script was waiting for its tools, because no other response
        contains that result."""
        result = None
        # The request fails if the execution has already ended. Its result is then in the queue.
        with contextlib.suppress(Problem):
            result = self._client.json("DELETE", path, timeout_s=_END_S)
        self.is_cancelled = True
        return result

    def _resume(self) -> None:
        """Sends the answers to the script. Without answers, the request only checks that the script still waits."""
        count = 1 if self._sends_one else len(self._answers)
        self._sent, self._answers = self._answers[:count], self._answers[count:]
        self._is_running = True
        answers = ", ".join(each.json() for each in self._sent)
        self._send(f"{self._path}/continue", f'{{"answers": [{answers}]}}')

    def _send(self, target: str, body: str) -> None:
        """Sends a request, and queues its response as events."""
        if not self._is_direct:
            self._requests.put((target, body))
            return
        try:
            answer = self._client.json("POST", target, body)
        except Exception as error:  # Raised again by `_failed`.
            self._events.put(error)
        except BaseException:
            # The connection is closed, which cancels the execution.
            self._has_ended = True
            raise
        else:
            self._events.put(answer if answer.get("type") == "needs-tools" else {"type": "result", "result": answer})

    def _suspended(self, needs: dict[str, Any]) -> None:
        """Starts answering new calls, and cancels the calls that the script has abandoned."""
        self._is_running, self._path = False, f"/v1/executions/{needs['execution']}"
        self._open = [call for call in needs["calls"] if call["name"] in self._waiting]
        calls = {call["id"]: call for call in needs["calls"] if call["name"] not in self._waiting}
        for id in self._calls.keys() - calls.keys():
            token = self._calls.pop(id)
            if token is not None:
                token.cancel()
        new = calls.keys() - self._calls.keys()
        for id in new:
            token = self._calls[id] = CancelToken()
            self._start(calls[id], token)
        self._resume_at = 0.0 if self._answers else time.monotonic() + (_FIRST_POLL_S if new else _POLL_S)

    def _start(self, call: dict[str, Any], token: CancelToken) -> None:
        """Answers a call on an idle thread, or on a new one."""
        if self._idle_threads > 0:
            self._idle_threads -= 1
            self._jobs.put((call, token))
            return
        threading.Thread(target=self._answer, args=(call, token, self._jobs), name="glovebox-tool", daemon=True).start()
        self._threads += 1

    def _answer(self, call: dict[str, Any], token: CancelToken, jobs: _Jobs) -> None:
        """Answers a call, then further calls from the queue until the execution ends. Runs on a tool thread."""
        job: tuple[dict[str, Any], CancelToken] | None = (call, token)
        while job is not None:
            call, token = job
            kind, text = self._handlers.answer(call, token)
            self._events.put(CallAnswer(call["id"], kind, text, jobs))
            job = jobs.get()

    def _failed(self, error: Exception) -> None:
        """Handles a failed request. Raises the error unless the execution can still be resumed."""
        if self._sent is not None and isinstance(error, Problem):
            if error.status == 503:
                self._refused, self._is_running = error, False
                self._answers, self._resume_at = self._sent + self._answers, time.monotonic() + _RETRY_S
                return
            if error.type in ("invalid-argument", "too-large") and any(each.kind == "returned" for each in self._sent):
                # The daemon rejected a result, such as one that is nested too deeply, and discarded all answers. The
                # script receives the reason in place of that result.
                self._is_running, self._resume_at = False, 0.0
                is_one, self._sends_one = len(self._sent) == 1, True
                self._answers[:0] = [CallAnswer(self._sent[0].call, "failed", str(error))] if is_one else self._sent
                return
            if error.type == "not-found" and self._refused is not None:
                error = self._refused
        self._has_ended = True
        raise error
