"""Tests `glovebox mcp` with the official client in Python, which validates every structured answer against the tool's
output schema."""

import asyncio
import os
import re
import time

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ElicitResult

GLOVEBOX = os.environ["GLOVEBOX"]
TOOLS = [
    "run_code", "session_open", "session_list", "session_fork", "session_undo", "session_close",
    "files_list", "files_read", "files_write",
]  # fmt: skip
TOKEN = "a token for the official clients"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def use(client):
    """Makes the calls of a typical model."""
    assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
    updates = []

    async def progress(done, total, message):
        updates.append((done, total, message))

    code = "import time\nprint('step')\ntime.sleep(0.7)\nprint('done')"
    arguments = {"language": "python", "code": code}
    result = await client.call_tool("run_code", arguments, progress_callback=progress)
    assert not result.is_error and text(result) == "step\ndone\n", result
    assert updates and updates[-1][2].endswith(": step"), updates

    failed = await client.call_tool("run_code", {"language": "javascript", "code": "throw new TypeError('why')"})
    assert failed.is_error and failed.structured_content["outcome"] == "raised" and "TypeError: why" in text(failed), failed
    wrong = await client.call_tool("run_code", {"language": "python", "code": "1", "timeout": 5})
    assert wrong.is_error and "unknown field `timeout`" in text(wrong), wrong

    session = (await client.call_tool("session_open", {"language": "python"})).structured_content["session"]
    code = f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{PNG}')\nx = 6\ndisplay(P())\nprint('y' * 9000)\nx"
    shown = await client.call_tool("run_code", {"language": "python", "code": code, "session": session})
    kinds = [block.type for block in shown.content]
    assert "image" in kinds and "resource_link" in kinds and shown.structured_content["value"] == "6", kinds
    assert PNG not in str(shown.structured_content)
    link = next(block for block in shown.content if block.type == "resource_link")
    assert (await client.read_resource(str(link.uri))).contents[0].text == "y" * 9000 + "\n"
    await client.call_tool("files_write", {"session": session, "path": "a/b.txt", "text": "é"})
    read = await client.call_tool("files_read", {"session": session, "path": "a/b.txt"})
    assert (await client.read_resource(read.structured_content["uri"])).contents[0].text == "é"
    listed = await client.call_tool("files_list", {"session": session})
    assert [file["path"] for file in listed.structured_content["files"]] == ["a", "a/b.txt"], listed
    fork = (await client.call_tool("session_fork", {"session": session})).structured_content["session"]
    for each in (session, fork):
        await client.call_tool("session_undo", {"session": each})
    sessions = (await client.call_tool("session_list", {})).structured_content["sessions"]
    assert {each["session"] for each in sessions} == {session, fork}, sessions

    # An abandoned call does not block the session for its full duration.
    begun = time.monotonic()
    arguments = {"language": "python", "code": "import time; time.sleep(9)", "session": fork}
    call = asyncio.create_task(client.call_tool("run_code", arguments))
    await asyncio.sleep(0.5)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    after = await client.call_tool("run_code", {"language": "python", "code": "1 + 1", "session": fork})
    assert after.structured_content["value"] == "2" and time.monotonic() - begun < 6, (after, time.monotonic() - begun)
    for each in (session, fork):
        await client.call_tool("session_close", {"session": each})


async def over_stdio(mode, versions):
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("GLOVEBOX_", "XDG_"))}
    parameters = StdioServerParameters(command=GLOVEBOX, args=["mcp"], env=environment)
    async with Client(parameters, mode=mode) as client:
        assert client.protocol_version in versions, client.protocol_version
        await use(client)


async def approve(mode, versions):
    """Approves a script's first call to a tool, and denies its second one, in a new interpreter and in a session."""
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("GLOVEBOX_", "XDG_"))}
    questions = []

    async def answer(_context, params):
        questions.append(params.message)
        content = {"approve": True} if len(questions) % 2 else {"approve": False, "reason": "too expensive"}
        return ElicitResult(action="accept", content=content)

    arguments = ["mcp", "--tool", "pay=cat", "--approve", "pay"]
    parameters = StdioServerParameters(command=GLOVEBOX, args=arguments, env=environment)
    async with Client(parameters, mode=mode, elicitation_callback=answer) as client:
        assert client.protocol_version in versions, client.protocol_version
        code = (
            "print(tools.pay(euros=20))\n"
            "try: tools.pay(euros=30)\n"
            "except tools.ToolError as error: print(type(error).__name__, error)"
        )
        session = (await client.call_tool("session_open", {"language": "python"})).structured_content["session"]
        for where in ({}, {"session": session}):
            questions.clear()
            result = await client.call_tool("run_code", {"language": "python", "code": code, **where})
            assert text(result) == "{'euros': 20}\nToolDenied too expensive\n", result
            question = "A script wants to call the tool `pay` with these arguments: "
            assert questions == [question + '{"euros":20}', question + '{"euros":30}'], questions
        await client.call_tool("session_close", {"session": session})


async def over_http(mode, versions, address, token):
    headers = {"Authorization": f"Bearer {token}"} if token else None
    transport = streamable_http_client(f"http://{address}/mcp", http_client=create_mcp_http_client(headers=headers))
    async with Client(transport, mode=mode) as client:
        assert client.protocol_version in versions, client.protocol_version
        await use(client)


async def main():
    modes = [("auto", ["2026-07-28"]), ("legacy", ["2025-11-25", "2025-06-18"])]
    for mode, versions in modes:
        await over_stdio(mode, versions)
        await approve(mode, versions)
        print(f"python, stdio, {mode}: passed")
    for token in (None, TOKEN):
        environment = dict(os.environ, **({"GLOVEBOX_TOKEN": token} if token else {}))
        command = [GLOVEBOX, "mcp", "--listen", "127.0.0.1:0"]
        server = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)
        try:
            line = (await server.stderr.readline()).decode()
            address = re.search(r"http://(\S+)/mcp", line).group(1)
            for mode, versions in modes:
                await over_http(mode, versions, address, token)
                print(f"python, HTTP{' with a token' if token else ''}, {mode}: passed")
        finally:
            begun = time.monotonic()
            server.terminate()
            assert await server.wait() == 0 and time.monotonic() - begun < 8


asyncio.run(main())
