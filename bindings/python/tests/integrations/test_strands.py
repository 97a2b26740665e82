"""Tests the sandbox in a real Strands agent with a scripted model."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import unittest
from collections.abc import AsyncGenerator
from typing import Any

from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.strands import GloveboxSandbox
from strands import Agent
from strands.models import Model
from strands.sandbox import FileInfo, StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError

logging.disable(logging.WARNING)
LIMITS = Limits(fuel=2_000_000_000)


class ScriptedModel(Model):  # type: ignore[misc]
    """Calls one tool after another, and records the results."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = list(calls)
        self.received: list[Any] = []

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> Any: ...

    def structured_output(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError("the tests have no structured output")

    async def stream(self, messages: Any, tool_specs: Any = None, *more: Any, **named: Any) -> AsyncGenerator[Any, None]:
        self.tools = [each["name"] for each in tool_specs]
        self.received += [each["toolResult"] for each in messages[-1]["content"] if "toolResult" in each]
        yield {"messageStart": {"role": "assistant"}}
        reason = "tool_use" if self.calls else "end_turn"
        if self.calls:
            name, given = self.calls.pop(0)
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"t{len(self.calls)}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}


class Agents(unittest.TestCase):
    def test_agent_runs_code_and_edits_files(self) -> None:
        sandbox = GloveboxSandbox(limits=LIMITS)
        self.addCleanup(sandbox.close)
        model = ScriptedModel(
            ("python_repl", {"code": "open('a.txt', 'w').write('one')\nprint(6 * 7)"}),
            ("file_editor", {"command": "str_replace", "path": "/app/a.txt", "old_str": "one", "new_str": "two"}),
            ("python_repl", {"code": "print(open('a.txt').read())\n1 / 0"}),
        )
        Agent(model=model, sandbox=sandbox, callback_handler=None)("go")
        self.assertEqual(set(model.tools), {"python_repl", "file_editor"})
        self.assertEqual([each["status"] for each in model.received], ["success"] * 3)
        first, last = (json.loads(model.received[at]["content"][0]["text"]) for at in (0, 2))
        self.assertEqual(first, {"output": "42\n", "error": "", "exit_code": 0})
        self.assertEqual((last["output"], last["exit_code"]), ("two\n", 1))
        self.assertIn("ZeroDivisionError", last["error"])


class Sandboxes(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.sandbox = GloveboxSandbox(limits=LIMITS, env={"A": "a", "B": "b"})
        self.addCleanup(self.sandbox.close)

    async def test_code_has_environment_directory_and_output(self) -> None:
        await self.sandbox.write_text("sub/module.py", "value = 7")
        code = "import os, sys\nprint(os.environ['A'], os.environ['B'], os.getcwd())\nprint('warned', file=sys.stderr)\nsys.exit(3)"
        chunks = [each async for each in self.sandbox.execute_code_streaming(code, "python3", env={"B": "c"}, cwd="/app/sub")]
        self.assertEqual(chunks[:2], [StreamChunk("a c /app/sub\n", "stdout"), StreamChunk("warned\n", "stderr")])
        self.assertEqual((chunks[2].exit_code, chunks[2].stdout, chunks[2].stderr), (3, "a c /app/sub\n", "warned\n"))
        result = await self.sandbox.execute_code("print('x' in globals())\nx = 1", "python")
        self.assertEqual(result.stdout, "False\n")

    async def test_other_languages_are_refused(self) -> None:
        result = await self.sandbox.execute_code("1", "node")
        self.assertEqual((result.exit_code, result.stdout), (127, ""))
        self.assertIn("python3", result.stderr)
        with self.assertRaisesRegex(ValueError, "invalid characters"):
            await self.sandbox.execute_code("1", "../../bin/sh")

    async def test_commands_start_python(self) -> None:
        await self.sandbox.write_text("sub/main.py", "import sys, other\nprint(sys.argv, __file__, other.x)")
        await self.sandbox.write_text("sub/other.py", "x = 5")
        for command, expected in (
            ("python3 -c 'import sys; print(sys.argv[1:])' 'a b' c", "['a b', 'c']\n"),
            ("python3 sub/main.py 1", "['/app/sub/main.py', '1'] /app/sub/main.py 5\n"),
            ("cd sub && python main.py", "['/app/sub/main.py'] /app/sub/main.py 5\n"),
            ("cd /app/sub || exit\npython3 -m other", ""),
            ("python3 - 1 <<'EOF'\nimport sys\nprint(sys.argv[1:])\nEOF", "['1']\n"),
            ("python3 -c 'print(input())' <<EOF\nline\nEOF\n", "line\n"),
            ("/usr/bin/python3.15 -c 'print(1)'", "1\n"),
        ):
            with self.subTest(command):
                result = await self.sandbox.execute(command)
                self.assertEqual((result.exit_code, result.stdout, result.stderr), (0, expected, ""))

    async def test_other_commands_are_refused(self) -> None:
        for command in ("ls", "python3 -c 1 | cat", "python3 -c 1 > f", "python3 -c 1; ls", "", "python3 -c", "'"):
            with self.subTest(command):
                result = await self.sandbox.execute(command)
                self.assertEqual((result.exit_code, result.stdout), (127, ""))
                self.assertIn("no shell", result.stderr)
        for command in ("python3 missing.py", "python3 ../x.py", "cd /etc && python3 -c 1"):
            with self.subTest(command):
                self.assertEqual((await self.sandbox.execute(command)).exit_code, 2)
        self.assertEqual(await self.sandbox.list_files("/app"), [])

    async def test_files(self) -> None:
        await self.sandbox.write_file("/app/a/b.bin", b"\x00\xff")
        await self.sandbox.write_text("c*.txt", "c")
        self.assertEqual(await self.sandbox.read_file("a/b.bin"), b"\x00\xff")
        self.assertEqual(await self.sandbox.list_files("."), [FileInfo("a", True, None), FileInfo("c*.txt", False, 1)])
        await self.sandbox.remove_file("c*.txt")
        self.assertEqual([each.name for each in await self.sandbox.list_files("/app")], ["a"])
        for path in ("none", "a/b.bin"):
            with self.assertRaises(SandboxPathNotFoundError):
                await self.sandbox.list_files(path)
        with self.assertRaises(FileNotFoundError):
            await self.sandbox.read_file("none")
        with self.assertRaises(IsADirectoryError):
            await self.sandbox.remove_file("a")

    async def test_paths_do_not_leave_the_workspace(self) -> None:
        for path in ("/etc/passwd", "../x", "/app/../etc", "/tmp/x"):
            with self.subTest(path):
                with self.assertRaises(PermissionError):
                    await self.sandbox.read_file(path)
                with self.assertRaises(PermissionError):
                    await self.sandbox.write_file(path, b"")
        os.symlink("/etc", os.path.join(self.sandbox._workspace.directory, "link"))
        with self.assertRaises(OSError):
            await self.sandbox.read_file("link/passwd")
        with self.assertRaises(OSError):
            await self.sandbox.write_file("link/glovebox", b"")

    async def test_timeout_and_limits_end_a_script(self) -> None:
        with self.assertRaises(SandboxTimeoutError) as caught:
            await self.sandbox.execute_code("print('before', flush=True)\nimport time\ntime.sleep(30)", "python3", timeout=0.5)
        self.assertEqual(caught.exception.stdout, "before\n")
        result = await self.sandbox.execute_code("while True: pass", "python3")
        self.assertEqual(result.exit_code, 137)
        self.assertIn("out of fuel", result.stderr)
        result = await self.sandbox.execute_code("#" * 2_000_000, "python3")
        self.assertEqual(result.exit_code, 1)
        self.assertIn("2000000", result.stderr)

    async def test_cancelled_task_ends_its_script(self) -> None:
        task = asyncio.create_task(self.sandbox.execute_code("import time\ntime.sleep(30)", "python3"))
        await asyncio.sleep(0.5)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual((await self.sandbox.execute_code("print(1)", "python3")).stdout, "1\n")

    def test_options_are_checked(self) -> None:
        for options, expected in (({"limits": 3}, "limits must be Limits"), ({"files": {}}, "files is not supported"), ({"surprise": 1}, "surprise")):
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                GloveboxSandbox(**options)


if __name__ == "__main__":
    unittest.main()
