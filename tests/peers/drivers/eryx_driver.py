"""eryx: CPython 3.14 as a WebAssembly component. Its sandbox runs every script in an interpreter of its own. It saves
only the picklable variables of a session."""

from __future__ import annotations

import eryx
from serve import Peer, serve


class Eryx(Peer):
    def __init__(self) -> None:
        self.box = eryx.Sandbox()

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


serve(Eryx())
