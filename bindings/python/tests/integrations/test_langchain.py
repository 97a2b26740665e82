"""Tests the tool in a real LangChain agent with a scripted model."""

from __future__ import annotations

import unittest
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.langchain import run_code_tool
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage

LIMITS = Limits(fuel=2_000_000_000)


class ScriptedModel(FakeMessagesListChatModel):  # type: ignore[misc]
    """Returns one scripted answer after another."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def messages(*codes: str) -> list[AIMessage]:
    calls = [
        AIMessage("", tool_calls=[{"name": "run_python", "args": {"code": code}, "id": str(at)}])
        for at, code in enumerate(codes)
    ]
    return [*calls, AIMessage("done")]


def received(state: Any) -> list[tuple[str, str]]:
    return [(each.status, each.content) for each in state["messages"] if isinstance(each, ToolMessage)]


class Agents(unittest.IsolatedAsyncioTestCase):
    def agent(self, *codes: str, **options: Any) -> Any:
        model = ScriptedModel(responses=messages(*codes))
        return create_agent(model, tools=[run_code_tool(limits=LIMITS, **options)])

    def test_scripts_share_a_session(self) -> None:
        state = self.agent("x = 40\nprint('set')", "x + 2").invoke({"messages": [("user", "go")]})
        self.assertEqual(received(state), [("success", "set"), ("success", "42")])

    async def test_async_agent_shares_a_session(self) -> None:
        state = await self.agent("x = 40\nprint('set')", "x + 2").ainvoke({"messages": [("user", "go")]})
        self.assertEqual(received(state), [("success", "set"), ("success", "42")])

    def test_stateless_scripts_share_nothing(self) -> None:
        state = self.agent("x = 40", "'x' in globals()", keep=False).invoke({"messages": [("user", "go")]})
        self.assertEqual(received(state), [("success", "(no output)"), ("success", "False")])

    def test_failures_are_reported(self) -> None:
        state = self.agent("print('before')\n1 / 0", "while True: pass", "7").invoke({"messages": [("user", "go")]})
        (first, text), (second, stopped), third = received(state)
        self.assertEqual((first, second, third), ("error", "error", ("success", "7")))
        self.assertRegex(text, "(?s)^before\n.*ZeroDivisionError")
        self.assertIn("out of fuel", stopped)

    def test_tool_description_for_the_model(self) -> None:
        tool = run_code_tool(limits=LIMITS, language="javascript")
        self.assertEqual((tool.name, list(tool.args)), ("run_javascript", ["code"]))
        self.assertIn("JavaScript", tool.description)
        self.assertEqual(tool.invoke({"code": "1 + 1"}), "2")
        self.assertEqual(run_code_tool(name="code", description="Runs it.").description, "Runs it.")

    def test_invalid_options_are_rejected(self) -> None:
        for options, expected in (
            ({"max_characters": "many"}, "max_characters must be int, not str"),
            ({"limits": 3}, "limits must be Limits, not int"),
            ({"tools": [1]}, r"tools\[0\] must be a function or a Tool, not int"),
            ({"surprise": 1}, "surprise"),
        ):
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                run_code_tool(**options)


if __name__ == "__main__":
    unittest.main()
