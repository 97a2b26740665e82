"""Tests the interpreter with dspy's protocol, and in real dspy modules with a scripted model."""

from __future__ import annotations

import asyncio
import importlib
import unittest
from collections.abc import Callable
from typing import Any

import dspy
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreter, CodeInterpreterError, FinalOutput
from dspy.utils import DummyLM
from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.dspy import GloveboxInterpreter
from pydantic import BaseModel

LIMITS = Limits(fuel=2_000_000_000)


class Point(BaseModel):  # type: ignore[misc]
    x: int


class Protocol(unittest.TestCase):
    def make(self, tools: dict[str, Callable[..., Any]] | None = None, **options: Any) -> GloveboxInterpreter:
        interpreter = GloveboxInterpreter(tools, limits=LIMITS, **options)
        self.addCleanup(interpreter.shutdown)
        return interpreter

    def test_has_the_interpreter_type(self) -> None:
        self.assertIsInstance(self.make(), CodeInterpreter)

    def test_result_is_the_value_or_the_output(self) -> None:
        interpreter = self.make()
        interpreter.start()
        interpreter.start()
        self.assertEqual(interpreter.execute("print('Hello')"), "Hello\n")
        self.assertIsNone(interpreter.execute("x = 41"))
        self.assertEqual(interpreter.execute("x + 1"), 42)
        self.assertEqual(interpreter.execute("[x, 'a']"), [41, "a"])
        self.assertEqual(interpreter.execute("{1}"), "{1}")

    def test_variables_are_passed_as_json(self) -> None:
        interpreter = self.make({"tool": lambda: None})
        given = {"words": ["ä", None, 1.5], "point": Point(x=1), "long": "x" * 2_000_000}
        self.assertEqual(
            interpreter.execute("words, point['x'], len(long)", variables=given), [["ä", None, 1.5], 1, 2_000_000]
        )
        self.assertEqual(interpreter.execute("len(long)"), 2_000_000)
        for name in ("no name", "class", "SUBMIT", "tool"):
            with self.subTest(name), self.assertRaisesRegex(CodeInterpreterError, name):
                interpreter.execute("1", variables={name: 1})
        with self.assertRaisesRegex(CodeInterpreterError, "JSON"):
            interpreter.execute("1", variables={"x": object()})

    def test_submit_ends_the_script(self) -> None:
        interpreter = self.make()
        code = "try:\n    SUBMIT({'a': (1, 2)})\nexcept Exception:\n    pass\nprint('not here')\nafter = 1"
        self.assertEqual(interpreter.execute(code), FinalOutput({"output": {"a": [1, 2]}}))
        self.assertEqual(interpreter.execute("'after' in globals()"), False)

    def test_submit_takes_the_output_fields(self) -> None:
        interpreter = self.make(output_fields=[{"name": "answer", "type": "str"}, {"name": "count", "type": "int"}])
        expected = FinalOutput({"answer": "a", "count": 2})
        for code in ("SUBMIT('a', 2)", "SUBMIT(count=2, answer='a')", "SUBMIT('a', count=2)"):
            with self.subTest(code):
                self.assertEqual(interpreter.execute(code), expected)
        for code in ("SUBMIT('a')", "SUBMIT('a', 2, 3)", "SUBMIT('a', answer='b', count=1)", "SUBMIT(other=1)"):
            with self.subTest(code), self.assertRaisesRegex(CodeExecutionError, "SUBMIT"):
                interpreter.execute(code)

    def test_tools_can_be_added_and_removed(self) -> None:
        interpreter = self.make({"add": lambda a, b=1: a + b})
        self.assertEqual(interpreter.execute("add(1), add(a=1, b=5)"), [2, 6])
        interpreter.tools["make"] = lambda: Point(x=3)
        self.assertEqual(interpreter.execute("make()"), {"x": 3})
        interpreter.execute("held = add")
        del interpreter.tools["add"]
        with self.assertRaisesRegex(CodeExecutionError, "NameError"):
            interpreter.execute("add(1)")
        with self.assertRaisesRegex(CodeExecutionError, "the function `add` is no longer available"):
            interpreter.execute("held(1)")
        interpreter.tools["not a name"] = lambda: 1
        with self.assertRaisesRegex(CodeInterpreterError, "not a name"):
            interpreter.execute("1")

    def test_failing_and_async_tools(self) -> None:
        async def later(text: str) -> str:
            await asyncio.sleep(0.01)
            return text.upper()

        def fail() -> None:
            raise ValueError("not today")

        interpreter = self.make({"later": later, "fail": fail})
        self.assertEqual(interpreter.execute("later(text='a')"), "A")
        with self.assertRaisesRegex(CodeExecutionError, "not today"):
            interpreter.execute("fail()")
        self.assertEqual(interpreter.execute("try:\n    fail()\nexcept Exception:\n    got = 1\ngot"), 1)

    def test_tools_see_the_callers_settings(self) -> None:
        lm = DummyLM([{"answer": "x"}])
        interpreter = self.make({"model": lambda: dspy.settings.lm is lm})
        with dspy.context(lm=lm):
            self.assertIs(interpreter.execute("model()"), True)

    def test_failing_scripts_raise_and_keep_the_session(self) -> None:
        interpreter = self.make()
        interpreter.execute("kept = 1")
        with self.assertRaisesRegex(SyntaxError, "never closed"):
            interpreter.execute("x = (")
        with self.assertRaisesRegex(CodeExecutionError, "ZeroDivisionError"):
            interpreter.execute("1 / 0")
        with self.assertRaisesRegex(CodeExecutionError, "exited with 3"):
            interpreter.execute("import sys; sys.exit(3)")
        self.assertEqual(interpreter.execute("kept"), 1)

    def test_stopped_script_changes_nothing(self) -> None:
        interpreter = GloveboxInterpreter(limits=Limits(fuel=1_000_000_000, fuel_reserve=0))
        self.addCleanup(interpreter.shutdown)
        interpreter.tools["one"] = lambda: 1
        interpreter.execute("kept = 1")
        with self.assertRaisesRegex(CodeExecutionError, "(?s)out of fuel.*are undone"):
            interpreter.execute("kept = 2\nwhile True: pass")
        self.assertEqual(interpreter.execute("kept, one()"), [1, 1])

    def test_a_session_that_ended_stays_ended(self) -> None:
        interpreter = self.make()
        with self.assertRaises(CodeInterpreterError) as raised:
            interpreter.execute("import os; os._exit(0)")
        self.assertNotIsInstance(raised.exception, CodeExecutionError)
        with self.assertRaisesRegex(CodeInterpreterError, "has ended"):
            interpreter.execute("1")

    def test_shutdown_is_final(self) -> None:
        for use in (GloveboxInterpreter.start, lambda interpreter: interpreter.execute("1")):
            interpreter = self.make()
            interpreter.execute("1")
            interpreter.shutdown()
            interpreter.shutdown()
            with self.assertRaisesRegex(CodeInterpreterError, "shut down"):
                use(interpreter)

    def test_a_tool_cannot_run_a_script_in_its_own_interpreter(self) -> None:
        interpreter = self.make()
        interpreter.tools["again"] = lambda: interpreter.execute("1")
        with self.assertRaisesRegex(CodeExecutionError, "already running a script"):
            interpreter.execute("again()")
        self.assertEqual(interpreter.execute("2"), 2)

    def test_invalid_arguments_are_rejected(self) -> None:
        with self.assertRaisesRegex(CodeInterpreterError, "code must be str, not int"):
            self.make().execute(1)  # type: ignore[arg-type]
        with self.assertRaisesRegex(CodeInterpreterError, "SUBMIT"):
            self.make({"SUBMIT": lambda: 1}).start()


class Modules(unittest.TestCase):
    def test_rlm_runs_scripts_and_shuts_down_the_interpreter(self) -> None:
        steps = [
            {"reasoning": "look", "code": "print(len(text), shout(text=text[:2]))"},
            {"reasoning": "fail", "code": "1 / 0"},
            {"reasoning": "answer", "code": "n = text.count('a')\nSUBMIT(count=n)"},
        ]
        made: list[GloveboxInterpreter] = []

        def factory() -> GloveboxInterpreter:
            made.append(GloveboxInterpreter(limits=LIMITS))
            return made[-1]

        def shout(text: str) -> str:
            """Converts a string to upper case."""
            return text.upper()

        with dspy.context(lm=DummyLM(steps), interpreter_factory=factory):
            result = dspy.RLM("text -> count: int", tools=[shout])(text="banana" * 1000)
        self.assertEqual(result.count, 3000)
        outputs = [entry["output"] for entry in result.trajectory]
        self.assertIn("6000 BA", outputs[0])
        self.assertIn("ZeroDivisionError", outputs[1])
        self.assertEqual(len(made), 1)
        with self.assertRaisesRegex(CodeInterpreterError, "shut down"):
            made[0].execute("1")

    def test_rlm_scripts_can_call_sub_agents(self) -> None:
        steps = [
            {"reasoning": "ask", "code": "import dspy\nask = dspy.Predict('word -> length: int')\nSUBMIT(ask(word='four').length)"},
            {"length": "4"},
        ]
        with dspy.context(lm=DummyLM(steps), interpreter_factory=GloveboxInterpreter):
            self.assertEqual(dspy.RLM("text -> count: int")(text="four").count, 4)

    def test_rlm_describes_the_interpreter_to_the_model(self) -> None:
        rlm = dspy.RLM("text -> count: int", interpreter_factory=GloveboxInterpreter)
        self.assertIn(GloveboxInterpreter.execution_instructions, rlm.generate_action.signature.instructions)

    def test_flex_runs_programs_with_tools(self) -> None:
        class Doubled(dspy.Signature):  # type: ignore[misc]
            number: int = dspy.InputField()
            doubled: int = dspy.OutputField()

        def half(number: int) -> int:
            return number // 2

        source = (
            "class Program(dspy.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.guess = dspy.Predict('number: int -> doubled: int')\n"
            "    def forward(self, **given):\n"
            "        guessed = self.guess(number=given['number'])\n"
            "        return dspy.Prediction(doubled=half(number=guessed.doubled) * 2)"
        )
        program = dspy.Flex(Doubled, tools=[half], interpreter_factory=GloveboxInterpreter)
        program._bind_code(source)
        with dspy.context(lm=DummyLM([{"doubled": "43"}])):
            self.assertEqual(program(number=21).doubled, 42)

    def test_program_of_thought_runs_generated_code(self) -> None:
        steps = [
            {"reasoning": "add", "generated_code": "```python\nSUBMIT({'answer': sum(range(10))})\n```"},
            {"reasoning": "so it is", "answer": "45"},
        ]
        with dspy.context(lm=DummyLM(steps), interpreter_factory=GloveboxInterpreter):
            self.assertEqual(dspy.ProgramOfThought("question -> answer")(question="sum?").answer, "45")


class Conformance(unittest.TestCase):
    def test_public_interpreter_checks_pass(self) -> None:
        try:
            checks = importlib.import_module("dspy_interpreters.checks")
        except ImportError:
            self.skipTest("dspy-interpreters is not published; add its `src` to PYTHONPATH to run its checks")
        for name in ("interpreter", "execution_instructions", "rlm", "rlm_execution_instructions", "flex_facade"):
            with self.subTest(name):
                getattr(checks, f"check_{name}")(GloveboxInterpreter).raise_for_failures()


if __name__ == "__main__":
    unittest.main()
