"""The checked history: the operations of clients with their answers, and the effects that tools recorded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

# `execute` increments the count and prints it. `record` does the same, and also records the count at the tool server.
# `info` reads the count. `undo` undoes the last execution, but not two in succession. `close` ends the session, which
# the next execution opens again.
Kind = Literal["execute", "record", "info", "undo", "close"]
EXECUTIONS: tuple[Kind, ...] = ("execute", "record")
# `unknown`: the client gave up. The operation may already have taken effect, or may do so later or never.
Outcome = Literal["ok", "failed", "unknown"]


@dataclass
class Operation:
    """An operation of a client, including its attempts. Times are seconds of the monotonic clock."""

    id: str
    session: str
    kind: Kind
    begun: float
    ended: float | None = None
    outcome: Outcome = "unknown"
    # The count in the answer; for `close`, 1 if the session existed. `None` if there was no answer or the operation was
    # refused.
    count: int | None = None
    # True if there was nothing to undo.
    refused: bool = False
    # True if the tool server answered the script.
    recorded: bool = False
    attempts: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The duration of an operation that has ended."""
        assert self.ended is not None
        return self.ended - self.begun


@dataclass
class Effect:
    """A recorded tool call. Its key is `<session>/<execution>/<call>`."""

    key: str
    session: str
    execution: str
    call: str
    operation: str
    count: int
    at: float


def service(session: str) -> str:
    """Returns the name of the service that a session ID belongs to."""
    return f"glovebox-sessions-{hashlib.sha256(session.encode()).hexdigest()[:2]}"


class History:
    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def by_session(self) -> dict[str, list[Operation]]:
        sessions: dict[str, list[Operation]] = {}
        for operation in self.operations:
            sessions.setdefault(operation.session, []).append(operation)
        return sessions

    def save(self, file: Path) -> None:
        with file.open("w") as lines:
            for operation in self.operations:
                lines.write(json.dumps(asdict(operation)) + "\n")
