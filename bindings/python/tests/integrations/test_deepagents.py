"""Tests the backend in a real deep agent with a scripted model."""

from __future__ import annotations

import asyncio
import base64
import os
import time
import unittest
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import FileDownloadResponse, FileUploadResponse
from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.deepagents import INSTRUCTIONS, GloveboxBackend
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage

LIMITS = Limits(fuel=2_000_000_000)


class ScriptedModel(FakeMessagesListChatModel):  # type: ignore[misc]
    """Returns one scripted answer after another."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


class Agents(unittest.TestCase):
    def test_agent_runs_commands_and_uses_files(self) -> None:
        backend = GloveboxBackend(limits=LIMITS)
        self.addCleanup(backend.close)
        calls = [
            ("write_file", {"file_path": "/app/a.py", "content": "print('one')\n"}),
            ("edit_file", {"file_path": "/app/a.py", "old_string": "one", "new_string": "two"}),
            ("execute", {"command": "python3 a.py"}),
            ("execute", {"command": "ls"}),
            ("grep", {"pattern": "two"}),
            ("execute", {"command": "python3 -c \"print('long ' * 40000)\""}),
        ]
        answers = [AIMessage("", tool_calls=[{"name": n, "args": a, "id": str(at)}]) for at, (n, a) in enumerate(calls)]
        agent = create_deep_agent(
            ScriptedModel(responses=[*answers, AIMessage("done")]),
            backend=CompositeBackend(default=backend, routes={}, artifacts_root="/app"),
            system_prompt=INSTRUCTIONS,
        )
        state = agent.invoke({"messages": [("user", "go")]})
        received = [str(each.content) for each in state["messages"] if isinstance(each, ToolMessage)]
        self.assertEqual(len(received), 6)
        self.assertTrue(received[2].startswith("two\n"), received[2])
        self.assertIn("no shell", received[3])
        self.assertIn("/app/a.py", received[4])
        self.assertIn("/app/large_tool_results/5", received[5])
        self.assertIn("long long", backend.read("/app/large_tool_results/5").file_data["content"])


class Backends(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.backend = GloveboxBackend(limits=LIMITS)
        self.addCleanup(self.backend.close)

    def test_commands(self) -> None:
        result = self.backend.execute("python3 -c 'import sys; print(1); sys.stderr.write(\"2\"); sys.exit(3)'")
        self.assertEqual((result.output, result.exit_code, result.truncated), ("1\n2", 3, False))
        result = self.backend.execute("python3 -c 'import time; time.sleep(30)'", timeout=1)
        self.assertEqual(result.exit_code, 124)
        self.assertEqual(self.backend.execute("python3 -c 'while True: pass'").exit_code, 137)
        self.assertEqual(self.backend.execute("ls").exit_code, 127)
        result = self.backend.execute("python3 -c \"print('x' * 3_000_000)\"")
        self.assertEqual((result.exit_code, result.truncated), (0, True))

    async def test_cancelled_task_ends_its_command(self) -> None:
        task = asyncio.create_task(self.backend.aexecute("python3 -c 'import time; time.sleep(30)'"))
        await asyncio.sleep(0.5)
        task.cancel()
        start = time.monotonic()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual((await self.backend.aexecute("python3 -c 'print(1)'")).output, "1\n")
        self.assertLess(time.monotonic() - start, 20)

    def test_read_and_edit(self) -> None:
        self.assertEqual(self.backend.write("/app/d/a.txt", "1\r\n2\r\n3\n").path, "/app/d/a.txt")
        read = self.backend.read("/app/d/a.txt", 1, 1)
        self.assertEqual((read.file_data["content"], read.total_lines, read.next_offset), ("2", 3, 2))
        pages = [self.backend.read("/app/d/a.txt", offset, 2).file_data["content"] for offset in (0, 2)]
        self.assertEqual(pages, ["1\n2", "3\n"])
        edited = self.backend.edit("/app/d/a.txt", "1\n2", "one\ntwo")
        self.assertEqual((edited.error, edited.occurrences), (None, 1))
        self.assertEqual(self.backend._workspace.read("/app/d/a.txt"), b"one\r\ntwo\r\n3\n")
        self.assertIn("not found", self.backend.edit("/app/d/a.txt", "four", "4").error)
        self.backend.write("/app/d/e.txt", "a\r\nb\r\na\r\nb\r\n")
        self.assertIn("multiple times (2)", self.backend.edit("/app/d/e.txt", "a\nb", "c").error)
        self.assertTrue(self.backend.edit("/app/d/e.txt", "", "c").error)
        self.assertEqual(self.backend.edit("/app/d/e.txt", "a\nb", "c", replace_all=True).occurrences, 2)
        self.assertEqual(self.backend._workspace.read("/app/d/e.txt"), b"c\r\nc\r\n")
        for operate in (self.backend.read, self.backend.delete, self.backend.ls, lambda path: self.backend.edit(path, "a", "b")):
            self.assertEqual(operate("/app/none").error, "File '/app/none' not found")
        self.backend.upload_files([("/app/b", b"\xff"), ("/app/c", b"\xff" * 512_001)])
        self.assertEqual(self.backend.read("/app/b").file_data, {"content": base64.b64encode(b"\xff").decode(), "encoding": "base64"})
        self.assertIn("512000", self.backend.read("/app/c").error)

    def test_search(self) -> None:
        for name in ("a.py", "d/b.py", "d/c.txt"):
            self.backend.write(f"/app/{name}", "x\nfind (me\n")
        self.backend.upload_files([("/app/d/e.py", b"\xfffind (me")])
        self.assertEqual(
            self.backend.grep("d (m", glob="*.py").matches,
            [{"path": f"/app/{name}", "line": 2, "text": "find (me"} for name in ("a.py", "d/b.py")],
        )
        self.assertEqual([each["path"] for each in self.backend.grep("find", "/app/d/c.txt").matches], ["/app/d/c.txt"])
        self.assertTrue(self.backend.grep("find", max_count=1).truncated)
        self.assertEqual(sorted(each["path"] for each in self.backend.glob("*.txt", "/app/").matches), ["/app/d/c.txt"])
        self.assertEqual([each["path"] for each in self.backend.glob("/*.py").matches], ["/app/a.py"])
        self.assertEqual([(each["path"], each["is_dir"], each["size"]) for each in self.backend.ls("/app").entries], [("/app/a.py", False, 11), ("/app/d", True, 0)])
        self.assertIn("not found", self.backend.grep("x", "/app/none").error)

    def test_transfer_errors_have_codes(self) -> None:
        self.backend.write("/app/d/a", "x")
        self.assertEqual(
            self.backend.download_files(["a", "/app/none", "/app/d", "/etc/passwd", "/app/d/a"]),
            [
                FileDownloadResponse("a", None, "invalid_path"),
                FileDownloadResponse("/app/none", None, "file_not_found"),
                FileDownloadResponse("/app/d", None, "is_directory"),
                FileDownloadResponse("/etc/passwd", None, "permission_denied"),
                FileDownloadResponse("/app/d/a", b"x", None),
            ],
        )
        self.assertEqual(self.backend.upload_files([("a", b"")]), [FileUploadResponse("a", "invalid_path")])

    def test_deleted_files_and_workspace(self) -> None:
        self.backend.write("/app/d/a", "x")
        os.symlink("/etc", os.path.join(self.backend._workspace.directory, "link"))
        self.assertEqual(self.backend.delete("/app/link").path, "/app/link")
        self.assertEqual(self.backend.delete("/app/d").path, "/app/d")
        self.assertEqual(self.backend.ls("/app").entries, [])
        self.assertIn("itself", self.backend.delete("/app").error)
        self.assertTrue(os.path.exists("/etc/passwd"))


if __name__ == "__main__":
    unittest.main()
