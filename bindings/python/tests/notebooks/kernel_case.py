"""Installs the kernel for a test module, and runs cells in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

TIMEOUT = 60
"""Timeout of each answer, in seconds, long enough for slow machines."""

_directory: tempfile.TemporaryDirectory[str]
_before: str | None


def install(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "glovebox_sandbox.kernel", "install", "--prefix", _directory.name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1_800, check=False)


def setUpModule() -> None:
    global _directory, _before
    _directory = tempfile.TemporaryDirectory()
    _before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(Path(_directory.name, "share/jupyter"))
    for arguments in (
        ("--saves", str(Path(_directory.name, "saves"))),
        ("--language", "javascript"),
        ("--name", "short", "--timeout-ms", "500", "--display-name", "Short"),
    ):
        installed = install(*arguments)
        if installed.returncode:
            raise RuntimeError(installed.stderr)


def tearDownModule() -> None:
    _directory.cleanup()
    if _before is None:
        del os.environ["JUPYTER_PATH"]
    else:
        os.environ["JUPYTER_PATH"] = _before


class Ran:
    """The messages that a frontend receives for a cell."""

    def __init__(self) -> None:
        self.stdout = ""
        self.stderr = ""
        self.streams: list[float] = []
        self.result: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.kinds: list[str] = []
        self.reply: dict[str, Any] = {}

    @property
    def text(self) -> str | None:
        return None if self.result is None else self.result["data"]["text/plain"]


class KernelCase(unittest.TestCase):
    """A test case with a running kernel."""

    kernel_name = "glovebox-python"

    def setUp(self) -> None:
        self.manager: Any = KernelManager(kernel_name=self.kernel_name)
        self.manager.start_kernel()
        self.addCleanup(self.manager.shutdown_kernel, now=True)
        self.client: Any = self.manager.client()
        self.addCleanup(self.client.stop_channels)
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def collect(self, id: str) -> Ran:
        """Collects all messages for a request, until the kernel is idle again."""
        ran = Ran()
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            ran.kinds.append(kind)
            if kind == "stream":
                ran.streams.append(time.monotonic())
                setattr(ran, content["name"], getattr(ran, content["name"]) + content["text"])
            elif kind == "execute_result":
                ran.result = content
            elif kind == "error":
                ran.error = content
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"].get("msg_id") == id:
                ran.reply = reply["content"]
                return ran

    def cell(self, code: str, **options: Any) -> Ran:
        return self.collect(self.client.execute(code, **options))

    def value(self, code: str) -> str | None:
        ran = self.cell(code)
        self.assertIsNone(ran.error)
        return ran.text

    def ask(self, id: str) -> dict[str, Any]:
        """Returns the reply to a request that is not a cell."""
        return self.collect(id).reply

    def wait_for_output(self, id: str, text: str) -> None:
        """Waits until the output of a cell contains `text`."""
        written = ""
        while text not in written:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == id and message["msg_type"] == "stream":
                written += message["content"]["text"]
