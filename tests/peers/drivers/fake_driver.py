"""A fake contestant for `tests/peers/run --check`: fake_driver.py right|wrong|hangs|ends|raises|forgets
It recognizes scripts by their text, and executes those that compute. `forgets` misbehaves after saving and
suspending, and the other modes except `right` misbehave in `words`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from serve import Peer, serve

MODE = sys.argv[1]


class Waits(Exception):
    """The exception that ends a script at a call without an answer."""


@dataclass
class FakeRun:
    """A script that starts again after each answer."""

    code: str
    receipts: list[str] = field(default_factory=list)

    def attempt(self) -> int | str:
        """Returns the argument of the first call without an answer, or the output of the script."""
        receipts = iter(self.receipts)

        def pay(invoice: int) -> str:
            for receipt in receipts:
                return receipt
            raise Waits(invoice)

        try:
            return executed(self.code, {"pay": pay})
        except Waits as waits:
            return int(waits.args[0])


def executed(code: str, variables: dict[str, Any]) -> str:
    """Executes a script, and returns its output."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, variables)
    return printed.getvalue()


class Fake(Peer):
    def fresh(self, code: str) -> str:
        return self.run(self.open(), code)

    def open(self) -> dict[str, Any]:
        return {"x": 0, "names": 0, "variables": {}}

    def run(self, session: dict[str, Any], code: str) -> str:
        if code == "x = 0":
            return ""
        if code.startswith("x += 1"):
            session["x"] += 1
            return f"{session['x']}\n"
        if code.startswith("x = 41"):
            session.update(x=41, names=1000)
            return ""
        if code.startswith("print(x + 1"):
            return f"{session['x'] + 1} {session['names']} name {session['names'] - 1}\n"
        return self.misbehaviour(code) or executed(code, session["variables"])

    def misbehaviour(self, code: str) -> str | None:
        """Returns a wrong answer, or `None` if the script must be executed."""
        if "words" in code:
            if MODE == "wrong":
                return "11889 k999=464971\n"
            if MODE == "hangs":
                time.sleep(600)
            if MODE == "ends":
                os._exit(7)
            if MODE == "raises":
                raise MemoryError("no room for words")
        return None

    def save(self, session: dict[str, Any]) -> bytes:
        return json.dumps({} if MODE == "forgets" else session).encode()

    def restore(self, state: bytes) -> dict[str, Any]:
        restored: dict[str, Any] = self.open() | json.loads(state)
        return restored

    def start(self, code: str) -> FakeRun:
        return FakeRun(code)

    def invoice(self, run: FakeRun) -> int:
        return int(run.attempt())

    def answer(self, run: FakeRun, receipt: str) -> FakeRun:
        run.receipts.append(receipt)
        return run

    def finish(self, run: FakeRun, receipt: str) -> str:
        return str(self.answer(run, receipt).attempt())

    def suspend(self, run: FakeRun) -> bytes:
        return json.dumps([run.code, [] if MODE == "forgets" else run.receipts]).encode()

    def resume_suspended(self, state: bytes, receipt: str) -> FakeRun:
        return self.answer(FakeRun(*json.loads(state)), receipt)


serve(Fake())
