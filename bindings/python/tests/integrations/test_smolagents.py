"""Tests the executor in a real `CodeAgent` with a scripted model."""

from __future__ import annotations

import unittest
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.smolagents import GloveboxExecutor
from smolagents import ChatMessage, CodeAgent, LogLevel, Model, tool
from smolagents.local_python_executor import InterpreterError, PythonExecutor

LIMITS = Limits(fuel=2_000_000_000)


class ScriptedModel(Model):  # type: ignore[misc]
    """Returns one scripted answer after another, and records its input."""

    def __init__(self, *codes: str) -> None:
        super().__init__(model_id="scripted")
        self.codes = list(codes)
        self.received: list[str] = []

    def generate(self, messages: list[Any], **options: Any) -> Any:
        self.received.append(str(messages[-1].content))
        return ChatMessage(role="assistant", content=f"Thought: go on.\n<code>\n{self.codes.pop(0)}\n</code>")


@tool  # type: ignore[untyped-decorator]
def population(city: str) -> int:
    """Returns a city's population.

    Args:
        city: The city's name.
    """
    return {"Oslo": 700_000, "Lima": 10_000_000}[city]


class Agents(unittest.TestCase):
    def run_agent(self, *codes: str, **options: Any) -> tuple[Any, ScriptedModel]:
        model = ScriptedModel(*codes)
        executor = GloveboxExecutor(limits=LIMITS)
        with CodeAgent(tools=[population], model=model, executor=executor, verbosity_level=LogLevel.OFF, max_steps=5) as agent:
            return agent.run("How many?", **options), model

    def test_steps_share_a_session_and_call_tools(self) -> None:
        answer, model = self.run_agent(
            "print('asking')\noslo = population('Oslo')",
            "lima = population(city='Lima')\n[oslo, lima]",
            "final_answer({'sum': oslo + lima, 'known': known})\nraise AssertionError('goes on')",
            additional_args={"known": ["Oslo"]},
        )
        self.assertEqual(answer, {"sum": 10_700_000, "known": ["Oslo"]})
        self.assertIn("asking", model.received[1])
        self.assertIn("[700000, 10000000]", model.received[2])

    def test_model_sees_failures_and_continues(self) -> None:
        answer, model = self.run_agent(
            "print('before')\nkept = 1\npopulation('Atlantis')",
            "while True: pass",
            "final_answer(kept)",
        )
        self.assertEqual(answer, 1)
        self.assertIn("Atlantis", model.received[1])
        self.assertIn("out of fuel", model.received[2])

    def test_scripts_see_nothing_of_the_host(self) -> None:
        answer, _ = self.run_agent(
            "import os\ntry:\n    open('/etc/passwd')\nexcept OSError as error:\n    final_answer(type(error).__name__)"
        )
        self.assertEqual(answer, "PermissionError")


class Executors(unittest.TestCase):
    def setUp(self) -> None:
        self.executor = GloveboxExecutor(limits=LIMITS, files={"in.txt": "here"})
        self.addCleanup(self.executor.cleanup)

    def test_call_returns_value_and_output(self) -> None:
        self.assertIsInstance(self.executor, PythonExecutor)
        output = self.executor("print('said')\nopen('in.txt').read()")
        self.assertEqual((output.output, output.logs, output.is_final_answer), ("here", "said\n", False))
        self.assertEqual(self.executor("{1}").output, "{1}")

    def test_tools_are_replaced(self) -> None:
        self.executor.send_tools({"one": lambda: 1})
        self.assertEqual(self.executor("one()").output, 1)
        self.executor.send_tools({"two": lambda: 2})
        self.assertEqual(self.executor("two(), 'one' in globals()").output, [2, False])
        with self.assertRaisesRegex(TypeError, r"tools\['three'\] must be callable, not int"):
            self.executor.send_tools({"three": 3})  # type: ignore[dict-item]

    def test_output_before_a_failure_is_shown(self) -> None:
        with self.assertRaisesRegex(InterpreterError, "ZeroDivisionError"):
            self.executor("print('until here')\n1 / 0")
        self.assertEqual(self.executor.state["_print_outputs"], "until here\n")

    def test_value_without_json_form_is_rejected_by_name(self) -> None:
        with self.assertRaisesRegex(TypeError, r"variables\['x'\]"):
            self.executor.send_variables({"x": object()})
        self.executor.send_tools({"same": lambda value: value})
        self.assertEqual(self.executor("same((1, 2))").output, [1, 2])
        with self.assertRaisesRegex(InterpreterError, "cannot pass a value of type object to a host function"):
            self.executor("same(object())")

    def test_ended_session_is_replaced(self) -> None:
        self.executor.send_variables({"given": 5})
        with self.assertRaisesRegex(InterpreterError, "exited with 3"):
            self.executor("import os; mine = 1; os._exit(3)")
        self.assertEqual(self.executor("given, 'mine' in globals()").output, [5, False])


if __name__ == "__main__":
    unittest.main()
