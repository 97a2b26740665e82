"""dspy's `PythonInterpreter`: Pyodide in Deno, one process per interpreter. Runs in the directory whose node_modules
has Pyodide.

By default, Deno downloads Pyodide and a module of Deno's standard library when dspy's runner.js first runs. Here npm
has installed Pyodide, and deno/readlines.ts provides the only function of the module that the runner uses. The runner
itself is unchanged.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from dspy.primitives import python_interpreter
from dspy.primitives.python_interpreter import PythonInterpreter
from serve import Peer, serve

RUNNER = Path(python_interpreter.__file__).resolve().with_name("runner.js")
NODE = Path.cwd().resolve()
READLINES = Path(__file__).resolve().parent / "deno" / "readlines.ts"


def import_map() -> Path:
    """Makes Deno use `READLINES` instead of the module that the runner would download."""
    elsewhere = re.findall(r'from "(https://[^"]*)"', RUNNER.read_text())
    if len(elsewhere) != 1 or not elsewhere[0].endswith("/io/mod.ts"):
        raise SystemExit(f"{RUNNER} has an import that this driver does not replace: {elsewhere}")
    path = NODE / "import_map.json"
    path.write_text(json.dumps({"imports": {elsewhere[0]: READLINES.as_uri()}}))
    return path


COMMAND = [
    str(Path(sys.prefix) / "bin" / "deno"),
    "run",
    "--no-lock",
    "--node-modules-dir=manual",
    f"--import-map={import_map()}",
    f"--allow-read={RUNNER},{NODE}",
    str(RUNNER),
]


class Deno(Peer):
    def fresh(self, code: str) -> str:
        session = self.open()
        text = self.run(session, code)
        self.close(session)
        return text

    def open(self) -> PythonInterpreter:
        session = PythonInterpreter(deno_command=COMMAND)
        session.start()
        return session

    def run(self, session: PythonInterpreter, code: str) -> str:
        return str(session.execute(code))

    def close(self, session: PythonInterpreter) -> None:
        session.shutdown()


serve(Deno())
