"""A program of the fleet on its host: start, kill, freeze and resume."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from proof.network import Host

# Niceness of the most important processes; the range is -20 to 19.
NICE = -10


class Process:
    """A program. `comes_first` gives it a higher priority, because in production it does not share a machine with the
    rest of the fleet."""

    def __init__(self, name: str, host: Host, command: list[str], log: Path, environment: dict[str, str] | None = None, *, comes_first: bool = True) -> None:
        self.name = name
        self.host = host
        self._command = command
        self._log = log
        self._environment = environment or {}
        self._comes_first = comes_first
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._is_stopping = False
        # `ip netns exec` replaces itself with the program, so this process is the program.
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [*self.host.enter(), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._environment,
                start_new_session=True,
            )
        if self._comes_first:
            put_first(self._child.pid)

    def kill(self) -> None:
        """Sends SIGKILL, and waits until the program has ended."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def stop(self) -> None:
        """Sends SIGTERM. The program finishes its work; its supervisor then restarts it."""
        self._is_stopping = True
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resumes a frozen program."""
        self._signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        """Returns `True` if the program has ended without being killed."""
        return self._child is not None and self._child.poll() is not None

    def was_stopped(self) -> bool:
        return self._is_stopping

    def must_run(self) -> None:
        """Raises if the program has ended by itself."""
        if self._child is not None and self.has_ended() and not self._is_stopping:
            raise RuntimeError(f"{self.name} has ended with {self._child.returncode}: see {self._log}\n{self.last_lines()}")

    def last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-15:])

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def put_first(pid: int) -> None:
    """Raises the priority of a process and, if the kernel supports it, of its group."""
    os.setpriority(os.PRIO_PROCESS, pid, NICE)
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(NICE))
