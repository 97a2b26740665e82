"""Tests the tool and the workspace in a real Pydantic AI agent whose model is a function."""

from __future__ import annotations

import asyncio
import os
import unittest
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.pydantic_ai import GloveboxWorkspace, run_code_tool
from pydantic_ai import Agent, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces import (
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    Workspace,
    WorkspaceBackend,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

LIMITS = Limits(fuel=2_000_000_000)


class Agents(unittest.TestCase):
    def ask(self, *codes: str, **options: Any) -> tuple[list[Any], Any]:
        """Returns the parts of the model's input, one for each script, and the tool's description."""
        left = list(codes)
        received: list[Any] = []
        known: list[Any] = []

        def model(messages: list[Any], info: Any) -> ModelResponse:
            known[:] = info.function_tools
            if len(left) < len(codes):
                received.extend(messages[-1].parts)
            if not left:
                return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(parts=[ToolCallPart(known[0].name, {"code": left.pop(0)})])

        agent = Agent(FunctionModel(model), tools=[run_code_tool(limits=LIMITS, **options)])
        self.assertEqual(agent.run_sync("go").output, "done")
        return received, known[0]

    def test_scripts_share_a_session(self) -> None:
        received, tool = self.ask("x = 40\nprint('set')", "x + 2", "y = 1")
        self.assertEqual([part.content for part in received], ["set", "42", "(no output)"])
        self.assertEqual((tool.name, list(tool.parameters_json_schema["properties"])), ("run_python", ["code"]))
        self.assertIn("persist between calls", tool.description)

    def test_stateless_scripts_share_nothing(self) -> None:
        received, tool = self.ask("x = 40", "'x' in globals()", keep=False, name="python", description="Runs it.")
        self.assertEqual([part.content for part in received], ["(no output)", "False"])
        self.assertEqual((tool.name, tool.description), ("python", "Runs it."))

    def test_repeated_failures_are_reported(self) -> None:
        received, _ = self.ask("print('before')\n1 / 0", "x = (", "while True: pass", "7")
        for part, text in zip(received, ["ZeroDivisionError", "never closed", "out of fuel"]):
            self.assertEqual(part.outcome, "failed")
            self.assertIn(text, part.content)
        self.assertTrue(received[0].content.startswith("before\n"))
        self.assertEqual((received[3].outcome, received[3].content), ("success", "7"))

    def test_sandbox_options_are_passed_on(self) -> None:
        def add(a: int, b: int) -> int:
            return a + b

        received, tool = self.ask("tools.add(a=1, b=2), open('f').read()", tools=[add], files={"f": "in"})
        self.assertEqual(received[0].content, "(3, 'in')")
        received, tool = self.ask("[1, 2].map(n => n * 2)", language="javascript")
        self.assertEqual((received[0].content, tool.name), ("[ 2, 4 ]", "run_javascript"))


class Tools(unittest.IsolatedAsyncioTestCase):
    async def test_stateless_scripts_run_concurrently(self) -> None:
        tool = run_code_tool(limits=LIMITS, keep=False)
        results = await asyncio.gather(*(tool.function(f"x = {n}\nx * 2") for n in range(8)))
        self.assertEqual(results, [str(n * 2) for n in range(8)])


class Workspaces(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.backend = GloveboxWorkspace(limits=LIMITS)
        self.addCleanup(self.backend.close)
        self.workspace = Workspace(self.backend)

    async def test_agent_uses_the_workspace(self) -> None:
        async def run(ctx: RunContext[None], command: str) -> str:
            result = await ctx.workspace.run(command, shell=True)
            return f"{result.exit_code} {result.stdout}{result.stderr}"

        run.__annotations__["ctx"] = RunContext[None]
        left = ["python3 -c \"open('a', 'w').write('one')\"", "python3 - <<EOF\nprint(open('a').read())\nEOF", "ls"]
        received: list[Any] = []

        def model(messages: list[Any], info: Any) -> ModelResponse:
            received.extend(part.content for part in messages[-1].parts if part.part_kind == "tool-return")
            return ModelResponse(parts=[ToolCallPart("run", {"command": left.pop(0)}) if left else TextPart("done")])

        await Agent(FunctionModel(model), tools=[run]).run("go", workspace=self.backend)
        self.assertEqual(received[:2], ["0 ", "0 one\n"])
        self.assertTrue(received[2].startswith("127 sh: ls: not found\nThe sandbox has no shell"), received[2])

    async def test_has_the_protocols_and_a_ref(self) -> None:
        for protocol in (WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
            self.assertIsInstance(self.backend, protocol)
        self.assertIsNone(self.backend.ref)
        self.assertEqual(await self.workspace.working_dir(), "/app")
        ref = self.backend.ref
        self.assertIsNotNone(ref)
        await asyncio.gather(*(self.workspace.exists(name) for name in ("a", "b")))
        self.assertEqual(self.backend.ref, ref)
        other = GloveboxWorkspace()
        self.addCleanup(other.close)
        await other.working_dir()
        self.assertNotEqual(other.ref, ref)

    async def test_closed_workspaces_are_unavailable(self) -> None:
        running = asyncio.create_task(self.backend.run(["python3", "-c", "import time; time.sleep(1)"]))
        await asyncio.sleep(0.3)
        self.backend.close()
        with self.assertRaises(WorkspaceUnavailableError):
            await running
        for operation in (
            self.backend.working_dir(),
            self.backend.run(["python3", "-c", "1"]),
            self.backend.read_bytes("a"),
            self.backend.write_bytes("a", b""),
            self.backend.exists("a"),
        ):
            with self.assertRaisesRegex(WorkspaceUnavailableError, "was closed"):
                await operation

    async def test_commands_have_arguments_and_environment(self) -> None:
        code = "import os, sys\nprint(sys.argv[1:], os.environ['A'], repr(sys.stdin.read()))\nsys.exit(3)"
        result = await self.workspace.run(["python3", "-c", code, "a b", "| $c"], env={"A": "1"})
        self.assertEqual((result.exit_code, result.stdout, result.stderr), (3, "['a b', '| $c'] 1 ''\n", ""))
        result = await self.workspace.run(["sh", "-c", "python3 -c 'print(1)'"])
        self.assertEqual((result.exit_code, result.stdout), (0, "1\n"))
        for command, shell in (("python3", False), (["python3"], True)):
            with self.assertRaises(TypeError):
                await self.backend.run(command, shell=shell)

    async def test_incomplete_commands_raise(self) -> None:
        with self.assertRaises(WorkspaceTimeoutError) as timeout:
            await self.workspace.run(["python3", "-c", "print(1, flush=True)\nimport time\ntime.sleep(30)"], timeout=0.5)
        self.assertEqual(timeout.exception.stdout, "1\n")
        with self.assertRaises(WorkspaceOutputLimitError) as limit:
            await self.workspace.run(["python3", "-c", "print('x' * 3_000_000)"])
        self.assertEqual((limit.exception.limit, len(limit.exception.stdout)), (2_000_000, 2_000_000))

    async def test_files(self) -> None:
        await self.workspace.write_bytes("d/a", b"\xff")
        await self.workspace.make_dir("d/e/f")
        self.assertEqual(await self.workspace.read_bytes("/app/d/a"), b"\xff")
        self.assertEqual(await self.workspace.stat("d"), FileEntry(name="d", path="/app/d", is_dir=True, size=None))
        self.assertEqual(
            await self.workspace.list_dir("d"),
            [FileEntry(name="a", path="/app/d/a", is_dir=False, size=1), FileEntry(name="e", path="/app/d/e", is_dir=True, size=None)],
        )
        os.symlink("d/a", os.path.join(self.backend._workspace.directory, "link"))
        self.assertEqual(await self.workspace.realpath("link"), "/app/d/a")
        await self.workspace.write_bytes("link", b"new")
        self.assertEqual(await self.workspace.read_bytes("d/a"), b"new")
        await self.workspace.remove("d")
        self.assertFalse(await self.workspace.exists("d"))
        self.assertFalse(await self.workspace.exists("/etc"))
        for path in (".", "/app", "/"):
            with self.assertRaises(ValueError):
                await self.workspace.remove(path)

    async def test_file_errors_have_types(self) -> None:
        await self.workspace.write_bytes("d/a", b"")
        for error, operation in (
            (FileNotFoundError, self.workspace.read_bytes("none")),
            (IsADirectoryError, self.workspace.read_bytes("d")),
            (IsADirectoryError, self.workspace.write_bytes("d", b"")),
            (NotADirectoryError, self.workspace.write_bytes("d/a/b", b"")),
            (NotADirectoryError, self.workspace.list_dir("d/a")),
            (FileExistsError, self.workspace.make_dir("d/a")),
            (PermissionError, self.workspace.read_bytes("/etc/passwd")),
        ):
            with self.assertRaises(error):
                await operation


if __name__ == "__main__":
    unittest.main()
