"""Kills `glovebox mcp` with SIGKILL while a script waits for an approval, and while the server makes the approved call.
Another server with the same store and key continues the script, and no call is made twice."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

GLOVEBOX = os.environ["GLOVEBOX"]
APPROVE = {"call-0": {"action": "accept", "content": {"approve": True}}}
VERSION = "2026-07-28"
# The tool takes longer than a server needs to begin the call, so some kills happen during the call.
TOOL = "sh -c 'echo called >>{calls}; sleep 0.3; echo 20'"


class Server:
    """A server with the tool `pay`, which records its calls in a file."""

    def __init__(self, directory):
        self.calls = directory / "calls"
        command = [GLOVEBOX, "mcp", "--listen", "127.0.0.1:0", "--store", directory / "store", "--key-file", directory / "key"]
        command += ["--tool", f"pay={TOOL.format(calls=self.calls)}", "--approve", "pay"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+/mcp", self.process.stderr.readline()).group()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def call(self, tool, arguments, **more):
        """Calls a tool, without answering the server's questions. Returns the result."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta, **more}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        with urllib.request.urlopen(urllib.request.Request(self.url, body, headers), timeout=60) as response:
            text = response.read().decode()
        # The answer is the last event, or the whole body.
        return json.loads(re.findall(r"^(?:data: ?)?(\{.*\})$", text, re.MULTILINE)[-1])["result"]

    def count(self):
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


def text(result):
    return "".join(block.get("text", "") for block in result["content"])


def begin(server, is_in_session):
    """Starts a script that waits for an approval. Returns the arguments of the call, and the state."""
    arguments = {"language": "python", "code": "x = tools.pay()\nprint('paid', x)"}
    if is_in_session:
        arguments["session"] = server.call("session_open", {"language": "python"})["structuredContent"]["session"]
    asked = server.call("run_code", arguments)
    assert asked["resultType"] == "input_required" and list(asked["inputRequests"]) == ["call-0"], asked
    return arguments, {"requestState": asked["requestState"], "inputResponses": APPROVE}


def killed_while_waiting(directory, is_in_session):
    with Server(directory) as server:
        arguments, answer = begin(server, is_in_session)
    with Server(directory) as server:
        result = server.call("run_code", arguments, **answer)
        assert text(result) == "paid 20\n" and server.count() == 1, (result, server.count())
        if is_in_session:
            again = server.call("run_code", arguments, **answer)
            assert again["isError"] and "has changed the session" in text(again) and server.count() == 1, again
            later = server.call("run_code", {**arguments, "code": "print(x)"})
            assert text(later) == "20\n", later


def killed_while_calling(directory, delay):
    """Sends the approval, kills the server after a delay, and sends the approval again. Returns `True` if the server made
    the call before it was killed."""
    with Server(directory) as server:
        arguments, answer = begin(server, True)
        before = server.count()

        def send():
            with contextlib.suppress(Exception):
                server.call("run_code", arguments, **answer)

        sending = threading.Thread(target=send)
        sending.start()
        time.sleep(delay)
        server.kill()
        sending.join()
        was_called = server.count() > before
    with Server(directory) as server:
        result = server.call("run_code", arguments, **answer)
        count = server.count() - before
        if result.get("isError"):
            assert "has changed the session" in text(result) and count <= 1, (result, count)
        else:
            assert text(result) == "paid 20\n" and count == 1 and not was_called, (result, count)
    return was_called


with tempfile.TemporaryDirectory() as name:
    directory = Path(name)
    (directory / "key").write_text("7" * 64)
    (directory / "key").chmod(0o600)
    for is_in_session in (False, True):
        killed_while_waiting(directory, is_in_session)
        (directory / "calls").unlink()
    delay, calls = 0.0, []
    while sum(calls) < 4:
        calls.append(killed_while_calling(directory, delay))
        delay = max(0.01, delay * 1.6)
        assert delay < 30, "the call is never made"
    assert not calls[0], "no server was killed before the call"
    print("python, killed servers: passed")
