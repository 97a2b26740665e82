"""Scripts that wait for answers to tool calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import _check
from ._backend import SuspendingBackend, SuspendingSession
from ._input import _input, listener_of
from .errors import SuspensionError, UnsupportedError
from .run import Run
from .tools import AnswerKind
from .types import SourceKind

if TYPE_CHECKING:
    from ._backend import Call, Input, Listener, Started
    from .sandbox import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A tool call that waits for an answer."""

    id: int
    """The number of the call in the execution, counted from 0. Calls to other tools are counted too."""
    name: str
    """The name of the tool."""
    arguments: dict[str, Any]
    """The arguments, which match the tool's schema."""


class WaitingRun:
    """A script that has called tools with `waits=True` and waits for the answers.

    >>> def pay(euros: int) -> str:
    ...     "Pays an invoice."
    ...     return f"receipt for {euros}"
    >>> box = Sandbox("python", tools=[Tool(pay, waits=True)])
    >>> run = box.start("print(tools.pay(euros=20))")
    >>> while isinstance(run, WaitingRun):
    ...     run = run.answer({call.id: pay(**call.arguments) for call in run.calls})
    >>> run.stdout
    'receipt for 20\\n'

    While the script waits in memory, its limits continue to apply: after `Limits.tool_timeout_ms`, the call raises
    `ToolTimeout` in the script, and `Limits.timeout_ms` includes the wait. `suspend` turns the run into bytes, which
    can wait for days. In a session, other executions wait until the run ends or is suspended. The script is cancelled
    if the run is dropped.
    """

    def __init__(self, started: Started, calls: list[Call], options: RunOptions) -> None:
        """Use `Sandbox.start` or `Session.start` to create an instance."""
        self._started = started
        self._options = options
        self._calls = waiting_calls(calls)

    @property
    def calls(self) -> list[WaitingCall]:
        """The waiting calls, in the order in which the script made them."""
        return list(self._calls)

    @property
    def session(self) -> Session | None:
        """The session in which the script runs. `None` outside sessions."""
        return self._options.place._own_session()

    @property
    def stdout(self) -> str:
        """Standard output so far, as text."""
        return self._started.output(False).decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Standard error so far, as text."""
        return self._started.output(True).decode(errors="replace")

    def answer(
        self,
        answers: Mapping[int, Any] | None = None,
        *,
        denied: Mapping[int, str] | None = None,
        failed: Mapping[int, str] | None = None,
    ) -> Run | WaitingRun:
        """Answers waiting calls, and continues the script until it ends or needs more answers. Calls without an answer
        continue to wait.

        The keys are IDs of `calls`. `answers` contains results, which must be values that JSON can represent. `denied`
        contains reasons: the calls raise `tools.ToolDenied` in the script. `failed` contains messages: the calls raise
        `tools.ToolError`. Answers to calls that have timed out are ignored.

        The listeners of `start` receive the output that the script writes until it ends or waits again.
        """
        return advance(self._started, _answers(self._calls, answers, denied, failed), self._options)

    def suspend(self) -> bytes:
        """Ends the run, and returns it as bytes for `resume_suspended`, in any process on any machine that has the same
        interpreter.

        The bytes contain the script, its input and everything that it has received. They are not encrypted. A checksum
        detects damage, but not forgery. In a session, the bytes also contain the session in its state before the
        script. The session itself is rolled back to its last checkpoint.

        Raises `SuspensionError` if the script no longer waits, if it has received more than 1 MiB, or if the function
        of another tool is running. The script then continues.
        """
        return self._started.suspend()

    def fork(self, count: int) -> list[WaitingRun]:
        """Ends the run, and returns `count` copies that wait for the same calls. Answer each one differently to compare
        the results:

        >>> def choose() -> str:
        ...     "Chooses a color."
        >>> run = Sandbox("python", tools=[Tool(choose, waits=True)]).start("print(tools.choose())")
        >>> forks = run.fork(3)
        >>> [fork.answer({0: color}).stdout for fork, color in zip(forks, ["red", "green", "blue"])]
        ['red\\n', 'green\\n', 'blue\\n']

        Each fork repeats the script without calling tools, until it waits. This takes about as much CPU time as the
        script has used so far. Each fork has its own interpreter and files. In a session, it has its own `session`, in
        its state before the script. Forks keep the listeners and the `timeout_ms` of `start`; the time of each fork
        starts again.

        Raises the errors of `suspend` and `resume_suspended`. If a fork cannot be created, the other forks are
        cancelled, and the run is lost. To keep the run in this case, use `suspend`, and resume its bytes several times.
        """
        return self._fork([None] * _check.whole("count", count))

    def _fork(self, tokens: list[Any]) -> list[WaitingRun]:
        """Like `fork`, with a token for each fork."""
        options = self._options
        # If the sandbox was closed, this raises an error before the run ends.
        _suspending(options.place._startable())
        state = self.suspend()
        forks = []
        for token in tokens:
            at = replace(options, place=options.place._fork_place(state))
            run = _resume(state, at, token)
            if isinstance(run, Run):
                raise SuspensionError(f"a fork ended before it waited for its calls: {run.outcome}")
            forks.append(run)
        return forks

    def __repr__(self) -> str:
        return f"<WaitingRun: {', '.join(f'{call.name} ({call.id})' for call in self._calls)}>"


class Startable:
    """The methods of sandboxes and sessions for scripts that wait for answers. They require the native backend or a
    daemon."""

    def _startable(self) -> object:
        """Returns the sandbox or the session of the backend."""
        raise NotImplementedError

    def _own_session(self) -> Session | None:
        """Returns the session in which scripts run. `None` for a sandbox."""
        raise NotImplementedError

    def _fork_place(self, state: bytes) -> Startable:
        """Returns the sandbox in which a fork of a suspended run is resumed, or a new session in the state before the
        run."""
        raise NotImplementedError

    def start(
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
    ) -> Run | WaitingRun:
        """Like `execute`, but returns a `WaitingRun` if the script calls a tool with `waits=True` and waits for the
        answer.

        `timeout_ms` includes the time that the script waits in memory, but not the time while it is suspended.
        `on_stdout` and `on_stderr` are called while this method or `WaitingRun.answer` runs, on its thread. If one of
        them raises an exception, the script is cancelled and the exception is raised again.
        """
        return start(self, _input(source, name, kind, stdin, context, timeout_ms, on_stdout, on_stderr, None))

    def resume_suspended(
        self,
        state: bytes,
        answers: Mapping[int, Any] | None = None,
        *,
        denied: Mapping[int, str] | None = None,
        failed: Mapping[int, str] | None = None,
        timeout_ms: int | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> Run | WaitingRun:
        """Resumes a run from the bytes that `WaitingRun.suspend` returned, in this or another process, with answers as
        in `WaitingRun.answer`. Without answers, the result waits for the same calls.

        The script starts again with the same answers, times and random numbers, and without calling tools. It runs
        until it waits for the same calls. This takes about as much CPU time as the script used before. The
        result contains everything since the first start, but `on_stdout` and `on_stderr` receive only new output. To
        resume a run that was suspended in a session, use the session that `Sandbox.resume_suspended_session` restores.

        The tools, files, arguments and environment variables must be the same. If the script behaves differently, if
        the bytes are damaged, or if the interpreter is different, raises `SuspensionError`. The bytes can be resumed
        several times, for example with different answers.

        Resuming bytes from another author runs that author's code, within this sandbox's limits.
        """
        listener = listener_of(on_stdout, on_stderr)
        return resume(self, state, timeout_ms, listener, None, answers, denied, failed)


def suspending_backend(backend: object) -> SuspendingBackend:
    """Returns the backend if it can suspend executions. Otherwise, raises `UnsupportedError`."""
    if not isinstance(backend, SuspendingBackend):
        raise _unsupported(backend)
    return backend


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run that its forks keep."""

    place: Startable
    """The sandbox or session in which the script runs."""
    timeout_ms: int | None
    listener: Listener | None


def start(place: Startable, input: Input) -> Run | WaitingRun:
    """Starts a script in a sandbox or a session, and runs it until it ends or waits for answers."""
    *_, timeout_ms, listener, _ = input
    return advance(_suspending(place._startable()).start(input), [], RunOptions(place, timeout_ms, listener))


def resume(
    place: Startable,
    state: bytes,
    timeout_ms: int | None,
    listener: Listener | None,
    token: Any,
    answers: Mapping[int, Any] | None,
    denied: Mapping[int, str] | None,
    failed: Mapping[int, str] | None,
) -> Run | WaitingRun:
    """Resumes a suspended run in a sandbox or a session, and passes the answers when the script waits again."""
    if timeout_ms is not None:
        _check.whole("timeout_ms", timeout_ms)
    run = _resume(_check.of("state", bytes, state), RunOptions(place, timeout_ms, listener), token)
    return run.answer(answers, denied=denied, failed=failed) if isinstance(run, WaitingRun) else run


def _resume(state: bytes, options: RunOptions, token: Any) -> Run | WaitingRun:
    """Resumes a suspended run, and runs it until it waits for the same calls."""
    input = (state, options.timeout_ms, options.listener is not None, token)
    return advance(_suspending(options.place._startable()).start_suspended(input), [], options)


def advance(
    started: Started, answers: list[tuple[int, AnswerKind, str]], options: RunOptions
) -> Run | WaitingRun:
    """Passes answers to a script, and runs it until it ends or needs more answers."""
    executed, calls = started.advance(answers, options.listener)
    return WaitingRun(started, calls, options) if executed is None else Run(executed)


def waiting_calls(calls: list[Call]) -> list[WaitingCall]:
    """Converts a backend's calls to `WaitingCall` objects."""
    return [WaitingCall(id=id, name=name, arguments=json.loads(arguments)) for id, name, arguments in calls]


def _suspending(on: object) -> SuspendingSession:
    if not isinstance(on, SuspendingSession):
        raise _unsupported(on)
    return on


def _unsupported(on: object) -> UnsupportedError:
    why = getattr(on, "cannot_suspend", 'this backend cannot suspend scripts; use backend="native" or "daemon"')
    return UnsupportedError(why)


def _answers(
    calls: list[WaitingCall],
    answers: Mapping[int, Any] | None,
    denied: Mapping[int, str] | None,
    failed: Mapping[int, str] | None,
) -> list[tuple[int, AnswerKind, str]]:
    """Checks that each answer is for one of the waiting calls, and converts results to JSON text."""
    waiting = [call.id for call in calls]
    given: dict[int, tuple[AnswerKind, str]] = {}
    kinds: list[tuple[str, AnswerKind, Mapping[int, Any] | None]] = [
        ("answers", "returned", answers),
        ("denied", "denied", denied),
        ("failed", "failed", failed),
    ]
    for name, kind, each in kinds:
        if not isinstance(each, Mapping | None):
            raise _check.wrong(name, "a mapping", each)
        for id, value in (each or {}).items():
            if _check.whole(f"a key of {name}", id) not in waiting:
                raise ValueError(
                    f"{name} has the key {id}, but the script is not waiting for this call; "
                    f"answer one of these calls: {', '.join(map(str, waiting))}"
                )
            if id in given:
                raise ValueError(f"{name} has the key {id}, but the call has another answer; give each call one answer")
            path = f"{name}[{id}]"
            given[id] = kind, _check.as_json(path, value) if kind == "returned" else _check.of(path, str, value)
    return [(id, kind, text) for id, (kind, text) in given.items()]
