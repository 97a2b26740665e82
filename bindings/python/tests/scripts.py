"""Scripts for the tests in both languages, and sandboxes of all backends."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Literal

from glovebox_sandbox import Sandbox

PROVIDERS = Path(os.environ.get("GLOVEBOX_PROVIDERS", Path(__file__).parents[3] / "target/providers"))

SCRIPTS: dict[str, dict[str, str]] = {
    "python": {
        "answer": "print(6 * 7)",
        "raise": "def f():\n    raise TypeError('no')\nf()",
        "exit": "import sys; sys.exit(3)",
        "endless": "while True: pass",
        "stdin": "print(input())",
        "context": "print(context['city'])",
        "sleep": "import time\ntime.sleep(60)",
        "write": "open('out.csv', 'w').write('1,2'); open('in.csv', 'a').write('more')",
        "read": "print(open('in.csv').read())",
        "streams": "import sys\nprint('ö' * 5000); print('bad', file=sys.stderr)",
        "let": "x = 1",
        "increase": "x += 1",
        "value": "[x, 'two', None]",
        "opaque": "len",
        "write_a": "open('d/b.txt', 'w').write('there')",
        "tool": "print(tools.add(a=20, b=22))",
        "tool_default": "print(tools.add(a=20))",
        "slow_tool": "print(tools.slow(text='later'))",
        "echo": "x = tools.echo(x=context)\nx",
        "endless_tool": "tools.forever()",
        "tool_fails": "try:\n    tools.fail()\nexcept Exception as e:\n    print(e)",
        "tool_denied": "try:\n    tools.deny()\nexcept tools.ToolDenied as e:\n    print(e)",
        "tool_wrong": "try:\n    tools.add(a='one')\nexcept Exception as e:\n    print(type(e).__name__)",
        "syntax": "x = (",
        "random": "import random, time\nprint(random.random(), time.time())",
        "print_args": "import sys, os; print(sys.argv[1:], os.environ['K'])",
        "missing": "import jsn",
        "show": "display(1)\ndisplay({'text/html': '<b>é</b>', 'image/png': b'\\x89PNG'}, raw=True)",
        "show_result": "class A:\n    def _repr_html_(self): return '<i>'\nA()",
        "pause": "import time\ntime.sleep(0.5)",
        "list": "import os; print(sorted(os.listdir('/in')), open('/in/a.txt').read())",
    },
    "javascript": {
        "answer": "console.log(6 * 7)",
        "raise": "function f() {\n    throw new TypeError('no')\n}\nf()",
        "exit": "process.exit(3)",
        "endless": "for (;;);",
        "stdin": "console.log(require('fs').readFileSync(0, 'utf8').trim())",
        "context": "console.log(context.city)",
        "sleep": "await new Promise((done) => setTimeout(done, 60000))",
        "write": "const fs = require('fs'); fs.writeFileSync('out.csv', '1,2'); fs.appendFileSync('in.csv', 'more')",
        "read": "console.log(require('fs').readFileSync('in.csv', 'utf8'))",
        "streams": "console.log('ö'.repeat(5000)); console.error('bad')",
        "let": "var x = 1",
        "increase": "x += 1",
        "value": "[x, 'two', null]",
        "opaque": "parseInt",
        "write_a": "require('fs').writeFileSync('d/b.txt', 'there')",
        "tool": "console.log(await tools.add({ a: 20, b: 22 }))",
        "tool_default": "console.log(await tools.add({ a: 20 }))",
        "slow_tool": "console.log(await tools.slow({ text: 'later' }))",
        "echo": "var x = await tools.echo({ x: context }); x",
        "endless_tool": "await tools.forever({})",
        "tool_fails": "try { await tools.fail({}) } catch (e) { console.log(e.message) }",
        "tool_denied": "try { await tools.deny({}) } catch (e) { console.log(e instanceof tools.ToolDenied ? e.message : e) }",
        "tool_wrong": "try { await tools.add({ a: 'one' }) } catch (e) { console.log(e.name) }",
        "syntax": "let x = (",
        "random": "console.log(Math.random(), Date.now())",
        "print_args": "console.log(process.argv.slice(2), process.env.K)",
        "missing": "require('paht')",
        "show": "display(1); display({ 'text/html': '<b>é</b>', 'image/png': new Uint8Array([137, 80, 78, 71]) }, { raw: true })",
        "show_result": "({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>' }) })",
        "pause": "await new Promise((done) => setTimeout(done, 500))",
        "list": "const fs = require('fs'); console.log(fs.readdirSync('/in').sort(), fs.readFileSync('/in/a.txt', 'utf8'))",
    },
}


COMMAND = Path(os.environ.get("GLOVEBOX_COMMAND", Path(__file__).parents[3] / "target/debug/glovebox"))


class Daemon:
    """A daemon for the tests. Its constructor sets `GLOVEBOX_DAEMON_SOCKET` to its socket."""

    shared: Daemon | None = None

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.socket = Path(self.directory.name, "d.sock")
        limits = ["--fuel", "2_000_000_000_000", "--timeout-ms", "120000", "--default-runtime", "python-3.15"]
        self.process = subprocess.Popen([COMMAND, "daemon", "--socket", self.socket, *limits], stderr=subprocess.PIPE)
        begun = time.monotonic()
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() - begun > 300:
                raise RuntimeError("the daemon did not start to listen")
            time.sleep(0.01)
        self.use()

    def use(self) -> None:
        os.environ["GLOVEBOX_DAEMON_SOCKET"] = str(self.socket)

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()
        self.directory.cleanup()


def use_daemon() -> None:
    """Makes the package use the daemon that all tests share. Starts it if necessary. Skips the test if the `glovebox`
    command has not been built."""
    if not COMMAND.exists() and not os.environ.get("CI"):
        raise unittest.SkipTest(f"there is no `{COMMAND}`; build it with: cargo build --workspace")
    if Daemon.shared is None:
        Daemon.shared = Daemon()
        atexit.register(Daemon.shared.stop)
    Daemon.shared.use()


class BackendCase:
    """A test case for one backend and one language."""

    backend: Literal["native", "component", "daemon"] = "native"
    language = "python"

    def script(self, name: str) -> str:
        return SCRIPTS[self.language][name]

    def options(self, **options: Any) -> dict[str, Any]:
        """Returns the options for a sandbox of this backend and language."""
        if self.backend == "component":
            options["provider"] = PROVIDERS / f"glovebox-{self.language}.wasm"
        if self.backend == "daemon":
            use_daemon()
        return {"backend": self.backend, **options}

    def sandbox(self, **options: Any) -> Sandbox:
        return Sandbox(self.language, **self.options(**options))
