"""Tests scripts that wait for answers to tool calls, and their suspension."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Literal

from glovebox_sandbox import (
    AsyncSandbox,
    AsyncWaitingRun,
    Limits,
    Run,
    Sandbox,
    SessionError,
    SuspensionError,
    Tool,
    UnsupportedError,
    WaitingCall,
    WaitingRun,
)
from glovebox_sandbox._daemon_client import Problem, connect
from scripts import PROVIDERS, use_daemon


def pay(euros: int) -> Any:
    """Pays an invoice."""
    raise AssertionError("the function of a waiting tool was called")


PAY = Tool(pay, waits=True)

BOTH = """
import asyncio
async def main():
    print(await asyncio.gather(tools.pay.aio(euros=1), tools.pay.aio(euros=2)))
asyncio.run(main())
"""

CAUGHT = """
try:
    print("paid:", tools.pay(euros=20))
except tools.ToolError as error:
    print(type(error).__name__, error)
"""


class Case(unittest.TestCase):
    backend: Literal["native", "daemon"] = "native"

    def setUp(self) -> None:
        if self.backend == "daemon":
            use_daemon()

    def sandbox(self, language: str = "python", **options: Any) -> Sandbox:
        """Opens a sandbox with the tool `pay`, whose calls wait for answers."""
        return Sandbox(language, backend=self.backend, **{"tools": [PAY], **options})

    def waits(self, run: Run | WaitingRun, *ids: int) -> WaitingRun:
        """Checks that a run waits for these calls."""
        if not isinstance(run, WaitingRun):
            self.fail(f"the script does not wait: {run}, {run.stderr}")
        self.assertEqual([call.id for call in run.calls], list(ids))
        return run

    def ended(self, run: Run | WaitingRun) -> Run:
        """Checks that a script ran to its end."""
        if isinstance(run, WaitingRun):
            self.fail(f"the script waits: {run}")
        self.assertEqual(run.outcome.kind, "completed", run.stderr)
        return run

    def suspended(self, source: str = CAUGHT) -> bytes:
        """Suspends a script at its first call."""
        with self.sandbox() as box:
            return self.waits(box.start(source), 0).suspend()


class Answers(Case):
    def test_script_without_waiting_calls_ends(self) -> None:
        self.assertEqual(self.ended(self.sandbox().start("print(1)")).stdout, "1\n")

    def test_answers_continue_the_script(self) -> None:
        source = "print(input(), context['a'])\nprint(tools.pay(euros=20))\nprint(tools.pay(euros=1))"
        run = self.waits(self.sandbox().start(source, stdin="in", context={"a": "b"}), 0)
        self.assertEqual(run.calls, [WaitingCall(id=0, name="pay", arguments={"euros": 20})])
        self.assertEqual((run.stdout, run.stderr, repr(run)), ("in b\n", "", "<WaitingRun: pay (0)>"))
        run = self.waits(run.answer({0: {"receipt": 17}}), 1)
        ended = self.ended(run.answer({1: None}))
        self.assertEqual(ended.stdout, "in b\n{'receipt': 17}\nNone\n")
        self.assertEqual([call.result for call in ended.tool_calls], [{"receipt": 17}, None])

    def test_calls_are_answered_in_any_order(self) -> None:
        run = self.waits(self.sandbox().start(BOTH), 0, 1)
        run = self.waits(run.answer(), 0, 1)
        run = self.waits(run.answer({1: "second"}), 0)
        self.assertEqual(self.ended(run.answer({0: "first"})).stdout, "['first', 'second']\n")

    def test_denied_and_failed_calls_raise(self) -> None:
        box = self.sandbox()
        run = self.waits(box.start(CAUGHT), 0)
        self.assertEqual(self.ended(run.answer(denied={0: "too much"})).stdout, "ToolDenied too much\n")
        run = self.waits(box.start(CAUGHT), 0)
        self.assertEqual(self.ended(run.answer(failed={0: "no money"})).stdout, "ToolError no money\n")

    def test_wrong_answers_are_refused(self) -> None:
        run = self.waits(self.sandbox().start(CAUGHT), 0)
        for given, kind, expected in [
            ({"answers": {1: 2}}, ValueError, r"answers has the key 1, .* answer one of these calls: 0"),
            ({"answers": {0: 1}, "denied": {0: "no"}}, ValueError, r"denied has the key 0, .* another answer"),
            ({"answers": {0: object()}}, TypeError, r"answers\[0\] must be a JSON value"),
            ({"answers": {"0": 1}}, TypeError, "a key of answers must be int, not str"),
            ({"answers": [1]}, TypeError, "answers must be a mapping, not list"),
            ({"denied": {0: 1}}, TypeError, r"denied\[0\] must be str, not int"),
        ]:
            with self.subTest(expected), self.assertRaisesRegex(kind, expected):
                run.answer(**given)  # type: ignore[arg-type]
        self.assertEqual(self.ended(run.answer({0: 1})).stdout, "paid: 1\n")

    def test_call_in_memory_times_out(self) -> None:
        # The timeout is long enough for a slow machine to report the call before it times out.
        box = self.sandbox(limits=Limits(tool_timeout_ms=1_000))
        run = self.waits(box.start(CAUGHT), 0)
        time.sleep(2)
        self.assertIn("ToolTimeout", self.ended(run.answer({0: 1})).stdout)

    def test_execute_fails_waiting_calls(self) -> None:
        self.assertIn("use `start`", self.sandbox().execute(CAUGHT).stdout)

    def test_dropped_run_ends(self) -> None:
        with self.sandbox().session() as session:
            session.execute("x = 1")
            run = self.waits(session.start("tools.pay(euros=1)"), 0)
            del run
            self.assertEqual(session.execute("x").value, 1)


STREAMS = """
import sys
print("a")
print("b", file=sys.stderr)
print(tools.pay(euros=1))
tools.pay(euros=2)
print("c")
"""


class Output(Case):
    def test_each_step_passes_its_output_to_the_listeners(self) -> None:
        box = self.sandbox()
        out: list[str] = []
        err: list[str] = []
        threads: set[int] = set()

        def hear(text: str) -> None:
            out.append(text)
            threads.add(threading.get_ident())

        run = self.waits(box.start(STREAMS, on_stdout=hear, on_stderr=err.append), 0)
        self.assertEqual(("".join(out), "".join(err)), ("a\n", "b\n"))
        run = self.waits(run.answer({0: "paid"}), 1)
        self.assertEqual("".join(out), "a\npaid\n")
        state = run.suspend()
        self.assertEqual(self.ended(box.resume_suspended(state, {1: None}, on_stdout=hear)).stdout, "a\npaid\nc\n")
        self.assertEqual(("".join(out), "".join(err)), ("a\npaid\nc\n", "b\n"))
        self.assertEqual(threads, {threading.get_ident()})
        out.clear()
        self.waits(box.resume_suspended(state, on_stdout=hear), 1)
        self.assertEqual(out, [])

    def test_output_of_a_session_is_passed_to_listeners(self) -> None:
        out: list[str] = []
        with self.sandbox().session() as session:
            run = self.waits(session.start(STREAMS, on_stdout=out.append), 0)
            self.ended(self.waits(run.answer({0: "paid"}), 1).answer({1: None}))
        self.assertEqual("".join(out), "a\npaid\nc\n")

    def test_exception_from_a_listener_cancels_the_script(self) -> None:
        box = self.sandbox()

        def stop(text: str) -> None:
            if "paid" in text:
                raise LookupError("enough")

        run = self.waits(box.start(STREAMS, on_stdout=stop), 0)
        with self.assertRaisesRegex(LookupError, "enough"):
            run.answer({0: "paid"})
        ended: Any = run.answer()
        deadline = time.monotonic() + 60
        while isinstance(ended, WaitingRun):  # The script had made its next call before it was cancelled.
            self.assertLess(time.monotonic(), deadline, "the script is not cancelled")
            ended = ended.answer()
        self.assertEqual(ended.outcome.kind, "cancelled")
        with self.assertRaisesRegex(LookupError, "enough"):
            box.start("print('paid')\ntools.pay(euros=1)", on_stdout=stop)
        with self.assertRaisesRegex(TypeError, "on_stdout must be callable"):
            box.start("1", on_stdout=1)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "on_stderr must be callable"):
            box.resume_suspended(b"", on_stderr=1)  # type: ignore[arg-type]

    def test_run_in_a_cycle_with_its_listener_ends(self) -> None:
        with self.sandbox().session() as session:

            def begin() -> None:
                runs: list[WaitingRun] = []
                run = session.start("tools.pay(euros=1)", on_stdout=lambda _: runs.clear())
                runs.append(self.waits(run, 0))

            begin()
            gc.collect()
            self.assertEqual(session.execute("1 + 1").value, 2)


PROGRAM = """
import sys
from pathlib import Path
from glovebox_sandbox import Sandbox, Tool, WaitingRun

def pay(euros: int) -> str:
    "Pays an invoice."
    raise AssertionError("the function of a waiting tool was called")

def log(text: str) -> None:
    "Adds a line to a file."
    with open("log", "a") as file:
        file.write(text + "\\n")

box = Sandbox(backend=sys.argv[1], tools=[Tool(pay, waits=True), log])
state = Path("state")
"""

SUSPENDING = """
SCRIPT = '''
import random, time
x = (random.random(), time.time())
tools.log(text="once")
print(x)
print(tools.pay(euros=20), x)
'''
run = box.start(SCRIPT)
print(run.stdout, end="")
state.write_bytes(run.suspend())
"""

RESUMING = """
(call,) = box.suspended_calls(state.read_bytes())
assert (call.name, call.arguments) == ("pay", {"euros": 20}), call
run = box.resume_suspended(state.read_bytes(), {call.id: "paid"})
print(run.stdout, end="")
"""


class Suspension(Case):
    def test_script_is_resumed_in_another_process(self) -> None:
        with tempfile.TemporaryDirectory() as directory:

            def ran(text: str) -> str:
                command = [sys.executable, "-c", PROGRAM + text, self.backend]
                return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout

            before = ran(SUSPENDING)
            self.assertEqual(ran(RESUMING), before + f"paid {before}")
            self.assertEqual(Path(directory, "log").read_text(), "once\n")

    def test_script_is_resumed_with_different_answers(self) -> None:
        state, box = self.suspended(), self.sandbox()
        for given, stdout in [
            ({"answers": {0: 1}}, "paid: 1\n"),
            ({"answers": {0: 2}}, "paid: 2\n"),
            ({"denied": {0: "too much"}}, "ToolDenied too much\n"),
            ({"failed": {0: "no money"}}, "ToolError no money\n"),
        ]:
            run: Any = box.resume_suspended(state, **given)  # type: ignore[arg-type]
            self.assertEqual(self.ended(run).stdout, stdout)
        run = self.waits(box.resume_suspended(state), 0)
        self.assertEqual(self.ended(run.answer({0: 3})).stdout, "paid: 3\n")

    def test_forks_are_answered_differently(self) -> None:
        out: list[str] = []
        run = self.waits(self.sandbox().start(STREAMS, on_stdout=out.append), 0)
        first = self.waits(run.answer({0: "paid"}), 1)
        forks = first.fork(3)
        self.assertIsNone(first.session)
        for fork, answer in zip(forks, ["x", "y", "z"], strict=True):
            self.assertEqual(fork.calls, first.calls)
            self.assertIsNone(fork.session)
            self.assertIn("c\n", self.ended(fork.answer({1: answer})).stdout)
        self.assertEqual("".join(out), "a\npaid\n" + 3 * "c\n")
        with self.assertRaisesRegex(SuspensionError, "has ended"):
            first.fork(1)

    def test_forks_are_independent(self) -> None:
        source = """
with open("log", "w") as log: log.write("begun")
x = tools.pay(euros=1)
with open("log", "a") as log: log.write(f" {x}")
print(open("log").read(), tools.pay(euros=2))
"""
        outputs = []
        for fork, first in zip(self.waits(self.sandbox().start(source), 0).fork(2), "ab", strict=True):
            again = self.waits(fork.answer({0: first}), 1).fork(2)
            outputs += [self.ended(each.answer({1: last})).stdout for each, last in zip(again, "cd", strict=True)]
        self.assertEqual(outputs, ["begun a c\n", "begun a d\n", "begun b c\n", "begun b d\n"])

    def test_fork_checks_its_input(self) -> None:
        box = self.sandbox()
        run = self.waits(box.start(CAUGHT), 0)
        with self.assertRaisesRegex(TypeError, "count must be int"):
            run.fork("2")  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "count must be a number from 0"):
            run.fork(-1)
        box.close()
        with self.assertRaisesRegex(SessionError, "the sandbox was closed"):
            run.fork(2)
        self.assertEqual(self.ended(run.answer({0: 1})).stdout, "paid: 1\n")
        self.assertEqual(self.waits(self.sandbox().start(CAUGHT), 0).fork(0), [])

    def test_forks_obey_the_timeout_of_the_run(self) -> None:
        box = self.sandbox(limits=Limits(timeout_ms=100_000))
        run = self.waits(box.start("tools.pay(euros=1)\nwhile True: pass", timeout_ms=3_000), 0)
        (fork,) = run.fork(1)
        stopped: Any = fork.answer({0: 1})
        self.assertEqual(stopped.outcome.kind, "cancelled")

    def test_answers_are_given_in_steps(self) -> None:
        box = self.sandbox()
        state = self.waits(box.start(BOTH), 0, 1).suspend()
        state = self.waits(box.resume_suspended(state, {1: "second"}), 0).suspend()
        self.assertEqual(self.ended(box.resume_suspended(state, {0: "first"})).stdout, "['first', 'second']\n")

    def test_suspended_run_has_ended(self) -> None:
        run = self.waits(self.sandbox().start(CAUGHT), 0)
        run.suspend()
        with self.assertRaisesRegex(SuspensionError, "has ended"):
            run.suspend()
        ended: Any = run.answer()
        deadline = time.monotonic() + 60
        while isinstance(ended, WaitingRun):  # The script had made its next call before it was cancelled.
            self.assertLess(time.monotonic(), deadline, "the script is not cancelled")
            ended = ended.answer()
        self.assertEqual(ended.outcome.kind, "cancelled")

    def test_damaged_bytes_are_refused(self) -> None:
        state, box = self.suspended(), self.sandbox()
        middle = len(state) // 2
        changed = state[:middle] + bytes([state[middle] ^ 1]) + state[middle + 1 :]
        for damaged in (b"", b"text", state[:-1], state + b"x", changed):
            for read in (box.suspended_calls, box.resume_suspended):
                with self.assertRaisesRegex(SuspensionError, "not a suspended execution"):
                    read(damaged)
        with self.assertRaisesRegex(TypeError, "state must be bytes, not str"):
            box.resume_suspended("text")  # type: ignore[arg-type]

    def test_other_interpreter_is_refused(self) -> None:
        with self.assertRaisesRegex(SuspensionError, "needs the image"):
            self.sandbox("javascript").resume_suspended(self.suspended(), {0: 1})

    def test_script_that_behaves_differently_is_refused(self) -> None:
        with self.sandbox(files={"code": "tools.pay(euros=1)"}) as box:
            state = self.waits(box.start("exec(open('code').read())"), 0).suspend()
        box = self.sandbox(files={"code": "tools.pay(euros=2)"})
        with self.assertRaisesRegex(SuspensionError, "behaves differently"):
            box.resume_suspended(state, {0: 1})

    def test_resumed_script_obeys_its_timeout(self) -> None:
        box = self.sandbox(limits=Limits(timeout_ms=100_000))
        state = self.waits(box.start("tools.pay(euros=1)\nwhile True: pass"), 0).suspend()
        run: Any = box.resume_suspended(state, {0: 1}, timeout_ms=1_000)
        self.assertEqual(run.outcome.kind, "cancelled")


class Native(Case):
    def test_output_between_two_steps_is_kept(self) -> None:
        box = self.sandbox(limits=Limits(tool_timeout_ms=1_000))
        out: list[str] = []
        run = self.waits(box.start(CAUGHT, on_stdout=out.append), 0)
        deadline = time.monotonic() + 60
        while not run.stdout and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(out, [])
        self.assertEqual(self.ended(run.answer()).stdout, "".join(out))
        self.assertIn("ToolTimeout", "".join(out))

    def test_resumed_tool_must_wait(self) -> None:
        state = self.suspended()
        with self.assertRaisesRegex(SuspensionError, "behaves differently"):
            self.sandbox(tools=[Tool(pay)]).resume_suspended(state, {0: 1})

    def test_other_backends(self) -> None:
        with self.assertRaisesRegex(UnsupportedError, "waits=True"):
            Sandbox(backend="component", tools=[PAY])
        self.assertEqual(Sandbox(backend="auto", tools=[PAY]).backend, "native")
        box = Sandbox("javascript", backend="component", provider=PROVIDERS / "glovebox-javascript.wasm")
        with self.assertRaisesRegex(UnsupportedError, "cannot suspend"):
            box.start("1")
        with self.assertRaisesRegex(UnsupportedError, "cannot suspend"):
            box.suspended_calls(b"")


class Sessions(Case):
    def test_damaged_bytes_are_refused(self) -> None:
        with self.assertRaisesRegex(SuspensionError, "not a suspended execution"):
            self.sandbox().resume_suspended_session(self.suspended()[:-1])

    def test_script_in_a_session_is_resumed_in_a_restored_session(self) -> None:
        box = self.sandbox()
        with box.session() as session:
            session.execute("total = 20")
            run = self.waits(session.start("total += 1\nreceipt = tools.pay(euros=total)\nreceipt"), 0)
            state = run.suspend()
            self.assertEqual(session.execute("total").value, 20)
        (call,) = box.suspended_calls(state)
        self.assertEqual(call.arguments, {"euros": 21})
        for receipt in ("one", "two"):
            with box.resume_suspended_session(state) as session:
                self.assertEqual(self.ended(session.resume_suspended(state, {0: receipt})).value, receipt)
                self.assertEqual((session.variables["receipt"], session.variables["total"]), (receipt, 21))

    def test_each_fork_in_a_session_has_its_own_session(self) -> None:
        with self.sandbox().session() as session:
            session.execute("x = [0]")
            run = self.waits(session.start("x.append(tools.pay(euros=1))\nx"), 0)
            self.assertIs(run.session, session)
            forks = run.fork(2)
            for fork, answer in zip(forks, [1, 2], strict=True):
                assert fork.session is not None
                self.assertNotEqual(fork.session.id, session.id)
                self.assertEqual(self.ended(fork.answer({0: answer})).value, [0, answer])
            for fork, answer in zip(forks, [1, 2], strict=True):
                assert fork.session is not None
                self.assertEqual(fork.session.variables["x"], [0, answer])
                fork.session.close()
            self.assertEqual(session.variables["x"], [0])

    def test_place_must_be_the_same(self) -> None:
        box = self.sandbox()
        with box.session() as session:
            inside = self.waits(session.start(CAUGHT), 0).suspend()
        with self.assertRaisesRegex(SuspensionError, "resume_suspended_session"):
            box.resume_suspended(inside, {0: 1})
        outside = self.suspended()
        with box.session() as session, self.assertRaisesRegex(SuspensionError, "outside a session"):
            session.resume_suspended(outside, {0: 1})
        with self.assertRaisesRegex(SuspensionError, "outside a session"):
            box.resume_suspended_session(outside)


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    backend: Literal["native", "daemon"] = "native"

    def setUp(self) -> None:
        if self.backend == "daemon":
            use_daemon()

    async def test_script_is_suspended_and_resumed(self) -> None:
        async with AsyncSandbox(backend=self.backend, tools=[PAY]) as box:
            run = await box.start(BOTH)
            assert isinstance(run, AsyncWaitingRun), run
            self.assertEqual((run.stdout, run.stderr, repr(run)), ("", "", "<AsyncWaitingRun: pay (0), pay (1)>"))
            state = await run.suspend()
            self.assertEqual(await box.suspended_calls(state), run.calls)
            run = await box.resume_suspended(state, {0: "first"})
            assert isinstance(run, AsyncWaitingRun), run
            ended = await run.answer(denied={1: "no"})
            assert isinstance(ended, Run), ended
            self.assertEqual((ended.outcome.type, ended.outcome.message), ("ToolDenied", "no"))

    async def test_output_is_passed_to_listeners(self) -> None:
        async with AsyncSandbox(backend=self.backend, tools=[PAY]) as box:
            out: list[str] = []
            run = await box.start(STREAMS, on_stdout=out.append)
            assert isinstance(run, AsyncWaitingRun), run
            run = await run.answer({0: "paid"})
            assert isinstance(run, AsyncWaitingRun), run
            self.assertEqual("".join(out), "a\npaid\n")
            await box.resume_suspended(await run.suspend(), {1: None}, on_stdout=out.append)
            self.assertEqual("".join(out), "a\npaid\nc\n")

    async def test_forks_are_answered_at_the_same_time(self) -> None:
        async with AsyncSandbox(backend=self.backend, tools=[PAY]) as box:
            run = await box.start(CAUGHT)
            assert isinstance(run, AsyncWaitingRun), run
            forks = await run.fork(3)
            self.assertEqual([(fork.calls, fork.session) for fork in forks], 3 * [(run.calls, None)])
            given = zip(forks, [1, 2, 3], strict=True)
            ended = await asyncio.gather(*[fork.answer({0: answer}) for fork, answer in given])
            self.assertEqual([each.stdout for each in ended], ["paid: 1\n", "paid: 2\n", "paid: 3\n"])

    async def test_cancelled_task_cancels_its_script(self) -> None:
        async with AsyncSandbox(backend=self.backend, tools=[PAY], limits=Limits(timeout_ms=100_000)) as box:
            run = await box.start("tools.pay(euros=1)\nwhile True: pass")
            assert isinstance(run, AsyncWaitingRun), run
            task = asyncio.create_task(run.answer({0: 1}))
            await asyncio.sleep(0.2)
            begun = time.monotonic()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertLess(time.monotonic() - begun, 60)


class AsynchronousSessions(unittest.IsolatedAsyncioTestCase):
    backend: Literal["native", "daemon"] = "native"

    async def test_session_is_restored(self) -> None:
        if self.backend == "daemon":
            use_daemon()
        async with AsyncSandbox(backend=self.backend, tools=[PAY]) as box:
            async with box.session() as session:
                run = await session.start("x = tools.pay(euros=1)")
                assert isinstance(run, AsyncWaitingRun), run
                state = await run.suspend()
            async with box.resume_suspended_session(state) as session:
                await session.resume_suspended(state, {0: 5})
                self.assertEqual(await session.get_variable("x"), 5)
                run = await session.start("x = tools.pay(euros=1)")
                assert isinstance(run, AsyncWaitingRun), run
                for answer, fork in enumerate(await run.fork(2)):
                    await fork.answer({0: answer})
                    assert fork.session is not None
                    self.assertEqual(await fork.session.get_variable("x"), answer)
                    await fork.session.close()
                self.assertEqual(await session.get_variable("x"), 5)


class DaemonAnswers(Answers):
    backend = "daemon"

    def test_call_of_a_tool_with_a_function_does_not_wait(self) -> None:
        both = """
import asyncio
async def main():
    print(await asyncio.gather(tools.twice.aio(n=2), tools.pay.aio(euros=1)))
asyncio.run(main())
print(tools.twice(n=3))
"""
        box = self.sandbox(tools=[PAY, Tool(lambda n: 2 * n, name="twice", schema={"type": "object"})])
        run = self.waits(box.start(both), 1)
        self.assertEqual(self.ended(run.answer({1: "paid"})).stdout, "[4, 'paid']\n6\n")

    def test_tool_is_called_after_the_function_of_an_earlier_call_has_returned_late(self) -> None:
        source = """
try:
    tools.slow()
except tools.ToolTimeout:
    print(tools.pay(euros=1), tools.twice(n=3))
"""
        released, returned = threading.Event(), threading.Event()

        def slow() -> None:
            released.wait(60)
            returned.set()

        twice = Tool(lambda n: 2 * n, name="twice", schema={"type": "object"})
        box = self.sandbox(tools=[PAY, slow, twice], limits=Limits(tool_timeout_ms=3_000))
        run = self.waits(box.start(source), 1)
        released.set()
        self.assertTrue(returned.wait(60))
        time.sleep(0.1)
        self.assertEqual(self.ended(run.answer({1: "paid"})).stdout, "paid 6\n")

    def test_dropped_run_is_cancelled(self) -> None:
        box = self.sandbox()
        run = self.waits(box.start(CAUGHT), 0)
        path = run._started._path  # type: ignore[attr-defined]
        del run
        gc.collect()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                connect().json("POST", f"{path}/continue", "{}")
            except Problem as problem:
                self.assertEqual(problem.type, "not-found")
                return
            time.sleep(0.02)
        self.fail("the execution still waits")


class DaemonOutput(Output):
    backend = "daemon"


class DaemonSuspension(Suspension):
    backend = "daemon"


class DaemonSessions(Sessions):
    backend = "daemon"

    def test_rejected_state_leaves_the_session_unchanged(self) -> None:
        outside = self.suspended()
        with self.sandbox().session() as session:
            session.execute("x = 1")
            for state in (outside, outside[:-1]):
                with self.subTest(len(state)), self.assertRaises(SuspensionError):
                    session.resume_suspended(state)
            self.assertEqual(session.execute("x").value, 1)

    def test_restored_session_has_the_state_before_the_script(self) -> None:
        box = self.sandbox()
        with box.session() as session:
            session.execute("x = [1]")
            state = self.waits(session.start("x.append(2)\nx.append(tools.pay(euros=1))"), 0).suspend()
        with box.resume_suspended_session(state, id="restored") as session:
            self.assertEqual((session.id, session.variables["x"]), ("restored", [1]))
            self.ended(session.resume_suspended(state, {0: 3}))
            self.assertEqual(session.variables["x"], [1, 2, 3])


class DaemonAsynchronous(Asynchronous):
    backend = "daemon"


class DaemonAsynchronousSessions(AsynchronousSessions):
    backend = "daemon"


if __name__ == "__main__":
    unittest.main()
