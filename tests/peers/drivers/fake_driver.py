"""A fake contestant for `tests/peers/run --check`: fake_driver.py right|wrong|hangs|ends|raises|forgets
It recognizes scripts by their text, and executes those that compute. `wrong` and most others misbehave in `words`, `forgets` after saving."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time

from serve import Peer, serve

MODE = sys.argv[1]


class Fake(Peer):
    def fresh(self, code: str) -> str:
        return self.run(self.open(), code)

    def open(self) -> dict[str, int]:
        return {"x": 0, "names": 0}

    def run(self, session: dict[str, int], code: str) -> str:
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
        return self.answer(code)

    def answer(self, code: str) -> str:
        if "words" in code:
            if MODE == "wrong":
                return "11889 k999=464971\n"
            if MODE == "hangs":
                time.sleep(600)
            if MODE == "ends":
                os._exit(7)
            if MODE == "raises":
                raise MemoryError("no room for words")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {})
        return printed.getvalue()

    def save(self, session: dict[str, int]) -> bytes:
        return json.dumps({} if MODE == "forgets" else session).encode()

    def restore(self, state: bytes) -> dict[str, int]:
        restored: dict[str, int] = self.open() | json.loads(state)
        return restored


serve(Fake())
