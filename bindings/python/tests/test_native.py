"""Tests of the engine in this process: threads, signals, forks, first starts and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import glovebox_sandbox
from glovebox_sandbox import Limits, PolicyError, Sandbox, Tool, UnavailableError, UnsupportedError, _native_backend, _types
from glovebox_sandbox._native import Engine


def program(text: str, **environment: str) -> subprocess.Popen[str]:
    """Runs a program in another process."""
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


class Threads(unittest.TestCase):
    def test_python_threads_continue_while_a_guest_runs(self) -> None:
        count = 0
        ended = threading.Event()

        def counting() -> None:
            nonlocal count
            while not ended.is_set():
                count += 1
                time.sleep(0.01)

        # On a slow machine, the thread rarely runs within a short timeout, so longer timeouts follow.
        for timeout_ms in (500, 5_000, 50_000):
            box = Sandbox(limits=Limits(timeout_ms=timeout_ms))
            count = 0
            ended.clear()
            thread = threading.Thread(target=counting)
            thread.start()
            run = box.execute("while True: pass")
            ended.set()
            thread.join()
            self.assertEqual(run.outcome.resource, "time")
            if count > 5:
                break
        self.assertGreater(count, 5)

    def test_tool_can_use_its_own_sandbox(self) -> None:
        boxes: list[Sandbox] = []

        def nested(source: str) -> str:
            return boxes[0].execute(source).stdout

        boxes.append(Sandbox(tools=[nested]))
        self.assertEqual(boxes[0].execute("print(tools.nested(source='print(1)'))").stdout, "1\n\n")

    def test_tools_are_checked_when_the_sandbox_is_made(self) -> None:
        for tool, said in [
            (Tool(print, name="no name", schema={"type": "object"}), "no name"),
            (Tool(print, name="p", schema={"type": "nothing"}), "`p`"),
        ]:
            with self.assertRaisesRegex(PolicyError, said):
                Sandbox(tools=[tool])

    def test_unknown_runtime_error_lists_the_runtimes(self) -> None:
        with self.assertRaisesRegex(PolicyError, "cobol.*python"):
            Sandbox("cobol")


class Images(unittest.TestCase):
    def test_image_built_by_the_command_is_usable(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            setup = Path(directory, "setup.js")
            setup.write_text("var rules = [1, 2]")
            build = ["image", "build", "python-test", "--from", "javascript", "--setup", str(setup)]
            environment = {**os.environ, "XDG_STATE_HOME": directory}
            command = [sys.executable, "-m", "glovebox_sandbox", *build]
            built = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual(built.returncode, 0, built.stderr)
            script = "from glovebox_sandbox import Sandbox\nprint(Sandbox('python-test').execute('console.log(rules)').stdout)"
            out, err = program(script, XDG_STATE_HOME=directory).communicate(timeout=60)
            self.assertEqual(out.strip(), "[ 1, 2 ]", err)


class Metering(unittest.TestCase):
    def test_without_fuel_time_ends_a_script(self) -> None:
        box = Sandbox("javascript", metering="none", limits=Limits(fuel=1000, timeout_ms=60_000))
        run = box.execute("for (let i = 0; i < 1e5; i++) {}")
        self.assertEqual((run.ok, run.fuel_consumed), (True, 0))
        short = Sandbox("javascript", metering="none", limits=Limits(fuel=1000, timeout_ms=300))
        self.assertEqual(short.execute("for (;;);").outcome.resource, "time")
        with self.assertRaisesRegex(TypeError, "metering must be one of 'fuel', 'none'"):
            Sandbox(metering="some")  # type: ignore[arg-type]


class Signals(unittest.TestCase):
    SCRIPT = """
import signal, sys, time
from glovebox_sandbox import Limits, Sandbox
# A shell makes its background processes ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
def ready():
    print("ready", flush=True)
box = Sandbox({language!r}, tools=[ready], limits=Limits(timeout_ms=600_000))
{before}
try:
    run = {call}
    print(run.outcome, flush=True)
except KeyboardInterrupt:
    print("interrupted", box.execute({again!r}).stdout.strip(), flush=True)
"""

    def interrupted(self, call: str, before: str = "") -> list[str]:
        text = self.SCRIPT.format(language="python", before=before, call=call, again="print('again')")
        with program(text) as process:
            assert process.stdout and process.stderr
            self.assertEqual(process.stdout.readline(), "ready\n", process.stderr.read() if process.poll() else "")
            time.sleep(0.5)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=100)
            self.assertLess(time.monotonic() - begun, 60)
            self.assertEqual(process.returncode, 0, err)
            return out.splitlines()

    def test_ctrl_c_ends_a_guest(self) -> None:
        for call in [
            r"box.execute('tools.ready()\nwhile True: pass')",
            r"box.execute('tools.ready()\nimport time; time.sleep(90)')",
            r"box.session().execute('tools.ready()\nwhile True: pass')",
            r"box.execute('tools.ready()\nwhile True: pass', on_stdout=print)",
            r"box.start('tools.ready()\nwhile True: pass')",
            r"box.start('tools.ready()\nwhile True: pass', on_stdout=print)",
        ]:
            with self.subTest(call):
                self.assertEqual(self.interrupted(call), ["interrupted again"])

    def test_signal_handler_without_exception_returns_a_cancelled_run(self) -> None:
        handler = "signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))"
        call = r"box.execute('tools.ready()\nwhile True: pass')"
        self.assertEqual(self.interrupted(call, handler), ["handled", "cancelled"])

    def test_wakeup_fd_of_signals_is_restored(self) -> None:
        text = """
import signal, socket
from glovebox_sandbox import Limits, Sandbox
box = Sandbox("python", limits=Limits(timeout_ms=500))
mine, other = socket.socketpair()
other.setblocking(False)
mine.settimeout(10)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.set_wakeup_fd(other.fileno())
signal.setitimer(signal.ITIMER_REAL, 0.2)
print(box.execute("while True: pass").outcome.resource)
print(mine.recv(1) == bytes([signal.SIGALRM]), signal.set_wakeup_fd(-1) == other.fileno())
"""
        with program(text) as process:
            out, err = process.communicate(timeout=60)
        self.assertEqual(out, "time\nTrue True\n", err)


class Imports(unittest.TestCase):
    def test_modules_are_imported_when_they_are_used(self) -> None:
        text = """
import sys
import glovebox_sandbox
print([name for name in sys.modules if name.startswith("glovebox_sandbox.")])
glovebox_sandbox.Sandbox
print(sorted({"asyncio", "http.client", "glovebox_sandbox.sandbox"} & sys.modules.keys()))
glovebox_sandbox.types, glovebox_sandbox.AsyncSandbox
print("asyncio" in sys.modules, set(glovebox_sandbox.__all__) <= set(dir(glovebox_sandbox)), hasattr(glovebox_sandbox, "absent"))
"""
        with program(text) as process:
            out, err = process.communicate(timeout=60)
        self.assertEqual(out, "[]\n['glovebox_sandbox.sandbox']\nTrue True False\n", err)

    def test_all_names_are_available(self) -> None:
        for name in glovebox_sandbox.__all__:
            self.assertTrue(hasattr(glovebox_sandbox, name), name)
            self.assertEqual(dir(glovebox_sandbox).count(name), 1, name)


class Interpreters(unittest.TestCase):
    def test_files_of_all_installed_packages_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            packages = {"glovebox_sandbox_python": "interpreters.zip", "glovebox_sandbox_data": "prepared.zip"}
            for name, file in packages.items():
                Path(directory, name).mkdir()
                Path(directory, name, "__init__.py").write_text("raise AssertionError('imported')")
                Path(directory, name, file).touch()
            text = """
import sys
sys.path.insert(0, sys.argv[1])
from glovebox_sandbox import _native_backend
print([path for path in _native_backend.bundles() + _native_backend.prepared() if path.startswith(sys.argv[1])])
"""
            unset = {"GLOVEBOX_BUNDLE": "", "GLOVEBOX_PREPARED": ""}
            command = [sys.executable, "-c", text, directory]
            ended = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **unset})
            expected = [str(Path(directory, name, file)) for name, file in packages.items()]
            self.assertEqual(ended.stdout, f"{expected}\n")

    def test_variables_replace_the_packages_files(self) -> None:
        with mock.patch.dict(os.environ, {"GLOVEBOX_BUNDLE": f"/a{os.pathsep}/b", "GLOVEBOX_PREPARED": "/c"}):
            self.assertEqual((_native_backend.bundles(), _native_backend.prepared()), (["/a", "/b"], ["/c"]))

    @unittest.skipUnless(_native_backend.prepared() or os.environ.get("CI"), "needs the package's interpreters: bindings/python/build --dev")
    def test_default_python_needs_no_compiler_and_no_network(self) -> None:
        text = """
from glovebox_sandbox import Sandbox
box = Sandbox("python")
print(box.runtime_name, box.execute("import json; print(json.dumps(6 * 7))").stdout, end="")
"""
        with tempfile.TemporaryDirectory() as directory:
            empty = {"GLOVEBOX_CACHE_DIR": str(Path(directory, "cache")), "XDG_DATA_HOME": str(Path(directory, "data")), "PATH": "/nonexistent"}
            with program(text, **empty) as process:
                out, err = process.communicate(timeout=120)
        self.assertEqual(out, "python-3.15 42\n", err)
        self.assertNotIn("compiling", err)


class Processes(unittest.TestCase):
    def test_forked_child_creates_its_own_engine(self) -> None:
        text = """
import os
from glovebox_sandbox import Sandbox, UnavailableError
box = Sandbox("javascript")
session = box.session()
box.execute("1")
child = os.fork()
if not child:
    for call in (lambda: box.execute("1"), lambda: session.execute("1"), lambda: session.variables["x"], box.session):
        try:
            call()
            os._exit(1)
        except UnavailableError as error:
            assert "forked" in str(error)
    print(Sandbox("javascript").execute("console.log(1)").stdout, end="", flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], box.execute("console.log(2)").stdout)
"""
        with program(text) as process:
            out, err = process.communicate(timeout=60)
        self.assertEqual(out, "1\n0 2\n\n", err)

    @unittest.skipUnless(_native_backend.bundles() or os.environ.get("CI"), "needs the package's interpreters: bindings/python/build --dev")
    def test_two_processes_start_concurrently_without_a_network(self) -> None:
        text = """
from glovebox_sandbox import Sandbox
box = Sandbox("javascript")
print(box.execute("const x: number = 42; console.log(x)", name="x.ts").stdout, end="")
"""
        with tempfile.TemporaryDirectory() as directory:
            # The PATH contains neither pip nor npm. Without a prepared bundle, one of the processes compiles the
            # interpreter.
            first = {
                "GLOVEBOX_PREPARED": "/absent.zip",
                "GLOVEBOX_CACHE_DIR": str(Path(directory, "cache")),
                "XDG_DATA_HOME": str(Path(directory, "data")),
                "PATH": "/nonexistent",
            }
            processes = [program(text, **first) for _ in range(2)]
            told = []
            for process in processes:
                out, err = process.communicate(timeout=120)
                self.assertEqual((out, process.returncode), ("42\n", 0), err)
                told += err.splitlines()
            self.assertEqual(told.count("glovebox: compiling `javascript`"), 1, told)
            with program(text, **first) as process:
                self.assertEqual(process.communicate(timeout=60), ("42\n", ""))

    def test_unavailable_features_have_a_hint(self) -> None:
        text = """
from glovebox_sandbox import Sandbox, UnavailableError
try:
    Sandbox("javascript", progress=None)
except UnavailableError as error:
    print(error)
"""
        with tempfile.TemporaryDirectory() as directory:
            absent = {"GLOVEBOX_BUNDLE": "/absent.zip", "GLOVEBOX_PREPARED": "/absent.zip"}
            nothing = {"GLOVEBOX_CACHE_DIR": str(Path(directory, "cache")), "PATH": "/nonexistent", **absent}
            with program(text, **nothing) as process:
                out, err = process.communicate(timeout=60)
        self.assertIn("javascript", out, err)
        self.assertIn("install Python's pip", out)
        self.assertEqual(err, "")

    def test_package_runs_as_a_command(self) -> None:
        def command(*args: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", "glovebox_sandbox", *args], capture_output=True, text=True, timeout=60, check=False
            )

        ran = command("run", "--json", "-e", "print(6 * 7)")
        self.assertEqual((json.loads(ran.stdout)["stdout"], ran.returncode), ("42\n", 0), ran.stderr)
        self.assertEqual(command("run", "-e", "raise SystemExit(3)").returncode, 3)
        self.assertEqual(command("nonsense").returncode, 2)
        # An MCP client's configuration does not name the packages' files, because the command finds them itself.
        installed = command("mcp", "install", "claude-code", "--print")
        self.assertEqual((installed.returncode, "--bundle" in installed.stdout, "--prepared" in installed.stdout), (0, False, False))

    def test_failed_engine_setup_is_unavailable(self) -> None:
        with self.assertRaisesRegex(UnavailableError, "/dev/null"):
            Engine("/dev/null/cache", [], [], None, True)


class Types(unittest.TestCase):
    def checked(self, program: str, tools: list[Tool]) -> list[str]:
        """Returns the messages of a type check in which `program` replaces the command."""
        with Sandbox(tools=tools) as box, mock.patch.object(_types, "_RUN", program):
            return [each.message for each in box.validate("a = 1", types=True)]

    def test_command_receives_the_script_and_the_tools(self) -> None:
        program = """
import json, sys
files = [json.load(open(path)) for path in sys.argv if path.endswith("tools.json")]
message = json.dumps([sys.argv[2:5], sys.stdin.read(), files])
print(json.dumps({"diagnostics": [{"line": 1, "column": 1, "message": message}]}))
sys.exit(1)
"""
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        for tools, files in (
            ([], []),
            ([Tool(len, schema=schema)], [[{"name": "len", "description": len.__doc__, "schema": schema}]]),
        ):
            (message,) = self.checked(program, tools)
            self.assertEqual(json.loads(message), [["validate", "--types", "--json"], "a = 1", files])

    def test_command_receives_the_variables_and_tools_of_a_session(self) -> None:
        program = """
import json, sys
files = [json.load(open(sys.argv[sys.argv.index(option) + 1])) for option in ("--variables", "--definitions")]
print(json.dumps({"diagnostics": [{"line": 1, "column": 1, "message": json.dumps(files)}]}))
sys.exit(1)
"""
        variables = [{"name": "rows", "kind": {"instance": {"module": "builtins", "class": "list"}}}]
        tools = [Tool(len, schema={"type": "object"})]
        with Sandbox(tools=tools) as box, box.session() as session, mock.patch.object(_types, "_RUN", program):
            self.assertEqual(session.validate("1"), [])
            self.assertEqual([each.line for each in session.validate("1 +", types=True)], [1])
            session.execute("rows = [1]")
            for checked in (session, session.fork(), box.resume(session.hibernate())):
                (found,) = checked.validate("rows", types=True)
                described, (tool,) = json.loads(found.message)
                self.assertEqual((described, tool["name"]), (variables, "len"))
            self.assertEqual(session.info.executions, 1)

    def test_sessions_check_types_only_of_python(self) -> None:
        with Sandbox("javascript") as box, box.session() as session:
            self.assertEqual(session.validate("1"), [])
            with self.assertRaisesRegex(UnsupportedError, "only Python"):
                session.validate("1", types=True)

    def test_failure_of_the_command_is_an_error(self) -> None:
        with self.assertRaisesRegex(UnavailableError, "types: the type checker failed: no space"):
            self.checked("import sys; sys.stderr.write('no space'); sys.exit(125)", [])


if __name__ == "__main__":
    unittest.main()
