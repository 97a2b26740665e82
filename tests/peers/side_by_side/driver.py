"""The process of a contestant, seen from the test."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .measures import Language, Measure

# Timeout for a driver to end its child processes after its input has ended.
CLOSING_SECONDS = 10


class Failed(Exception):
    """A measure failed: the driver ended, took too long, or reported an error."""


class Driver:
    """A process that answers requests in the format of drivers/serve.py. Its standard error goes to a file."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self.begun = time.perf_counter()
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=cwd, start_new_session=True
            )
        # A queue supports reads with a timeout, unlike a pipe.
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def ask(self, measure: Measure, language: Language, budget_ms: float, timeout_s: float) -> dict[str, Any]:
        """Sends a request, and returns the result of `turn` in drivers/serve.py: `ms` and `answers`, and `bytes` for
        `suspend`."""
        request = {
            "do": "fresh" if measure.do == "process" else measure.do,
            "code": measure.code.in_language(language),
            "setup": measure.setup.in_language(language),
            "commands": [each.in_language(language) for each in measure.commands],
            "calls": measure.calls,
            "budget_ms": budget_ms,
        }
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=timeout_s)
        except queue.Empty:
            self.kill()
            raise Failed(f"timeout: no answer within {timeout_s:g} s") from None
        except OSError:
            line = None
        if line is None:
            self.wait()
            self.kill()
            raise Failed(f"the process exited with {self.process.returncode}; see {self.log}")
        result: dict[str, Any] = json.loads(line)
        if "error" in result:
            raise Failed(str(result["error"]).strip().splitlines()[0][:200])
        return result

    def alive(self) -> bool:
        """Returns `True` if the process is running. Does not reap the process, because its ID is also the group's ID
        and must not be reused."""
        if self.process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def wait(self) -> None:
        """Waits until the process ends by itself, up to `CLOSING_SECONDS`."""
        until = time.monotonic() + CLOSING_SECONDS
        while self.alive() and time.monotonic() < until:
            time.sleep(0.005)

    def kill(self) -> None:
        """Kills the process and its children."""
        if self.process.returncode is None:
            # macOS rejects the signal if all processes in the group have ended.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """Closes the standard input, so that the process and its children end. Kills them if they do not end."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.wait()
        self.kill()
