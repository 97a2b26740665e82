"""The baseline: the installed interpreter, with a process for each script and all rights of its user.
usage: spawn_driver.py python|javascript PROGRAM"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from serve import Peer, serve, turn

# The script times itself, because starting the process is measured as `fresh`.
PROLOGUES = {
    "python": "import sys, time\n_begun = time.perf_counter()\n",
    "javascript": "const $begun = performance.now();\n",
}
EPILOGUES = {
    "python": "\nprint((time.perf_counter() - _begun) * 1e3, file=sys.stderr)",
    "javascript": "\nconsole.error(performance.now() - $begun)",
}


class Spawn(Peer):
    def __init__(self, language: str, program: str) -> None:
        self.language = language
        self.command = [program, "-I", "-c"] if language == "python" else [program, "-e"]

    def spawn(self, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.command, code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)

    def fresh(self, code: str) -> str:
        return self.spawn(code).stdout

    def work(self, code: str, budget_ms: float) -> dict[str, Any]:
        def once() -> tuple[float, str]:
            ended = self.spawn(PROLOGUES[self.language] + code + EPILOGUES[self.language])
            return float(ended.stderr), ended.stdout

        return turn(once, budget_ms)


serve(Spawn(sys.argv[1], sys.argv[2]))
