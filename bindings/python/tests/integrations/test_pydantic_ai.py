"""The tool in a real agent of Pydantic AI with a function as the model."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.pydantic_ai import run_code_tool
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

LIMITS = Limits(fuel=2_000_000_000)


class Agents(unittest.TestCase):
    def ask(self, *codes: str, **options: Any) -> tuple[list[Any], Any]:
        """Returns the model's input, one part for each script, and the tool's description."""
        left = list(codes)
        told: list[Any] = []
        known: list[Any] = []

        def model(messages: list[Any], info: Any) -> ModelResponse:
            known[:] = info.function_tools
            if len(left) < len(codes):
                told.extend(messages[-1].parts)
            if not left:
                return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(parts=[ToolCallPart(known[0].name, {"code": left.pop(0)})])

        agent = Agent(FunctionModel(model), tools=[run_code_tool(limits=LIMITS, **options)])
        self.assertEqual(agent.run_sync("go").output, "done")
        return told, known[0]

    def test_scripts_share_a_session(self) -> None:
        told, tool = self.ask("x = 40\nprint('set')", "x + 2", "y = 1")
        self.assertEqual([part.content for part in told], ["set", "42", "(no output)"])
        self.assertEqual((tool.name, list(tool.parameters_json_schema["properties"])), ("run_python", ["code"]))
        self.assertIn("stay between calls", tool.description)

    def test_stateless_scripts_share_nothing(self) -> None:
        told, tool = self.ask("x = 40", "'x' in globals()", keep=False, name="python", description="Runs it.")
        self.assertEqual([part.content for part in told], ["(no output)", "False"])
        self.assertEqual((tool.name, tool.description), ("python", "Runs it."))

    def test_repeated_failures_are_reported(self) -> None:
        told, _ = self.ask("print('before')\n1 / 0", "x = (", "while True: pass", "7")
        for part, text in zip(told, ["ZeroDivisionError", "never closed", "out of fuel"]):
            self.assertEqual(part.outcome, "failed")
            self.assertIn(text, part.content)
        self.assertTrue(told[0].content.startswith("before\n"))
        self.assertEqual((told[3].outcome, told[3].content), ("success", "7"))

    def test_sandbox_options_are_passed_on(self) -> None:
        def add(a: int, b: int) -> int:
            return a + b

        told, tool = self.ask("tools.add(a=1, b=2), open('f').read()", tools=[add], files={"f": "in"})
        self.assertEqual(told[0].content, "(3, 'in')")
        told, tool = self.ask("[1, 2].map(n => n * 2)", language="javascript")
        self.assertEqual((told[0].content, tool.name), ("[ 2, 4 ]", "run_javascript"))


class Tools(unittest.IsolatedAsyncioTestCase):
    async def test_stateless_scripts_run_concurrently(self) -> None:
        tool = run_code_tool(limits=LIMITS, keep=False)
        results = await asyncio.gather(*(tool.function(f"x = {n}\nx * 2") for n in range(8)))
        self.assertEqual(results, [str(n * 2) for n in range(8)])


if __name__ == "__main__":
    unittest.main()
