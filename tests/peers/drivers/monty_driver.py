"""Monty: an interpreter for a subset of Python, in a pool of worker processes."""

from __future__ import annotations

from pydantic_monty import CollectString, Monty, MontySession
from serve import Peer, serve


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

    def close(self, session: MontySession) -> None:
        session.__exit__(None, None, None)


serve(MontyPeer())
