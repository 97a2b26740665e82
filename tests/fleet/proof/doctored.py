"""Tests the proof itself with doctored histories. A check must detect the change in each of them, because a check that
never fails proves nothing."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from proof import replicas
from proof.checks import Record, check
from proof.history import Effect, Operation


def example() -> Record:
    """Returns a history without violations. One session has two clients, one of which gives up once; another session is
    undone and closed."""
    counter = [
        Operation("s.0", "s", "execute", 0.0, 1.0, "ok", 1),
        Operation("s.1", "s", "record", 0.5, 1.6, "ok", 2, recorded=True),
        Operation("s.2", "s", "execute", 2.0, 3.0, "unknown"),
        Operation("s.3", "s", "info", 4.0, 4.1, "ok", 3),
        Operation("s.4", "s", "record", 5.0, 6.0, "ok", 4, recorded=True),
        Operation("s.5", "s", "info", 7.0, 7.1, "ok", 4),
    ]
    reopened = [
        Operation("r.0", "r", "execute", 0.0, 1.0, "ok", 1),
        Operation("r.1", "r", "execute", 1.1, 2.0, "ok", 2),
        Operation("r.2", "r", "undo", 2.1, 3.0, "ok", 1),
        Operation("r.3", "r", "undo", 3.1, 4.0, "ok", None, refused=True),
        Operation("r.4", "r", "close", 4.1, 5.0, "ok", 1),
        Operation("r.5", "r", "info", 5.1, 6.0, "ok", 0),
        Operation("r.6", "r", "close", 6.1, 7.0, "ok", 0),
        Operation("r.7", "r", "execute", 7.1, 8.0, "ok", 1),
    ]
    effects = [Effect("s/e1/0", "s", "e1", "0", "s.1", 2, 1.2), Effect("s/e3/0", "s", "e3", "0", "s.4", 4, 5.5)]
    return Record({"s": counter, "r": reopened}, {"s": 4, "r": 1}, effects, [])


def changed(record: Record, number: int, *, session: str = "s", **fields: object) -> Record:
    """Returns the record with one doctored operation."""
    operations = copy.deepcopy(record.sessions[session])
    for name, value in fields.items():
        setattr(operations[number], name, value)
    return replace(record, sessions=record.sessions | {session: operations})


# Each function falsifies the example in a way that the named check must detect.
DOCTORED: dict[str, tuple[str, Callable[[Record], Record]]] = {
    "an operation without an answer": (
        "every operation is eventually answered",
        lambda record: changed(record, 4, outcome="unknown", count=None, attempts=9),
    ),
    "two executions acknowledged with one count": ("no acknowledged execution is lost", lambda record: changed(record, 1, count=1)),
    "a session that fell back": ("no acknowledged execution is lost", lambda record: replace(record, finals=record.finals | {"s": 3})),
    "a session that counted twice": (
        "no execution is applied twice, no counter has a gap",
        lambda record: replace(changed(changed(record, 4, count=5), 5, count=5), finals=record.finals | {"s": 5}),
    ),
    "an effect of two executions": (
        "no effect of a tool is recorded twice",
        lambda record: replace(record, effects=[*record.effects, replace(record.effects[1], key="s/e4/0", execution="e4")]),
    ),
    "a call that was not recorded": (
        "each acknowledged call to a tool is recorded, with its count",
        lambda record: replace(record, effects=record.effects[:1]),
    ),
    "an effect with another count": (
        "each acknowledged call to a tool is recorded, with its count",
        lambda record: replace(record, effects=[record.effects[0], replace(record.effects[1], count=3)]),
    ),
    "effects in another order": (
        "effects are recorded in the order of the executions",
        lambda record: replace(record, effects=record.effects[::-1]),
    ),
    "a read of an overwritten count": ("each history is linearizable", lambda record: changed(record, 5, count=3)),
    "a read of a future count": ("each history is linearizable", lambda record: changed(record, 3, count=4)),
    "an answer before its time": (
        "each history is linearizable",
        lambda record: changed(changed(record, 0, count=2), 1, count=1, begun=1.2),
    ),
    "an undo that did nothing": ("each history is linearizable", lambda record: changed(record, 2, session="r", count=2)),
    "a second undo in succession": ("each history is linearizable", lambda record: changed(record, 3, session="r", refused=False, count=0)),
    "a session that outlived its end": ("each history is linearizable", lambda record: changed(record, 7, session="r", count=2)),
}


# An entry of an engine server's log.
MISSING = """\
2026-01-01T10:20:{second}.423109Z WARN restate_invoker_impl
  Invocation error, retrying in 63ms 146µs.
    error: Got a (transient) error from the service while processing invocation.
      [500 Internal] the blob `sessions/{session}/bb7d8acbcfd6fe14/0000000033-44d9f9aa` is not in the store.
    restate.invocation.target: glovebox-sessions-ce/{session}/execute
"""
REFUTED = ["s: refuted", "r: refuted"]


def outdated_copies_are_named() -> None:
    """Raises if the explanation of a refuted history does not name the server whose copy of the session is outdated."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "server1.log").write_text("".join(MISSING.format(session=session, second=second) for session, second in (("s", 10), ("t", 11), ("s", 12))))
        (directory / "server2.log").write_text("")
        explained = replicas.explained(REFUTED, directory, ["server1", "server2"])
    if not explained[0].startswith("s: refuted; server1 tried 2 times from 10:20:10 to 10:20:12 to continue generation 33,") or explained[1] != REFUTED[1]:
        raise RuntimeError(f"self-test: an outdated copy of a session is not named: {explained}")


def doctored(checker: Path) -> dict[str, dict[str, list[str]]]:
    """Returns the violations in each doctored history. Raises if the valid history has violations, if the intended
    check misses a change, or if a check has no doctored history."""
    held = {name: found for name, found in check(example(), checker).items() if found}
    if held:
        raise RuntimeError(f"self-test: violations in a valid history: {held}")
    outdated_copies_are_named()
    noticed = {}
    meant = set()
    for variant, (name, doctor) in DOCTORED.items():
        noticed[variant] = check(doctor(example()), checker)
        meant.add(name)
        if not noticed[variant][name]:
            raise RuntimeError(f"self-test: `{name}` does not detect {variant}")
    if meant != set(check(example(), checker)):
        raise RuntimeError(f"self-test: no doctored history for {set(check(example(), checker)) - meant}")
    return noticed


if __name__ == "__main__":
    print(f"{len(doctored(Path(os.environ['FLEET_CHECKER'])))} doctored histories are noticed")
