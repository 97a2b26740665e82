"""Tests the sandbox client in a real OpenAI Agents SDK sandbox agent with a scripted model."""

from __future__ import annotations

import io
import json
import logging
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from agents import Model, ModelResponse, RunConfig, Runner, Usage, UserError, set_tracing_disabled
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import Dir, File
from agents.sandbox.errors import (
    ExecTimeoutError,
    InvalidManifestPathError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from glovebox_sandbox import Limits
from glovebox_sandbox.integrations.openai_sandbox import INSTRUCTIONS, GloveboxSandboxClient
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_custom_tool_call import ResponseCustomToolCall

set_tracing_disabled(True)
logging.disable(logging.WARNING)
LIMITS = Limits(fuel=2_000_000_000)
MANIFEST = Manifest(entries={"in": Dir(children={"a.txt": File(content=b"one\n")})})


class ScriptedModel(Model):  # type: ignore[misc]
    """Calls one tool after another, and records the results."""

    def __init__(self, *calls: Any) -> None:
        self.calls = list(calls)
        self.received: list[str] = []

    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **named: Any) -> Any:
        self.received = [str(each["output"]) for each in input if each.get("type", "").endswith("_call_output")]
        if self.calls:
            return ModelResponse(output=[self.calls.pop(0)], usage=Usage(), response_id=None)
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError("the tests do not stream")


def shell(command: str, **options: Any) -> Any:
    arguments = json.dumps({"cmd": command, **options})
    return ResponseFunctionToolCall(call_id=command, name="exec_command", arguments=arguments, type="function_call")


class Agents(unittest.IsolatedAsyncioTestCase):
    async def test_agent_runs_commands_and_patches_files(self) -> None:
        patch = "*** Begin Patch\n*** Update File: in/a.txt\n*** Move to: b.txt\n@@\n-one\n+two\n*** Add File: c/d.py\n+print('added')\n*** End Patch\n"
        model = ScriptedModel(
            shell("python3 -c \"print(open('in/a.txt').read())\""),
            ResponseCustomToolCall(call_id="patch", name="apply_patch", input=patch, type="custom_tool_call"),
            shell("python3 -c \"import os; print(open('b.txt').read(), os.listdir('in'))\""),
            shell("python3 d.py", workdir="c"),
            shell("ls"),
        )
        agent = SandboxAgent(
            name="coder", model=model, instructions=INSTRUCTIONS, default_manifest=MANIFEST, capabilities=[Filesystem(), Shell()]
        )
        config = RunConfig(sandbox=SandboxRunConfig(client=GloveboxSandboxClient(limits=LIMITS)))
        self.assertEqual((await Runner.run(agent, "go", run_config=config)).final_output, "done")
        for received, expected in zip(model.received, ["one\n", "", "two\n []", "added\n", "no shell"], strict=True):
            self.assertIn(expected, received)


class Sessions(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = GloveboxSandboxClient(limits=LIMITS, env={"A": "a"})
        self.session = await self.client.create(manifest=MANIFEST)
        await self.session.start()

    async def asyncTearDown(self) -> None:
        await self.session.aclose()
        await self.client.delete(self.session)

    async def test_commands(self) -> None:
        result = await self.session.exec("python3 -c \"import os, sys; print(os.environ['A'], os.getcwd()); sys.exit(3)\"")
        self.assertEqual((result.stdout, result.stderr, result.exit_code), (b"a /app\n", b"", 3))
        result = await self.session.exec("python3", "-c", "import sys; print(sys.argv[1:])", "a b", shell=False)
        self.assertEqual(result.stdout, b"['a b']\n")
        with self.assertRaises(ExecTimeoutError):
            await self.session.exec("python3 -c 'import time; time.sleep(30)'", timeout=0.5)
        self.assertEqual((await self.session.exec("python3 -c 1", user="me")).exit_code, 127)

    async def test_files(self) -> None:
        await self.session.write(Path("d/x"), io.BytesIO(b"\xff"))
        self.assertEqual((await self.session.read(Path("/app/d/x"))).read(), b"\xff")
        self.assertEqual([(each.path, each.is_dir(), each.size) for each in await self.session.ls("/app")], [("/app/d", True, 0), ("/app/in", True, 0)])
        await self.session.mv("d/x", "d/y")
        self.assertTrue(await self.session.same_file("d/y", "/app/in/../d/y"))
        self.assertFalse(await self.session.same_file("d/y", "in/a.txt"))
        self.assertFalse(await self.session.same_file("d/y", "d/x"))
        os.symlink("y", os.path.join(self.client._workspaces[self.session.state.session_id].directory, "d/link"))
        self.assertTrue(await self.session.same_file("d/y", "d/link"))
        self.assertFalse(await self.session.same_file("d/y", "d/link", follow_symlinks=False))
        os.symlink("../in", os.path.join(self.client._workspaces[self.session.state.session_id].directory, "d/to"))
        self.assertFalse(await self.session.same_file("d/to", "d/to", follow_symlinks=False))
        await self.session.rm("d/to")
        self.assertTrue(await self.session.same_file("in/a.txt", "/app/in/a.txt", follow_symlinks=False))
        await self.session.mkdir("e/f", parents=True)
        for _ in range(2):
            await self.session.rm("e", recursive=True)
        with self.assertRaises(WorkspaceReadNotFoundError):
            await self.session.read(Path("d/x"))
        with self.assertRaises(WorkspaceArchiveReadError):
            await self.session.read(Path("d"))
        for refused in (self.session.rm("d"), self.session.mv("d", "e"), self.session.mkdir("none/f"), self.session.write(Path("in"), io.BytesIO())):
            with self.assertRaises(WorkspaceArchiveWriteError):
                await refused
        for path in ("/etc/passwd", "../x"):
            with self.assertRaises(InvalidManifestPathError):
                await self.session.read(Path(path))
        with self.assertRaisesRegex(ValueError, "no users"):
            await self.session.read(Path("d/y"), user="me")

    async def test_session_is_resumed_with_its_files(self) -> None:
        await self.session.write(Path("x"), io.BytesIO(b"kept"))
        state = self.client.deserialize_session_state(self.client.serialize_session_state(self.session.state))
        async with await self.client.resume(state) as resumed:
            self.assertEqual((await resumed.read(Path("x"))).read(), b"kept")

    async def test_other_client_resumes_a_session_from_its_snapshot(self) -> None:
        with tempfile.TemporaryDirectory() as snapshots:
            session = await self.client.create(manifest=MANIFEST, snapshot=LocalSnapshotSpec(base_path=Path(snapshots)))
            async with session:
                await session.write(Path("d/x"), io.BytesIO(b"kept"))
                await session.rm("in/a.txt")
            payload = self.client.serialize_session_state(session.state)
            await self.client.delete(session)
            other = GloveboxSandboxClient(limits=LIMITS)
            async with await other.resume(other.deserialize_session_state(payload)) as resumed:
                self.assertEqual((await resumed.read(Path("d/x"))).read(), b"kept")
                self.assertEqual(await resumed.ls("in"), [])
            await other.delete(resumed)

    async def test_deleted_session_has_no_directory(self) -> None:
        session = await self.client.create()
        directory = self.client._workspaces[session.state.session_id].directory
        self.assertTrue(os.path.isdir(directory))
        await self.client.delete(session)
        self.assertFalse(os.path.exists(directory))

    async def test_working_directory_of_a_run(self) -> None:
        for cwd in ("in", "none"):
            model = ScriptedModel(shell("python3 -c \"print(open('a.txt').read())\""))
            agent = SandboxAgent(name="coder", model=model, default_manifest=MANIFEST, capabilities=[Shell()])
            run = Runner.run(agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=self.client, cwd=cwd)))
            if cwd == "none":
                with self.assertRaisesRegex(UserError, "does not exist"):
                    await run
            else:
                await run
                self.assertIn("one\n", model.received[0])

    def test_options_are_checked(self) -> None:
        with self.assertRaisesRegex(TypeError, "limits must be Limits"):
            GloveboxSandboxClient(limits=3)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
