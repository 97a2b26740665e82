"""Tests the tool in a real OpenAI Agents SDK agent with a scripted model."""

from __future__ import annotations

import json
import logging
import unittest
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.openai_agents import run_code_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)
logging.disable(logging.WARNING)
LIMITS = Limits(fuel=2_000_000_000)


class ScriptedModel(Model):  # type: ignore[misc]
    """Runs one script after another, and records its input."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.received: list[str] = []

    async def get_response(self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *more: Any, **named: Any) -> Any:
        self.tool = tools[0]
        self.received = [each["output"] for each in input if each.get("type") == "function_call_output"]
        if not self.codes:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            message = ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])
            return ModelResponse(output=[message], usage=Usage(), response_id=None)
        arguments = json.dumps({"code": self.codes.pop(0)})
        call = ResponseFunctionToolCall(
            call_id=f"call-{len(self.codes)}", name=tools[0].name, arguments=arguments, type="function_call"
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError("the tests do not stream")


class Agents(unittest.IsolatedAsyncioTestCase):
    async def ask(self, *codes: str, **options: Any) -> ScriptedModel:
        model = ScriptedModel(*codes)
        agent = Agent(name="coder", model=model, tools=[run_code_tool(limits=LIMITS, **options)])
        self.assertEqual((await Runner.run(agent, "go")).final_output, "done")
        return model

    async def test_scripts_share_a_session(self) -> None:
        model = await self.ask("x = 40\nprint('set')", "x + 2")
        self.assertEqual(model.received, ["set", "42"])
        self.assertEqual((model.tool.name, list(model.tool.params_json_schema["properties"])), ("run_python", ["code"]))
        self.assertIn("persist between calls", model.tool.description)

    async def test_stateless_scripts_share_nothing(self) -> None:
        model = await self.ask("x = 40", "'x' in globals()", keep=False, files={"f": "in"}, name="python")
        self.assertEqual(model.received, ["(no output)", "False"])
        self.assertEqual(model.tool.name, "python")

    async def test_failures_are_reported(self) -> None:
        model = await self.ask("print('before')\n1 / 0", "while True: pass", "7")
        self.assertRegex(model.received[0], "(?s)^The script failed.\nbefore\n.*ZeroDivisionError")
        self.assertIn("out of fuel", model.received[1])
        self.assertEqual(model.received[2], "7")

    async def test_sandbox_errors_do_not_end_the_agent(self) -> None:
        model = await self.ask("#" * 2_000_000, "7")
        self.assertIn("error", model.received[0])
        self.assertEqual(model.received[1], "7")


if __name__ == "__main__":
    unittest.main()
