"""A contestant's process, from this side."""

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

# A driver ends its child processes when its input ends.
CLOSING_SECONDS = 10


class Failed(Exception):
    """A measure has no figure: the driver ended, or took too long, or said what went wrong."""


class Driver:
    """A process that answers requests as drivers/serve.py says. Its standard error goes to a file."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self.begun = time.perf_counter()
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=cwd, start_new_session=True
            )
        # A queue supports a timeout for reads, unlike a pipe.
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def ask(self, measure: Measure, language: Language, budget_ms: float, timeout_s: float) -> dict[str, Any]:
        """What `turn` in drivers/serve.py makes: `ms` and `answers`."""
        request = {
            "do": "fresh" if measure.do == "process" else measure.do,
            "code": measure.code.in_language(language),
            "setup": measure.setup.in_language(language),
            "budget_ms": budget_ms,
        }
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=timeout_s)
        except queue.Empty:
            self.kill()
            raise Failed(f"time-out: no answer within {timeout_s:g} s") from None
        except OSError:
            line = None
        if line is None:
            self.wait()
            self.kill()
            raise Failed(f"its process ended with {self.process.returncode}; {self.log} has what it said")
        result: dict[str, Any] = json.loads(line)
        if "error" in result:
            raise Failed(str(result["error"]).strip().splitlines()[0][:200])
        return result

    def alive(self) -> bool:
        """Whether it runs. It is not reaped here: until then its number, which is its group's, belongs to no other process."""
        if self.process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def wait(self) -> None:
        """Gives it a moment to end by itself."""
        until = time.monotonic() + CLOSING_SECONDS
        while self.alive() and time.monotonic() < until:
            time.sleep(0.005)

    def kill(self) -> None:
        """Ends the process and those that it started."""
        if self.process.returncode is None:
            # macOS refuses the signal if all processes of the group have ended.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """Lets the process end by itself, so that it ends what it has started."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.wait()
        self.kill()
