"""A program of the fleet, on its host: started, killed, frozen, resumed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from proof.network import Host

# Niceness of the most important processes, from -20 to 19.
NICE = -10


class Process:
    """`comes_first`: it gets the processor before what does not. In truth it has a machine of its own, and nothing of the fleet takes that away."""

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
        # `ip netns exec` replaces itself by the program, so this is the program's process.
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
        """SIGKILL, and waits until it is gone."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def stop(self) -> None:
        """SIGTERM. It ends what it does; whoever supervises it starts it again then."""
        self._is_stopping = True
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on where it was frozen."""
        self._signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        """Whether it has ended and was not killed."""
        return self._child is not None and self._child.poll() is not None

    def was_stopped(self) -> bool:
        return self._is_stopping

    def must_run(self) -> None:
        """Raises where it has ended by itself."""
        if self._child is not None and self.has_ended() and not self._is_stopping:
            raise RuntimeError(f"{self.name} has ended with {self._child.returncode}: see {self._log}\n{self.last_lines()}")

    def last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-15:])

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def put_first(pid: int) -> None:
    """Before other processes, and as a group of its own before other groups, where the kernel has those."""
    os.setpriority(os.PRIO_PROCESS, pid, NICE)
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(NICE))
