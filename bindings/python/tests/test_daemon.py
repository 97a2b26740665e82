"""The daemon and its selection, and an ordinary Python, which is never selected automatically."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
import unittest
from pathlib import Path

from glovebox_sandbox import (
    AsyncSandbox,
    Limits,
    PolicyError,
    Sandbox,
    SessionError,
    UnavailableError,
    UnsupportedError,
    _unsafe_native,
)
from glovebox_sandbox._daemon_backend import connect
from scripts import Daemon, use_daemon


def nowhere(test: unittest.TestCase) -> Path:
    """Makes tests find no daemon."""
    directory = tempfile.TemporaryDirectory()
    test.addCleanup(directory.cleanup)
    path = Path(directory.name, "d.sock")
    os.environ["GLOVEBOX_DAEMON_SOCKET"] = str(path)
    return path


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
        import socket

        path = nowhere(self)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(path))
            silent.listen()
            with Sandbox("javascript", backend="auto") as box:
                self.assertEqual(box.backend, "native")

    def test_options_unsupported_by_a_daemon_have_a_hint(self) -> None:
        use_daemon()
        with self.assertRaisesRegex(UnsupportedError, 'workspace: .* backend="native"'):
            Sandbox(backend="daemon", workspace=".")
        with self.assertRaisesRegex(UnsupportedError, 'id: .* backend="native"'):
            Sandbox(backend="daemon").session(id="mine")
        with self.assertRaisesRegex(PolicyError, "timeout_ms"):
            Sandbox(backend="daemon", limits=Limits(timeout_ms=10_000_000))
        with self.assertRaisesRegex(PolicyError, "cobol"):
            Sandbox("cobol", backend="daemon")


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

    def test_collected_sandbox_disconnects_and_ends_its_sessions(self) -> None:
        use_daemon()
        watch = connect(lambda *_: (False, ""))
        before = watch.call("ping", {})["connections"]
        box = Sandbox("javascript", backend="daemon")
        session = box.session()
        self.assertEqual(watch.call("ping", {})["connections"], before + 1)
        box.close()
        del box
        gc.collect()
        self.assertEqual(session.execute("1 + 1").value, 2, "a session continues without its sandbox")
        del session
        gc.collect()
        for _ in range(1_200):
            if watch.call("ping", {})["connections"] == before:
                return
            threading.Event().wait(0.05)
        self.fail("the connection is still open")

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
        # A shell starts its background processes with SIGINT ignored.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            session = Sandbox(backend="native", unsafe_native=True, limits=Limits(timeout_ms=200)).session()
        finally:
            signal.signal(signal.SIGINT, before)
        with session:
            self.assertEqual(session.execute("while True: pass").outcome.resource, "time")


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_event_loop_tool_answers_a_daemon(self) -> None:
        use_daemon()

        async def slow(text: str) -> str:
            return text.upper()

        async with AsyncSandbox("javascript", backend="daemon", tools=[slow]) as box:
            self.assertEqual((await box.execute("console.log(await tools.slow({ text: 'a' }))")).stdout, "A\n")


if __name__ == "__main__":
    unittest.main()
