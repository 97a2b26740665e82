"""The baseline: the installed interpreter, with a process for each script and all rights of its user.
usage: spawn_driver.py python|javascript PROGRAM"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from serve import Peer, serve, turn

# The process itself times the script, because starting the process is measured as `fresh`. The script has already run
# once, as in a session: modules are imported, and code is warm.
TIMED = {
    "python": """import contextlib, io, sys, time
code = {code}
with contextlib.redirect_stdout(io.StringIO()):
    exec(code, {{}})
begun = time.perf_counter()
exec(code, {{}})
print((time.perf_counter() - begun) * 1e3, file=sys.stderr)""",
    "javascript": """{{
    const code = {code}, print = console.log;
    console.log = () => {{}};
    (0, eval)(code);
    console.log = print;
    const begun = performance.now();
    (0, eval)(code);
    console.error(performance.now() - begun);
}}""",
}


class Spawn(Peer):
    def __init__(self, language: str, program: str) -> None:
        self.language = language
        self.command = [program, "-I", "-c"] if language == "python" else [program, "-e"]

    def spawn(self, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.command, code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)

    def fresh(self, code: str) -> str:
        return self.spawn(code).stdout

    def agent(self, start: str, commands: list[str]) -> tuple[float, str]:
        begun = time.perf_counter()
        first = self.fresh(start)
        for count in range(1, len(commands) + 1):
            last = self.fresh("\n".join(commands[:count]))
        return (time.perf_counter() - begun) * 1e3, f"{first.strip()} {last.strip()}"

    def work(self, code: str, budget_ms: float) -> dict[str, Any]:
        def once() -> tuple[float, str]:
            # A JSON string is a valid literal in both languages.
            ended = self.spawn(TIMED[self.language].format(code=json.dumps(code)))
            return float(ended.stderr), ended.stdout

        return turn(once, budget_ms)


serve(Spawn(sys.argv[1], sys.argv[2]))
