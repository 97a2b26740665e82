"""The properties of the history and of the effects that must hold under all faults."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from proof.history import EXECUTIONS, Effect, Operation

CHECKER_S = 600
LINEARIZABLE = "each history is linearizable"


@dataclass(frozen=True)
class Record:
    """The checked data: the history by session, the final count of each session, and the effects in the order of the
    log."""

    sessions: dict[str, list[Operation]]
    finals: dict[str, int]
    effects: list[Effect]
    refused: list[str]

    def counters(self) -> dict[str, list[Operation]]:
        """The sessions whose count only increases: each count belongs to one execution."""
        return {session: operations for session, operations in self.sessions.items() if not any(each.kind in ("undo", "close") for each in operations)}


def check(record: Record, checker: Path) -> dict[str, list[str]]:
    """Returns the violations by check; the list of a passed check is empty."""
    return {
        "every operation is eventually answered": unanswered(record),
        "no acknowledged execution is lost": lost(record),
        "no execution is applied twice, no counter has a gap": applied_twice(record),
        "no effect of a tool is recorded twice": recorded_twice(record),
        "each acknowledged call to a tool is recorded, with its count": not_recorded(record),
        "effects are recorded in the order of the executions": out_of_order(record),
        LINEARIZABLE: not_linearizable(record, checker),
    }


def unanswered(record: Record) -> list[str]:
    """Returns the operations that failed, or that stayed unanswered although their client retried."""
    found = []
    for operation in all_of(record):
        if operation.outcome == "failed" or (operation.outcome == "unknown" and operation.attempts > 1):
            found.append(f"{operation.id}: {operation.outcome} after {operation.attempts} attempts: {operation.errors[-1:]}")
    return found


def lost(record: Record) -> list[str]:
    """Returns acknowledged counts that the session does not have at the end, or that two executions returned."""
    found = []
    for session, operations in record.counters().items():
        counts = Counter(operation.count for operation in executions(operations) if operation.count is not None)
        found += [f"{session}: {times} executions were acknowledged with count {count}" for count, times in counts.items() if times > 1]
        found += [f"{session}: count {n} was acknowledged, but the final count is {record.finals[session]}" for n in counts if n > record.finals[session]]
    return found


def applied_twice(record: Record) -> list[str]:
    """Returns sessions with more unreported counts than executions of unknown outcome. In these sessions, an execution
    was applied twice."""
    found = []
    for session, operations in record.counters().items():
        issued = executions(operations)
        answered = {operation.count for operation in issued if operation.count is not None}
        missing = set(range(1, record.finals[session] + 1)) - answered
        unknown = sum(operation.count is None for operation in issued)
        if len(missing) > unknown:
            found.append(f"{session}: counts {sorted(missing)} were not answered, but only {unknown} executions have an unknown outcome")
    return found


def recorded_twice(record: Record) -> list[str]:
    """Returns operations with more than one effect, because an execution ran again as a different execution."""
    keys: dict[str, list[str]] = {}
    for effect in record.effects:
        keys.setdefault(effect.operation, []).append(effect.key)
    twice = [f"{operation} was recorded as {each}" for operation, each in keys.items() if len(each) > 1]
    return twice + record.refused


def not_recorded(record: Record) -> list[str]:
    found = []
    effects = {effect.operation: effect for effect in record.effects}
    for operation in all_of(record):
        if not operation.recorded:
            continue
        effect = effects.get(operation.id)
        if effect is None:
            found.append(f"{operation.id}: acknowledged, but not recorded")
        elif (effect.session, effect.count) != (operation.session, operation.count):
            found.append(f"{operation.id}: answered count {operation.count}, recorded as {effect.count} of {effect.session}")
    return found


def out_of_order(record: Record) -> list[str]:
    by_session: dict[str, list[Effect]] = {session: [] for session in record.counters()}
    for effect in record.effects:
        if effect.session in by_session:
            by_session[effect.session].append(effect)
    return [
        f"{session}: count {after.count} was recorded after {before.count}"
        for session, effects in by_session.items()
        for before, after in pairwise(effects)
        if after.count <= before.count
    ]


def not_linearizable(record: Record, checker: Path) -> list[str]:
    histories = {
        session: [{"begun": each.begun, "ended": each.ended if each.outcome == "ok" else None, "kind": each.kind, "count": each.count} for each in operations]
        for session, operations in record.sessions.items()
    }
    done = subprocess.run([checker], input=json.dumps(histories).encode(), stdout=subprocess.PIPE, timeout=CHECKER_S, check=True)
    verdict = json.loads(done.stdout)
    if verdict["operations"] != sum(len(each) for each in histories.values()):
        raise RuntimeError(f"the checker checked a different history: {verdict}")
    return [f"{session}: no order of its operations explains the answers" for session in verdict["refuted"]]


def executions(operations: list[Operation]) -> list[Operation]:
    return [operation for operation in operations if operation.kind in EXECUTIONS]


def all_of(record: Record) -> list[Operation]:
    return [operation for operations in record.sessions.values() for operation in operations]
