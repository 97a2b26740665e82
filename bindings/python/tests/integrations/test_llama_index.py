"""Tests the function in a real `CodeActAgent` with a scripted model."""

from __future__ import annotations

import asyncio
import logging
import unittest
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.llama_index import code_execute_fn
from llama_index.core.agent.workflow import CodeActAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import MockLLM
from llama_index.core.tools import FunctionTool

logging.disable(logging.WARNING)
LIMITS = Limits(fuel=2_000_000_000)


class ScriptedLLM(MockLLM):  # type: ignore[misc]
    """Returns one scripted answer after another, and records its input."""

    says: list[str] = []
    received: list[str] = []

    async def astream_chat(self, messages: list[ChatMessage], **options: Any) -> Any:
        self.received.append(str(messages[-1].content))
        reply = self.says.pop(0)

        async def answer() -> Any:
            yield ChatResponse(message=ChatMessage(role="assistant", content=reply), delta=reply)

        return answer()


def population(city: str) -> int:
    """Returns a city's population."""
    return {"Oslo": 700_000}[city]


class Agents(unittest.IsolatedAsyncioTestCase):
    async def test_agent_calls_functions_and_sees_failures(self) -> None:
        says = [
            "<execute>people = population('Oslo')\nprint('asked')</execute>",
            "<execute>population('Atlantis')</execute>",
            "<execute>people + 1</execute>",
            "There are 700001.",
        ]
        llm = ScriptedLLM()
        llm.says = says
        execute = code_execute_fn([population], limits=LIMITS)
        agent = CodeActAgent(code_execute_fn=execute, tools=[population], llm=llm)
        self.assertEqual(str(await agent.run("How many?")), "There are 700001.")
        self.assertIn("asked", llm.received[1])
        self.assertIn("Atlantis", llm.received[2])
        self.assertIn("700001", llm.received[3])

    async def test_result_has_output_value_and_error(self) -> None:
        execute = code_execute_fn(limits=LIMITS)
        result = await execute("import sys\nprint('out')\nprint('err', file=sys.stderr)\n{1}")
        self.assertEqual(result, {"stdout": "out\n", "stderr": "err\n", "value": "{1}", "error": None})
        result = await execute("print('before')\n1 / 0")
        self.assertEqual((result["stdout"], result["value"]), ("before\n", None))
        self.assertIn("ZeroDivisionError", result["error"])
        self.assertIn("out of fuel", (await execute("while True: pass"))["error"])

    async def test_async_functions_run_on_the_agents_loop(self) -> None:
        loop = asyncio.get_running_loop()

        async def where(text: str) -> bool:
            await asyncio.sleep(0)
            return asyncio.get_running_loop() is loop and text == "a"

        execute = code_execute_fn([FunctionTool.from_defaults(async_fn=where)], limits=LIMITS)
        self.assertEqual((await execute("where('a')"))["value"], "True")

    async def test_keep_selects_a_session_or_fresh_interpreters(self) -> None:
        for keep, expected in ((True, "1"), (False, None)):
            with self.subTest(keep):
                execute = code_execute_fn(keep=keep, limits=LIMITS, files={"a.txt": "there"})
                self.assertEqual((await execute("x = 1\nopen('a.txt').read()"))["value"], "'there'")
                self.assertEqual((await execute("x"))["value"], expected)

    async def test_scripts_run_concurrently(self) -> None:
        async def add(a: int, b: int) -> int:
            await asyncio.sleep(0.01)
            return a + b

        execute = code_execute_fn([add], keep=False, limits=LIMITS)
        results = await asyncio.gather(*(execute(f"x = {n}\nadd(x, 1)") for n in range(8)))
        self.assertEqual([result["value"] for result in results], [str(n + 1) for n in range(8)])

    async def test_cancelled_task_ends_its_script(self) -> None:
        execute = code_execute_fn()
        await execute("1")
        task = asyncio.create_task(execute("import time\nprint('on')\nwhile True: time.sleep(0.01)"))
        await asyncio.sleep(0.3)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        self.assertEqual((await execute("2"))["value"], "2")

    async def test_texts_are_truncated(self) -> None:
        execute = code_execute_fn(max_characters=100, limits=LIMITS)
        text = (await execute("print('a' * 500 + 'b' * 500)"))["stdout"]
        self.assertLess(len(text), 200)
        self.assertRegex(text, r"^a+\n\[901 characters omitted\]\nb+\n$")

    def test_invalid_arguments_are_rejected(self) -> None:
        with self.assertRaisesRegex(TypeError, "an item of functions must be a function or a FunctionTool, not int"):
            code_execute_fn([1])
        with self.assertRaisesRegex(TypeError, "keep must be bool, not int"):
            code_execute_fn(keep=1)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
