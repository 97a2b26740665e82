"""Tests the API of the contract, `glovebox_sandbox.component`, with the providers in `target/providers` or
`GLOVEBOX_PROVIDERS`.
"""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from glovebox_sandbox import ToolDenied
from glovebox_sandbox.component import InstanceLostError, Provider, RefusedError, Sandbox, Tool
from glovebox_sandbox.component import provider as implementation
from glovebox_sandbox.types import (
    Correction,
    InputFile,
    Limits,
    OutcomeExhausted,
    OutcomeRaised,
    Policy,
    Request,
    SandboxErrorSourceTooLarge,
    ToolOutcomeReturned,
)

PROVIDERS = Path(os.environ.get("GLOVEBOX_PROVIDERS", Path(__file__).parents[3] / "target/providers"))
# QuickJS compiles faster than CPython, and the package runs both with the same code.
CLOSED = Provider(PROVIDERS / "glovebox-javascript-closed.wasm")
FUEL = Policy(limits=Limits(fuel=50_000_000))


class Sandboxed(unittest.TestCase):
    def setUp(self) -> None:
        self.sandbox = Sandbox(CLOSED)

    def test_next_script_runs_after_any_outcome(self) -> None:
        for source, tag in [
            ("console.log(1)", "completed"),
            ("throw new TypeError('no')", "raised"),
            ("for (;;);", "exhausted"),
            ("function f() { return f(); } f()", "trapped"),
            ("std.exit(3)", "exited"),
        ]:
            with self.subTest(source):
                self.assertEqual(self.sandbox.execute(source, policy=FUEL).outcome.tag, tag)
                after = self.sandbox.execute("console.log('still here')")
                self.assertEqual(after.stdout.bytes, b"still here\n")

    def test_each_outcome_has_its_class(self) -> None:
        raised = self.sandbox.execute("throw new TypeError('no')").outcome
        assert isinstance(raised, OutcomeRaised)
        self.assertEqual((raised.value.type_name, raised.value.message), ("TypeError", "no"))
        exhausted = self.sandbox.execute("for (;;);", policy=FUEL).outcome
        assert isinstance(exhausted, OutcomeExhausted)
        self.assertEqual((exhausted.value.resource, exhausted.value.used), ("fuel", 50_000_000))

    def test_each_provider_error_has_its_class(self) -> None:
        with self.assertRaises(RefusedError) as refused:
            self.sandbox.execute("1", runtime="cobol")
        self.assertEqual(refused.exception.tag, "unknown-runtime")
        with self.assertRaisesRegex(RefusedError, "invalid-policy: .*fuel"):
            self.sandbox.execute("1", policy=Policy(limits=Limits(fuel=0)))
        with self.assertRaises(RefusedError) as large:
            self.sandbox.execute("x" * 8, policy=Policy(limits=Limits(source_bytes=7)))
        assert isinstance(large.exception.failure, SandboxErrorSourceTooLarge)
        self.assertEqual((large.exception.failure.value.bytes, large.exception.failure.value.limit), (8, 7))

    def test_request_has_files_and_context(self) -> None:
        files = [InputFile(path="a/b", bytes=b"one")]
        request = Request(source='print(std.loadFile("a/b"), context[1])', files=files, context='[0, "two"]')
        execution = self.sandbox.execute(request)
        self.assertEqual((execution.stdout.bytes, execution.files_created), (b"one two\n", []))

    def test_guidance_suggests_changes(self) -> None:
        guidance = self.sandbox.execute("require('paht')").guidance
        self.assertEqual((guidance.fuel.status, [advice.kind for advice in guidance.advice]), ("efficient", ["module"]))
        self.assertEqual(guidance.advice[0].correction, Correction(line=1, text="require('path')"))

    def test_validation_reports_positions(self) -> None:
        self.assertEqual(self.sandbox.validate("let x = 1"), [])
        self.assertEqual(self.sandbox.validate("let = =")[0].line, 1)

    def test_session_keeps_variables_and_files(self) -> None:
        with self.sandbox.open(context={"city": "Oslo"}) as session:
            value = session.execute("context.city").value
            self.assertEqual(value and value.json, '"Oslo"')
            session.set_variable("n", 20)
            session.execute("var m = n + 1")
            self.assertEqual(self.json(session.get_variable("m")), "21")
            self.assertIsNone(session.get_variable("absent"))
            session.write_file("d/notes.txt", b"one\n")
            self.assertEqual([entry.path for entry in session.list_files()], ["d", "d/notes.txt"])
            self.assertEqual(session.read_file("d/notes.txt"), b"one\n")
            session.delete_file("d", recursive=True)
            self.assertEqual(session.list_files(), [])

            checkpoint = session.checkpoint()
            fork = session.fork()
            session.execute("m = 0")
            self.assertEqual(self.json(fork.get_variable("m")), "21")
            session.undo_to(checkpoint)
            self.assertEqual(self.json(session.get_variable("m")), "21")

            resumed = Sandbox(CLOSED).resume(session.hibernate())
            self.assertEqual(self.json(resumed.get_variable("m")), "21")
            resumed.close()
            resumed.close()
            with self.assertRaisesRegex(RefusedError, "session-ended"):
                resumed.info()

    def test_mistyped_argument_keeps_the_session(self) -> None:
        session = self.sandbox.open()
        session.execute("var x = 1")
        wrong: Any = 1
        with self.assertRaises(TypeError):
            self.sandbox.execute(Request(source=wrong))
        self.assertEqual(self.json(session.get_variable("x")), "1")

    def test_invalid_text_keeps_the_session(self) -> None:
        session = self.sandbox.open()
        session.execute("var x = 1")
        with self.assertRaises(UnicodeEncodeError):
            self.sandbox.execute("'\ud800'")
        self.assertEqual(self.json(session.get_variable("x")), "1")

    def test_trap_ends_sessions_and_the_next_call_gets_an_instance(self) -> None:
        # No known script traps an instance with the default stack size, so this instance has a smaller stack.
        with mock.patch.object(implementation, "_STACK_BYTES", 128 << 10):
            sandbox = Sandbox(PROVIDERS / "glovebox-javascript-closed.wasm")
        sessions = [sandbox.open(), sandbox.open()]
        closed = sandbox.open()
        closed.close()
        instance = sandbox._current()
        with self.assertRaises(InstanceLostError) as lost:
            sandbox.execute("function f() { return f(); } f()")
        ids = [session.id for session in sessions]
        self.assertEqual(lost.exception.sessions, tuple(ids))
        expected = f"the sandbox's instance has trapped, and the sessions {', '.join(ids)} were lost with it"
        self.assertEqual(str(lost.exception), expected)
        self.assertRegex(str(lost.exception.__cause__), "wasm trap: call stack exhausted")
        self.assertFalse(instance.answers())
        self.assertEqual(sandbox.execute("console.log(2)").stdout.bytes, b"2\n")
        self.assertIsNot(sandbox._current(), instance)
        for session in sessions:
            with self.assertRaisesRegex(RefusedError, "session-ended"):
                session.execute("1")
            session.close()
        # A trap during an execution in a session ends the session.
        with sandbox.open() as session, self.assertRaises(InstanceLostError) as lost:
            session.execute("function f() { return f(); } f()")
        self.assertEqual(lost.exception.sessions, (session.id,))
        self.assertEqual(str(lost.exception), f"the sandbox's instance has trapped, and the session {session.id} was lost with it")

    @staticmethod
    def json(value: Any) -> Any:
        return value and value.json


OPEN = PROVIDERS / "glovebox-javascript.wasm"


@unittest.skipUnless(OPEN.exists() or "CI" in os.environ, "the open provider is not built")
class Open(unittest.TestCase):
    def test_tools_answer_scripts(self) -> None:
        def fail(_arguments: object) -> None:
            raise RuntimeError("no such luck")

        number = {"properties": {"x": {"type": "number"}}, "required": ["x"]}
        double = Tool("double", "Twice a number.", lambda arguments: 2 * arguments["x"], number)
        def strange(_arguments: object) -> None:
            raise RuntimeError("\ud800")

        def deny(_arguments: object) -> None:
            raise ToolDenied("not today")

        tools = [
            double,
            Tool("fail", "Fails.", fail),
            Tool("strange", "Fails oddly.", strange),
            Tool("deny", "Refuses.", deny),
        ]
        sandbox = Sandbox(OPEN, tools=tools)
        called = sandbox.execute("console.log(await tools.double({ x: 21 }))")
        self.assertEqual(called.stdout.bytes, b"42\n")
        self.assertEqual(called.tool_calls[0].outcome, ToolOutcomeReturned("42"))
        failed = sandbox.execute("try { await tools.fail({}) } catch (error) { console.log(error.message) }")
        self.assertEqual(failed.stdout.bytes, b"no such luck\n")
        odd = sandbox.execute("try { await tools.strange({}) } catch (error) { console.log(error.message) }")
        self.assertEqual(odd.stdout.bytes, b"\\ud800\n")
        denied = sandbox.execute("try { await tools.deny({}) } catch (error) { console.log(error.name, error.message) }")
        self.assertEqual(denied.stdout.bytes, b"ToolDenied not today\n")
        # The failed calls above have not trapped the instance.
        self.assertEqual(sandbox.execute("1").outcome.tag, "completed")

    def test_time_is_limited(self) -> None:
        policy = Policy(limits=Limits(timeout_ms=100, fuel=1_000_000_000_000))
        outcome = Sandbox(OPEN).execute("for (;;);", policy=policy).outcome
        assert isinstance(outcome, OutcomeExhausted)
        self.assertEqual(outcome.value.resource, "time")


if __name__ == "__main__":
    unittest.main()
