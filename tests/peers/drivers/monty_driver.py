"""Monty: an interpreter for a subset of Python, in a pool of worker processes."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_monty import CollectString, FunctionSnapshot, Monty, MontyComplete, MontySession
from serve import Peer, serve


@dataclass
class WaitingRun:
    session: MontySession
    snapshot: FunctionSnapshot
    out: CollectString


class MontyPeer(Peer):
    def __init__(self) -> None:
        self.pool = Monty()
        self.pool.__enter__()

    def fresh(self, code: str) -> str:
        with self.pool.checkout() as session:
            return self.run(session, code)

    def open(self) -> MontySession:
        session = self.pool.checkout()
        session.__enter__()
        return session

    def run(self, session: MontySession, code: str) -> str:
        out = CollectString()
        session.feed_run(code, print_callback=out)
        text: str = out.output
        return text

    def save(self, session: MontySession) -> bytes:
        state: bytes = session.dump()
        return state

    def restore(self, state: bytes) -> MontySession:
        session = self.open()
        session.load_session(state)
        return session

    def start(self, code: str) -> WaitingRun:
        session, out = self.open(), CollectString()
        return WaitingRun(session, session.feed_start(code, print_callback=out), out)

    def invoice(self, run: WaitingRun) -> int:
        invoice: int = run.snapshot.kwargs["invoice"]
        return invoice

    def answer(self, run: WaitingRun, receipt: str) -> WaitingRun:
        run.snapshot = run.snapshot.resume({"return_value": receipt})
        return run

    def finish(self, run: WaitingRun, receipt: str) -> str:
        ended = run.snapshot.resume({"return_value": receipt})
        if not isinstance(ended, MontyComplete):
            raise RuntimeError(f"the script has not ended: {ended}")
        text: str = run.out.output
        return text

    def suspend(self, run: WaitingRun) -> bytes:
        state: bytes = run.snapshot.dump()
        return state

    def resume_suspended(self, state: bytes, receipt: str) -> WaitingRun:
        session, out = self.open(), CollectString()
        return self.answer(WaitingRun(session, session.load_snapshot(state, print_callback=out), out), receipt)

    def drop(self, run: WaitingRun) -> None:
        self.close(run.session)

    def close(self, session: MontySession) -> None:
        session.__exit__(None, None, None)


serve(MontyPeer())
