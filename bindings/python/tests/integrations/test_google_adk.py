"""Tests the executor in a real `LlmAgent` with a scripted model."""

from __future__ import annotations

import base64
import logging
import unittest
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.google_adk import GloveboxCodeExecutor
from google.adk.agents import LlmAgent
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, File
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

logging.disable(logging.WARNING)
LIMITS = Limits(fuel=2_000_000_000)


class ScriptedLlm(BaseLlm):  # type: ignore[misc]
    """Returns one scripted answer after another."""

    says: list[str]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.says.pop(0))]))


class Agents(unittest.IsolatedAsyncioTestCase):
    async def results(self, executor: GloveboxCodeExecutor, *codes: str) -> tuple[list[tuple[str, str]], InMemoryRunner, str]:
        """Returns the outcome of each script with the message for the model, the runner, and the session's ID."""
        says = [*(f"```python\n{code}\n```" for code in codes), "done"]
        agent = LlmAgent(name="coder", model=ScriptedLlm(model="scripted", says=says), code_executor=executor)
        runner = InMemoryRunner(agent=agent, app_name="test")
        session = await runner.session_service.create_session(app_name="test", user_id="me")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        results = []
        async for event in runner.run_async(user_id="me", session_id=session.id, new_message=message):
            for part in event.content.parts if event.content else []:
                if part.code_execution_result:
                    results.append((part.code_execution_result.outcome.name, part.code_execution_result.output))
        return results, runner, session.id

    async def test_stateful_agent_keeps_variables_and_saves_files(self) -> None:
        executor = GloveboxCodeExecutor(stateful=True, limits=LIMITS)
        self.addCleanup(executor.close)
        results, runner, session = await self.results(
            executor, "x = 40\nprint('set')", "print(x + 2)\nopen('out.csv', 'w').write('a,b')"
        )
        self.assertEqual([outcome for outcome, _ in results], ["OUTCOME_OK", "OUTCOME_OK"])
        self.assertIn("set", results[0][1])
        self.assertIn("42", results[1][1])
        self.assertIn("out.csv", results[1][1])
        artifact = await runner.artifact_service.load_artifact(
            app_name="test", user_id="me", session_id=session, filename="out.csv"
        )
        self.assertEqual((artifact.inline_data.data, artifact.inline_data.mime_type), (b"a,b", "text/csv"))

    async def test_stateless_agent_keeps_nothing_and_reports_failures(self) -> None:
        results, _, _ = await self.results(
            GloveboxCodeExecutor(limits=LIMITS), "x = 1\nprint('x' in globals())", "print(x)", "print('after')"
        )
        self.assertEqual([outcome for outcome, _ in results], ["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_OK"])
        self.assertIn("NameError", results[1][1])


class Executors(unittest.TestCase):
    def run_code(self, executor: GloveboxCodeExecutor, code: str, user: str = "me", **given: Any) -> Any:
        context = SimpleNamespace(app_name="test", user_id=user)
        return executor.execute_code(context, CodeExecutionInput(code=code, **given))

    def test_has_the_executor_type_and_options(self) -> None:
        executor = GloveboxCodeExecutor(stateful=True, optimize_data_file=True, error_retry_attempts=5)
        self.assertIsInstance(executor, BaseCodeExecutor)
        self.assertEqual((executor.stateful, executor.optimize_data_file, executor.error_retry_attempts), (True, True, 5))

    def test_result_has_output_and_exit_code(self) -> None:
        executor = GloveboxCodeExecutor(limits=LIMITS)
        result = self.run_code(executor, "import sys\nprint('out')\nprint('warned', file=sys.stderr)")
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "", 0))
        result = self.run_code(executor, "print('out')\nimport sys; sys.exit(3)")
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "exited with 3", 3))
        result = self.run_code(executor, "while True: pass")
        self.assertIn("out of fuel", result.stderr)
        self.assertEqual(result.exit_code, 137)
        result = self.run_code(executor, "#" * 2_000_000)
        self.assertEqual((result.exit_code, result.stdout), (1, ""))
        self.assertIn("2000000", result.stderr)

    def test_files_are_passed_in_and_returned(self) -> None:
        files = [
            File("a.txt", base64.b64encode(b"text").decode(), "text/plain"),
            File("b.bin", b"\x00\xff", "application/octet-stream"),
        ]
        code = "print(open('a.txt').read(), open('b.bin', 'rb').read())\nopen('a.txt', 'a').write('!')\nopen('c.png', 'wb').write(b'p')"
        for stateful in (False, True):
            with self.subTest(stateful):
                executor = GloveboxCodeExecutor(stateful=stateful, limits=LIMITS)
                result = self.run_code(executor, code, input_files=files, execution_id="1")
                self.assertEqual(result.stdout, "text b'\\x00\\xff'\n")
                outputs = [(file.name, file.content, file.mime_type) for file in result.output_files]
                self.assertEqual(outputs, [("a.txt", b"text!", "text/plain"), ("c.png", b"p", "image/png")])
        result = self.run_code(executor, "1", input_files=[File("../a", b"")], execution_id="2")
        self.assertEqual(result.exit_code, 1)
        self.assertIn("../a", result.stderr)

    def test_each_conversation_has_its_own_session(self) -> None:
        executor = GloveboxCodeExecutor(stateful=True, limits=LIMITS)
        self.run_code(executor, "x = 1", execution_id="a")
        for user, id, expected in (("me", "a", "True"), ("me", "b", "False"), ("you", "a", "False"), ("me", None, "False")):
            with self.subTest(user=user, id=id):
                self.assertEqual(self.run_code(executor, "print('x' in globals())", user, execution_id=id).stdout, f"{expected}\n")
        executor.close()
        self.assertEqual(self.run_code(executor, "print('x' in globals())", execution_id="a").stdout, "False\n")

    def test_time_limit_ends_a_script(self) -> None:
        executor = GloveboxCodeExecutor(timeout_seconds=1)
        result = self.run_code(executor, "import time\ntime.sleep(30)")
        self.assertEqual(result.exit_code, 124)
        self.assertIn("out of time", result.stderr)


if __name__ == "__main__":
    unittest.main()
