"""Glovebox through its Python package, under the default limits, with fuel counted: glovebox_driver.py RUNTIME"""

from __future__ import annotations

import sys

from glovebox_sandbox import Run, Sandbox, Session
from serve import Peer, serve


def printed(run: Run) -> str:
    run.raise_for_outcome()
    return run.stdout


class Glovebox(Peer):
    def __init__(self, runtime: str) -> None:
        # Does not take a checkpoint before each script, because no other contestant can roll back.
        self.box = Sandbox(runtime, checkpoints="never")

    def fresh(self, code: str) -> str:
        return printed(self.box.execute(code))

    def open(self) -> Session:
        return self.box.session()

    def run(self, session: Session, code: str) -> str:
        return printed(session.execute(code))

    def save(self, session: Session) -> bytes:
        return session.hibernate()

    def restore(self, state: bytes) -> Session:
        return self.box.resume(state)

    def close(self, session: Session) -> None:
        session.close()


serve(Glovebox(sys.argv[1]))
