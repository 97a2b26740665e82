"""Tests the daemon backend, its selection, and the backend without a sandbox, which is never selected automatically."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from glovebox_sandbox import (
    Limits,
    PolicyError,
    Sandbox,
    SessionError,
    Tool,
    UnavailableError,
    UnsupportedError,
    _unsafe_native,
)
from glovebox_sandbox._daemon_client import connect
from glovebox_sandbox._input import _input
from glovebox_sandbox.integrations._common import CodeTool
from glovebox_sandbox.run import Run
from glovebox_sandbox.tools import CancelToken
from scripts import Daemon, use_daemon


def nowhere(test: unittest.TestCase) -> Path:
    """Sets the path of the daemon's socket to a file that does not exist, and returns the path."""
    directory = tempfile.TemporaryDirectory()
    test.addCleanup(directory.cleanup)
    path = Path(directory.name, "d.sock")
    os.environ["GLOVEBOX_DAEMON_SOCKET"] = str(path)
    return path


def open_sessions() -> int:
    """Returns the number of sessions in the daemon."""
    count: int = connect().json("GET", "/v1/info")["sessions"]
    return count


def eventually(is_true: Callable[[], bool]) -> bool:
    """Waits up to a minute for a condition."""
    for _ in range(1_200):
        if is_true():
            return True
        time.sleep(0.05)
    return False


class Choosing(unittest.TestCase):
    def test_auto_prefers_a_daemon_that_answers(self) -> None:
        use_daemon()
        with Sandbox("javascript", backend="auto") as box:
            self.assertEqual((box.backend, box.execute("console.log(6 * 7)").stdout), ("daemon", "42\n"))
        with tempfile.TemporaryDirectory() as directory, Sandbox(backend="auto", workspace=directory) as box:
            self.assertEqual(box.backend, "native", "the engine runs what the daemon does not support")
        with Sandbox("javascript") as box:
            self.assertEqual(box.backend, "native", "without `auto`, no daemon is used")
        path = nowhere(self)
        with Sandbox("javascript", backend="auto") as box:
            self.assertEqual(box.backend, "native")
        with self.assertRaisesRegex(UnavailableError, "glovebox daemon"):
            Sandbox(backend="daemon")
        path.write_text("not a socket")
        with Sandbox("javascript", backend="auto") as box:
            self.assertEqual(box.backend, "native")

    def test_unresponsive_daemon_counts_as_absent(self) -> None:
        path = nowhere(self)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(path))
            silent.listen()
            with Sandbox("javascript", backend="auto") as box:
                self.assertEqual(box.backend, "native")

    def test_server_of_another_version_is_rejected(self) -> None:
        answers = {
            "has another protocol version": b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"protocol": 1}',
            "does not respond": b'{"jsonrpc": "2.0", "error": {"code": -32700}}\n',
        }
        for said, answer in answers.items():
            path = nowhere(self)
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(path))
                other.listen()

                def serve(other: socket.socket = other, answer: bytes = answer) -> None:
                    link, _ = other.accept()
                    with link:
                        link.recv(4096)
                        link.sendall(answer)

                thread = threading.Thread(target=serve)
                thread.start()
                with self.subTest(said), self.assertRaisesRegex(UnavailableError, said):
                    Sandbox(backend="daemon")
                thread.join()

    def test_unsupported_type_checks_are_refused(self) -> None:
        use_daemon()
        with Sandbox(backend="daemon") as box, self.assertRaisesRegex(UnsupportedError, "glovebox serve --types"):
            box.validate("1", types=True)
        for box in (Sandbox("javascript", backend="daemon"), Sandbox("javascript")):
            with box, self.assertRaisesRegex(UnsupportedError, "types: type checks support only Python"):
                box.validate("1", types=True)

    def test_code_tools_have_the_limits_of_the_daemon(self) -> None:
        use_daemon()
        self.assertEqual(CodeTool(backend="daemon").run_sync("6 * 7"), ("42", True))

    def test_invalid_options_are_rejected(self) -> None:
        use_daemon()
        with self.assertRaisesRegex(UnsupportedError, 'workspace: .* backend="native"'):
            Sandbox(backend="daemon", workspace=".")
        with self.assertRaisesRegex(PolicyError, "timeout_ms"):
            Sandbox(backend="daemon", limits=Limits(timeout_ms=10_000_000))
        with self.assertRaisesRegex(PolicyError, "cobol"):
            Sandbox("cobol", backend="daemon")
        with self.assertRaisesRegex(PolicyError, "no name"):
            Sandbox("javascript", backend="daemon", tools=[Tool(print, name="no name", schema={"type": "object"})])
        # The daemon closes the connection before it has read the whole request.
        with self.assertRaisesRegex(PolicyError, "larger than 50331648 bytes"):
            Sandbox("javascript", backend="daemon", files={"large": bytes(60 << 20)})


class Running(unittest.TestCase):
    def test_tools_are_called_through_the_daemon(self) -> None:
        use_daemon()

        def llm_query(prompt: str) -> str:
            return prompt.upper()

        def rlm_query(task: str, ctx: object = None) -> object:
            return [task, ctx]

        with Sandbox(backend="daemon", tools=[llm_query, rlm_query]) as box, box.session(context={"a": 1}) as session:
            run = session.execute("print(llm_query('why'))\nprint(rlm_query('sum up'))\nn = 7")
            self.assertEqual(run.raise_for_outcome().stdout, "WHY\n['sum up', {'a': 1}]\n")
            self.assertEqual((session.variables["n"], session.variables.get("absent")), (7, None))

    def test_threads_share_a_sandbox(self) -> None:
        use_daemon()
        together = threading.Barrier(4, timeout=20)

        def meet() -> None:
            together.wait()

        with Sandbox("javascript", backend="daemon", tools=[meet]) as box:
            runs: list[str] = []
            threads = [
                threading.Thread(target=lambda: runs.append(box.execute("await tools.meet({})").outcome.kind))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(runs, ["completed"] * 4)

    def test_script_continues_after_the_first_answer(self) -> None:
        use_daemon()
        release = threading.Event()

        def slow() -> str:
            release.wait(60)
            return "slow"

        def fast(n: int) -> int:
            return n

        source = """
        const slow = tools.slow({});
        console.log(await Promise.race([slow, tools.fast({ n: 1 })]));
        console.log(await tools.fast({ n: 2 }));
        await tools.release({});
        console.log(await slow);
        """
        tools: list[Callable[..., object] | Tool] = [slow, fast, Tool(lambda: release.set(), name="release")]
        run = Sandbox("javascript", backend="daemon", tools=tools).execute(source)
        self.assertEqual((run.stdout, run.stderr), ("1\n2\nslow\n", ""))

    def test_rejected_tool_result_is_an_error_in_the_script(self) -> None:
        use_daemon()

        def nested(depth: int) -> object:
            value: list[object] = []
            for _ in range(depth):
                value = [value]
            return value

        box = Sandbox("javascript", backend="daemon", tools=[nested])
        # The daemon rejects the first result. Python cannot serialize the second result.
        for depth in (300, 100_000):
            run = box.execute(f"try {{ await tools.nested({{ depth: {depth} }}) }} catch (error) {{ console.log(error.name) }}")
            self.assertEqual((run.stdout, run.stderr), ("ToolError\n", ""), depth)

    def test_slow_listener_receives_all_output(self) -> None:
        use_daemon()
        received: list[str] = []

        def slowly(text: str) -> None:
            if not received:
                time.sleep(3)
            received.append(text)

        # The daemon stops streaming after a script has waited for its client for two seconds in total.
        source = "for (let i = 0; i < 1000; i++) console.log('x'.repeat(1000))"
        run = Sandbox("javascript", backend="daemon").execute(source, on_stdout=slowly)
        self.assertEqual(len("".join(received)), 1_001_000)
        self.assertEqual(run.stdout, "".join(received))

    def test_output_that_is_not_text_is_returned_as_bytes(self) -> None:
        use_daemon()
        run = Sandbox("javascript", backend="daemon").execute("process.stdout.write(new Uint8Array([255, 97]))")
        self.assertEqual((run.stdout_bytes, run.stdout), (b"\xffa", "\ufffda"))

    def test_large_file_is_read_in_parts(self) -> None:
        use_daemon()
        megabyte = os.urandom(1 << 20)
        with Sandbox("javascript", backend="daemon").session() as session:
            session.files.write("part", megabyte)
            session.execute(
                "const fs = require('fs'); for (let i = 0; i < 34; i++) fs.appendFileSync('all', fs.readFileSync('part'))"
            ).raise_for_outcome()
            self.assertTrue(session.files.read("all") == megabyte * 34)
            session.files.write("d/é %?#.txt", "escaped")
            self.assertEqual([entry.path for entry in session.files.list("d/*")], ["d/é %?#.txt"])
            self.assertEqual(session.files.read("d/é %?#.txt"), b"escaped")

    def test_session_can_have_a_chosen_id(self) -> None:
        use_daemon()
        box = Sandbox("javascript", backend="daemon")
        with box.session(id="chosen") as session, session.fork(id="chosen.2", context=[1]) as fork:
            self.assertEqual((session.id, fork.id, fork.variables["context"]), ("chosen", "chosen.2", [1]))
            with self.assertRaisesRegex(SessionError, "chosen"):
                box.session(id="chosen")
        box.session(id="chosen").close()

    def test_session_of_another_runtime_is_not_resumed(self) -> None:
        use_daemon()
        with Sandbox("javascript", backend="daemon").session() as session:
            state = session.hibernate()
        before = open_sessions()
        with self.assertRaises(SessionError):
            Sandbox("python", backend="daemon").resume(state)
        self.assertEqual(open_sessions(), before)

    def test_dropped_sessions_are_closed(self) -> None:
        use_daemon()
        before = open_sessions()
        box = Sandbox("javascript", backend="daemon")
        session = box.session()
        self.assertEqual(open_sessions(), before + 1)
        box.close()
        del box
        gc.collect()
        self.assertEqual(session.execute("1 + 1").value, 2, "a session continues without its sandbox")
        del session
        gc.collect()
        self.assertTrue(eventually(lambda: open_sessions() == before), "the session is still open")

    def test_sessions_are_closed_when_the_process_exits(self) -> None:
        use_daemon()
        before = open_sessions()
        source = "from glovebox_sandbox import Sandbox\nbox = Sandbox('javascript', backend='daemon')\n"
        for session in ("session = box.session()", "box.session()"):
            subprocess.run([sys.executable, "-c", source + session], check=True)
            self.assertEqual(open_sessions(), before, session)

    @unittest.skipUnless(hasattr(os, "fork"), "this platform has no fork")
    def test_forked_child_cannot_use_its_parents_sandbox(self) -> None:
        use_daemon()
        source = """
import gc, os, sys
from glovebox_sandbox import Sandbox, UnavailableError
box = Sandbox("javascript", backend="daemon")
sessions = [box.session()]
child = os.fork()
if child == 0:
    for call in (lambda: box.execute("1"), lambda: sessions[0].execute("1")):
        try:
            call()
        except UnavailableError as error:
            print(error, flush=True)
    sessions.clear()
    gc.collect()
    with Sandbox("javascript", backend="daemon").session() as own:
        print(own.execute("1 + 1").value, flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print(sessions[0].execute("2 + 2").value)
"""
        run = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
        forked = "this process was forked after connecting; create a new sandbox in it"
        self.assertEqual(run.stdout.splitlines(), [forked, forked, "2", "4"], run.stderr)

    def test_a_daemon_that_is_killed_is_an_error(self) -> None:
        use_daemon()
        other = Daemon()
        box = Sandbox("javascript", backend="daemon")
        killer = threading.Timer(0.3, other.process.kill)
        killer.start()
        with self.assertRaises(UnavailableError):
            box.execute("for (;;);")
        with self.assertRaises(UnavailableError):
            box.execute("1")
        other.stop()
        use_daemon()


class Cancelling(unittest.TestCase):
    def cancelled(self, source: str, *, tools: list[Callable[..., object]] | None = None) -> Run:
        """Cancels a script after it has printed, and returns its result."""
        use_daemon()
        token = CancelToken()
        backend = Sandbox("javascript", backend="daemon", tools=tools or [])._backend
        input = _input(source, None, None, None, None, None, lambda _: token.cancel(), None, token)
        begun = time.monotonic()
        run = Run(backend.execute(input))
        self.assertLess(time.monotonic() - begun, 60)
        return run

    def test_cancelled_execution_returns_its_output(self) -> None:
        run = self.cancelled("require('fs').writeFileSync('a.txt', 'a'); console.log('begun'); for (;;);")
        self.assertEqual((run.outcome.kind, run.stdout, dict(run.files)), ("cancelled", "begun\n", {"a.txt": b"a"}))

    def test_execution_is_cancelled_while_it_waits_for_a_tool(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)

        def wait() -> None:
            release.wait(60)

        run = self.cancelled("console.log('begun'); await tools.wait({})", tools=[wait])
        self.assertEqual((run.outcome.kind, run.stdout), ("cancelled", "begun\n"))

    def test_execution_is_cancelled_before_it_begins(self) -> None:
        use_daemon()
        token = CancelToken()
        token.cancel()
        backend = Sandbox("javascript", backend="daemon")._backend
        run = Run(backend.execute(_input("console.log(1)", None, None, None, None, None, None, None, token)))
        self.assertEqual((run.outcome.kind, run.stdout, run.ok), ("cancelled", "", False))

    def test_queued_execution_of_a_session_is_cancelled(self) -> None:
        use_daemon()
        token, begun = CancelToken(), threading.Event()
        with Sandbox("javascript", backend="daemon", limits=Limits(timeout_ms=60_000)).session() as session:
            source = "console.log('begun'); const end = Date.now() + 2000; while (Date.now() < end);"
            first = threading.Thread(target=lambda: session.execute(source, on_stdout=lambda _: begun.set()))
            first.start()
            self.assertTrue(begun.wait(60))
            threading.Timer(0.2, token.cancel).start()
            queued = _input("console.log(1)", None, None, None, None, None, None, None, token)
            run = Run(session._session.execute(queued))
            first.join()
            self.assertEqual((run.outcome.kind, run.stdout), ("cancelled", ""))
            self.assertEqual(session.info.executions, 1)

    def test_exception_from_a_listener_cancels_the_execution(self) -> None:
        use_daemon()

        def stop(_text: str) -> None:
            raise UnavailableError("enough")

        with Sandbox("javascript", backend="daemon", limits=Limits(timeout_ms=100_000)).session() as session:
            begun = time.monotonic()
            with self.assertRaisesRegex(UnavailableError, "enough"):
                session.execute("var x = 1; console.log(x); for (;;);", on_stdout=stop)
            self.assertEqual(session.execute("1 + 1").value, 2)
            self.assertLess(time.monotonic() - begun, 60)

    def test_ctrl_c_cancels_the_execution(self) -> None:
        use_daemon()
        source = """
import signal
from glovebox_sandbox import Limits, Sandbox
signal.signal(signal.SIGINT, signal.default_int_handler)
session = Sandbox("javascript", backend="daemon", limits=Limits(timeout_ms=100_000)).session()
try:
    session.execute("console.log('ready'); for (;;);", on_stdout=lambda text: print(text, end="", flush=True))
except KeyboardInterrupt:
    print("interrupted", session.execute("1 + 1").value)
"""
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            self.assertEqual(process.stdout.readline(), "ready\n")
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=100)
            self.assertEqual((out, process.returncode), ("interrupted 2\n", 0))
            self.assertLess(time.monotonic() - begun, 60)


class Unsafe(unittest.TestCase):
    def test_unsandboxed_python_needs_a_name_and_a_flag(self) -> None:
        nowhere(self)
        for backend in ("auto", "wasm", "component", "daemon", None):
            with self.subTest(backend), self.assertRaisesRegex(TypeError, "without a sandbox"):
                Sandbox(backend=backend, unsafe_native=True)
        self.assertEqual(Sandbox(backend="native").backend, "native", "without the flag, `native` is the engine")
        with self.assertRaisesRegex(TypeError, "backend must be one of"):
            Sandbox(backend="unsafe-native")  # type: ignore[arg-type]
        with self.assertRaises(UnsupportedError):
            Sandbox("javascript", backend="native", unsafe_native=True)
        with self.assertRaisesRegex(UnsupportedError, "workspace: not supported without a sandbox"):
            Sandbox(backend="native", unsafe_native=True, workspace=".")

    def test_unsandboxed_python_cannot_suspend_scripts(self) -> None:
        def pay(euros: int) -> str:
            raise AssertionError("nothing calls a tool whose caller answers")

        refused = 'without a sandbox; remove unsafe_native, so that backend="native" is the engine'
        with self.assertRaisesRegex(UnsupportedError, f"tools: waits=True is not supported: .*{refused}"):
            Sandbox(backend="native", unsafe_native=True, tools=[Tool(pay, waits=True)])
        box = Sandbox(backend="native", unsafe_native=True)
        with box.session() as session:
            session.execute("x = 1")
            for method in (
                lambda: box.start("open('written', 'w')"),
                lambda: box.resume_suspended(b""),
                lambda: box.suspended_calls(b""),
                lambda: box.resume_suspended_session(b""),
                lambda: session.start("x = 2"),
                lambda: session.resume_suspended(b""),
            ):
                with self.assertRaisesRegex(UnsupportedError, refused):
                    method()
            self.assertEqual(session.execute("x").value, 1, "nothing was executed")

    def test_missing_python_is_detected(self) -> None:
        path = _unsafe_native.python()
        version = _unsafe_native._version(path)
        assert version is not None
        self.assertGreaterEqual(version, (3, 8))
        self.assertIsNone(_unsafe_native._version("/absent/python"))

    def test_unsandboxed_python_runs_scripts_with_host_access(self) -> None:
        def llm_query(prompt: str) -> str:
            return f"{prompt}!"

        box = Sandbox(backend="native", unsafe_native=True, tools=[llm_query], limits=Limits(timeout_ms=10_000))
        self.assertEqual(box.backend, "unsafe-native")
        with box.session(context=["a", "b"]) as session:
            run = session.execute(
                "import sys\nprint(len(context), llm_query('hi'), input())\nprint('e', file=sys.stderr)\ncontext[1]", stdin="in"
            )
            self.assertEqual((run.stdout, run.stderr, run.value, run.ok), ("2 hi! in\n", "e\n", "b", True))
            self.assertGreater(run.duration_ms, 0)
            failed = session.execute("raise ValueError('test')").outcome
            self.assertEqual((failed.type, failed.message, failed.line), ("ValueError", "test", 1))
            self.assertEqual(session.execute("while True: pass", timeout_ms=200).outcome.kind, "cancelled")
            self.assertEqual(session.execute("while True: pass").outcome.resource, "time")
            self.assertEqual(session.execute("1 + 1").value, 2)
            with self.assertRaises(UnsupportedError):
                session.fork()
        with self.assertRaises(SessionError):
            session.execute("1")
        with tempfile.TemporaryDirectory() as directory:
            marker = Path(directory, "written")
            box.execute(f"open({str(marker)!r}, 'w').close()").raise_for_outcome()
            self.assertTrue(marker.exists(), "scripts run without a sandbox")

    def test_limits_apply_in_a_background_job(self) -> None:
        # Like a process that a shell starts in the background, this process ignores SIGINT.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            session = Sandbox(backend="native", unsafe_native=True, limits=Limits(timeout_ms=200)).session()
        finally:
            signal.signal(signal.SIGINT, before)
        with session:
            self.assertEqual(session.execute("while True: pass").outcome.resource, "time")


if __name__ == "__main__":
    unittest.main()
