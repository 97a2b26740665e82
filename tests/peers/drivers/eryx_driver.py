"""eryx: CPython 3.14 as a WebAssembly component. Its sandbox runs every script in a new interpreter, and saves only the
picklable variables of a session."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import eryx
from serve import Peer, serve


@dataclass
class WaitingRun:
    """A script that starts again after each answer, with a journal of earlier answers."""

    code: str
    journal: dict[str, Any] | None
    outcome: eryx.ReplayOutcome = None


class Eryx(Peer):
    def __init__(self) -> None:
        self.box = eryx.Sandbox()
        # The answer to the next call to `pay` whose answer is not in the journal.
        self.receipts: list[str] = []
        self.paying = eryx.Sandbox(callbacks=[{"name": "pay", "fn": self.pay}])

    def pay(self, invoice: int) -> str:
        if not self.receipts:
            raise eryx.SuspendCallback(str(invoice))
        return self.receipts.pop()

    def fresh(self, code: str) -> str:
        text: str = self.box.execute(code).stdout_text
        return text

    def open(self) -> eryx.Session:
        return eryx.Session()

    def run(self, session: eryx.Session, code: str) -> str:
        text: str = session.execute(code).stdout_text
        return text

    def save(self, session: eryx.Session) -> bytes:
        state: bytes = session.snapshot_state()
        return state

    def restore(self, state: bytes) -> eryx.Session:
        session = eryx.Session()
        session.restore_state(state)
        return session

    def attempt(self, run: WaitingRun) -> WaitingRun:
        """Runs the script with the journal, until it needs another answer."""
        run.outcome = self.paying.execute_with_journal(run.code, run.journal)
        run.journal = run.outcome.journal
        if run.outcome.error and not run.outcome.suspended:
            raise run.outcome.error
        return run

    def start(self, code: str) -> WaitingRun:
        return self.attempt(WaitingRun(code.replace("pay(", "await pay("), None))

    def invoice(self, run: WaitingRun) -> int:
        return int(run.outcome.suspended.reason)

    def answer(self, run: WaitingRun, receipt: str) -> WaitingRun:
        self.receipts.append(receipt)
        return self.attempt(run)

    def finish(self, run: WaitingRun, receipt: str) -> str:
        text: str = self.answer(run, receipt).outcome.result.stdout_text
        return text

    def suspend(self, run: WaitingRun) -> bytes:
        return json.dumps([run.code, run.journal]).encode()

    def resume_suspended(self, state: bytes, receipt: str) -> WaitingRun:
        return self.answer(WaitingRun(*json.loads(state)), receipt)


serve(Eryx())
