"""The shared part of all drivers in Python: reads requests from standard input, one JSON object per line, measures the requested
calls, and answers with their durations and the scripts' output. The other side checks the output.

    {"do": "fresh", "code": "print(1)", "budget_ms": 400}    ->  {"ms": [0.1, 0.1], "answers": ["1", "1"]}
                                                                 {"ms": [0.1], "answers": ["…"], "bytes": 3000} for `suspend`
                                                                 {"error": "…"}
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

# Maximum number of calls in a turn, which also has a time budget.
MAX_CALLS = 200
# The first call of a turn refills the processor's caches, which other contestants have used since the last turn. It is
# not counted if it is faster than this, because refilling then makes up a visible part of its time.
WARM_UP_BELOW_MS = 10.0


class Peer:
    """A contestant. Contestants without sessions override `work` and `agent`. Those that cannot save omit `save` and
    `restore`, and those that cannot suspend scripts omit the methods from `start` to `drop`."""

    def fresh(self, code: str) -> str:
        """Runs a script in a new interpreter, and returns its output."""
        raise NotImplementedError

    def open(self) -> Any:
        """Opens a session."""
        raise NotImplementedError

    def run(self, session: Any, code: str) -> str:
        """Runs a script in a session, and returns its output."""
        raise NotImplementedError

    def save(self, session: Any) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> Any:
        """Opens a session with the state of a saved session."""
        raise NotImplementedError

    def close(self, session: Any) -> None:
        """Ends a session."""

    def start(self, code: str) -> Any:
        """Starts a script that calls `pay`, and returns the run when it waits for the first answer."""
        raise NotImplementedError

    def invoice(self, run: Any) -> int:
        """Returns the argument of the call for which a run waits."""
        raise NotImplementedError

    def answer(self, run: Any, receipt: str) -> Any:
        """Answers the call for which a run waits, and returns the run when it waits for the next answer."""
        raise NotImplementedError

    def finish(self, run: Any, receipt: str) -> str:
        """Answers the last call, and returns the script's whole output."""
        raise NotImplementedError

    def suspend(self, run: Any) -> bytes:
        """Turns a waiting run into bytes. The run is not used again."""
        raise NotImplementedError

    def resume_suspended(self, state: bytes, receipt: str) -> Any:
        """Resumes a run from these bytes with an answer, and returns the run when it waits for the next answer."""
        raise NotImplementedError

    def drop(self, run: Any) -> None:
        """Releases a run that has ended or was suspended."""

    def agent(self, start: str, commands: list[str]) -> tuple[float, str]:
        """Opens a session, and runs a first script and the commands in it. Returns the time in milliseconds, and the
        output of the first script and of the last command."""
        begun = time.perf_counter()
        session = self.open()
        printed = [self.run(session, code).strip() for code in (start, *commands)]
        took_ms = (time.perf_counter() - begun) * 1e3
        self.close(session)
        return took_ms, f"{printed[0]} {printed[-1]}"

    def work(self, code: str, budget_ms: float) -> dict[str, Any]:
        """Runs a script in a session repeatedly."""
        session = self.open()
        result = turn(lambda: timed(lambda: self.run(session, code)), budget_ms)
        self.close(session)
        return result


def timed(call: Callable[[], str]) -> tuple[float, str]:
    begun = time.perf_counter()
    answer = call()
    return (time.perf_counter() - begun) * 1e3, answer


def turn(call: Callable[[], tuple[float, str]], budget_ms: float) -> dict[str, Any]:
    """Makes a call at least once, and repeats it until the time budget is exhausted or `MAX_CALLS` is reached. Discards
    the time of the first of several calls if it is below `WARM_UP_BELOW_MS`."""
    ms: list[float] = []
    answers: list[str] = []
    begun = time.perf_counter()
    while not ms or ((time.perf_counter() - begun) * 1e3 < budget_ms and len(ms) < MAX_CALLS):
        took, answer = call()
        ms.append(took)
        answers.append(answer.strip())
    if len(ms) > 1 and ms[0] < WARM_UP_BELOW_MS:
        del ms[0]
    return {"ms": ms, "answers": answers}


def receipt(invoice: int) -> str:
    return f"receipt {invoice}"


def waiting(peer: Peer, code: str, calls: int) -> Any:
    """Starts a script, and answers this number of calls."""
    run = peer.start(code)
    for invoice in range(calls):
        run = peer.answer(run, receipt(invoice))
    return run


def suspended(peer: Peer, code: str, calls: int) -> tuple[float, bytes]:
    """Suspends a script after this number of answered calls. Returns the time that suspending took, in
    milliseconds, and the bytes."""
    run = waiting(peer, code, calls)
    begun = time.perf_counter()
    state = peer.suspend(run)
    took_ms = (time.perf_counter() - begun) * 1e3
    peer.drop(run)
    return took_ms, state


def finished(peer: Peer, run: Any) -> str:
    """Ends a resumed script. Returns the argument of its last call and its output."""
    invoice = peer.invoice(run)
    text = f"{invoice} {peer.finish(run, receipt(invoice)).strip()}"
    peer.drop(run)
    return text


def suspending(peer: Peer, code: str, calls: int, budget_ms: float) -> dict[str, Any]:
    """Measures suspending. The check uses the last suspended script."""
    states: list[bytes] = []

    def suspend() -> tuple[float, str]:
        took_ms, state = suspended(peer, code, calls)
        states[:] = [state]
        return took_ms, ""

    result = turn(suspend, budget_ms)
    run = peer.resume_suspended(states[0], receipt(calls))
    return result | {"answers": [finished(peer, run)], "bytes": len(states[0])}


def continuing(peer: Peer, code: str, calls: int, budget_ms: float) -> dict[str, Any]:
    """Measures resuming a suspended script with an answer, until it waits again."""
    _, state = suspended(peer, code, calls)

    def resume() -> tuple[float, str]:
        begun = time.perf_counter()
        run = peer.resume_suspended(state, receipt(calls))
        took_ms = (time.perf_counter() - begun) * 1e3
        return took_ms, finished(peer, run)

    return turn(resume, budget_ms)


def answer(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    do, code, budget_ms = request["do"], request["code"], float(request["budget_ms"])
    if do == "fresh":
        return turn(lambda: timed(lambda: peer.fresh(code)), budget_ms)
    if do == "work":
        return peer.work(code, budget_ms)
    if do == "agent":
        return turn(lambda: peer.agent(code, request["commands"]), budget_ms)
    if do == "suspend":
        return suspending(peer, code, request["calls"], budget_ms)
    if do == "continue":
        return continuing(peer, code, request["calls"], budget_ms)
    session = peer.open()
    peer.run(session, request["setup"])
    if do == "live":
        result = turn(lambda: timed(lambda: peer.run(session, code)), budget_ms)
        peer.close(session)
        return result
    state = peer.save(session)
    if do == "hibernate":
        states: list[bytes] = []

        def save() -> str:
            states[:] = [peer.save(session)]
            return ""

        result = turn(lambda: timed(save), budget_ms)
        peer.close(session)
        # Runs the code in the last saved session, so that the caller can compare the answer.
        restored = peer.restore(states[0])
        result["answers"] = [peer.run(restored, code).strip()]
        peer.close(restored)
        return result
    if do == "resume":
        peer.close(session)

        def resume() -> tuple[float, str]:
            begun = time.perf_counter()
            restored = peer.restore(state)
            text = peer.run(restored, code)
            took = (time.perf_counter() - begun) * 1e3
            peer.close(restored)
            return took, text

        return turn(resume, budget_ms)
    raise ValueError(f"unknown measure `{do}`")


def serve(peer: Peer) -> None:
    """Answers requests until standard input ends."""
    # A contestant's output must not be mixed with the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            result = answer(peer, json.loads(line))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(result) + "\n")
        out.flush()
