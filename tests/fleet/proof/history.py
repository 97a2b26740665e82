"""What the clients did and were answered, and what tools recorded: the history that is checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

# `execute` counts one up and prints the count; `record` does so too, and has the tool server record it; `info` reads the count; `undo` sets the
# session back by one execution, once; `close` ends it, and the next execution opens it again.
Kind = Literal["execute", "record", "info", "undo", "close"]
EXECUTIONS: tuple[Kind, ...] = ("execute", "record")
# `unknown`: the client gave up, so it may have been carried out, then or later, or not at all.
Outcome = Literal["ok", "failed", "unknown"]


@dataclass
class Operation:
    """One operation of one client, its attempts included. Times are seconds of the monotonic clock."""

    id: str
    session: str
    kind: Kind
    begun: float
    ended: float | None = None
    outcome: Outcome = "unknown"
    # The count that was answered, and for `close`, whether there was a session; none where nothing was answered, or it was refused.
    count: int | None = None
    # Whether there was nothing to undo.
    refused: bool = False
    # Whether the script was answered by the tool server.
    recorded: bool = False
    attempts: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it took; only of what has ended."""
        assert self.ended is not None
        return self.ended - self.begun


@dataclass
class Effect:
    """A call that was recorded. Its key is `<session>/<execution>/<call>`."""

    key: str
    session: str
    execution: str
    call: str
    operation: str
    count: int
    at: float


def service(session: str) -> str:
    """The service that has a session, by its id."""
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
