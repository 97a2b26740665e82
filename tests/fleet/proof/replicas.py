"""Evidence in the engine's logs that one of its servers has an outdated copy of a session's state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# A log entry begins with its time. A node reports a missing blob in one of the lines that follow.
TIME = re.compile(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)\S* ")
MISSING = re.compile(r"the blob `sessions/(?P<session>[^/`]+)/[^/`]+/(?P<generation>\d+)-[^/`]*` is not in the store")


@dataclass
class Outdated:
    """Attempts of one server to continue a session from a state whose blob later executions had deleted."""

    server: str
    generation: int
    first: str
    last: str
    attempts: int = 0

    def __str__(self) -> str:
        return (
            f"{self.server} tried {self.attempts} times from {self.first} to {self.last} to continue generation {self.generation}, whose blob is gone: "
            "its copy of the state is outdated (docs/fleet.md describes a fault of the engine that causes this)"
        )


def explained(violations: list[str], directory: Path, servers: list[str]) -> list[str]:
    """Appends the outdated copies of a session to its violations. A violation begins with the session's name."""
    found: dict[str, list[Outdated]] = {}
    for server in servers:
        for session, copies in outdated(directory / f"{server}.log", server).items():
            found.setdefault(session, []).extend(copies)
    return ["; ".join([violation, *map(str, found.get(violation.partition(":")[0], []))]) for violation in violations]


def outdated(log: Path, server: str) -> dict[str, list[Outdated]]:
    """Returns the outdated states that a server tried to continue, by session."""
    found: dict[str, dict[int, Outdated]] = {}
    time = ""
    with log.open(errors="replace") as lines:
        for line in lines:
            begun = TIME.match(line)
            time = begun[1] if begun else time
            missing = MISSING.search(line)
            if missing:
                generation = int(missing["generation"])
                copy = found.setdefault(missing["session"], {}).setdefault(generation, Outdated(server, generation, time, time))
                copy.last = time
                copy.attempts += 1
    return {session: list(copies.values()) for session, copies in found.items()}
