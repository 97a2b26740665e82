"""The report: faults, answers, latencies, and violations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from proof.faults import Injected
from proof.history import Operation
from proof.takeover import Takeover, percentile
from proof.tools import Tools

SHOWN = 5


@dataclass
class Report:
    sessions: int
    seconds: float
    seed: int
    injected: list[Injected]
    operations: list[Operation]
    calm: list[Operation]
    takeovers: list[Takeover]
    tools: Tools
    restarted: Counter[str]
    violations: dict[str, list[str]]
    self_test: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def passed(self) -> bool:
        return not any(self.violations.values())

    def as_json(self) -> dict[str, Any]:
        faults = Counter(each.kind for each in self.injected)
        met = Counter[str]()
        for each in self.injected:
            met[each.kind] += each.met or 0
        return {
            "passed": self.passed(),
            "sessions": self.sessions,
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
            "injected": {kind: {"times": times} | ({"met": met[kind]} if met[kind] else {}) for kind, times in sorted(faults.items())},
            "operations": dict(Counter(each.outcome for each in self.operations)) | {"attempts": sum(each.attempts for each in self.operations)},
            "effects": {"recorded": len(self.tools.effects), "came_again_with_the_same_key": sum(self.tools.repeated.values())},
            "ended_by_themselves": dict(self.restarted),
            "call_s": {"calm": figures(self.calm), "all": figures(self.operations)},
            "takeover_s": {kind: summary([each for each in self.takeovers if each.kind == kind]) for kind in sorted({each.kind for each in self.takeovers})},
            "violations": self.violations,
            "self_test": {variant: {check: len(found) for check, found in checks.items() if found} for variant, checks in self.self_test.items()},
        }


def figures(operations: list[Operation]) -> dict[str, dict[str, float | int | None]]:
    """Returns p50 and p99 of the answered operations, by kind."""
    kinds: dict[str, list[float]] = {}
    for operation in operations:
        if operation.outcome == "ok":
            kinds.setdefault(operation.kind, []).append(operation.seconds)
    return {
        kind: {"calls": len(seconds), "p50": rounded(percentile(seconds, 50)), "p99": rounded(percentile(seconds, 99))}
        for kind, seconds in sorted(kinds.items())
    }


def summary(takeovers: list[Takeover]) -> dict[str, float | int | None]:
    under_way = sorted(seconds for each in takeovers for seconds in each.under_way)
    first = [each.first_new for each in takeovers if each.first_new is not None]
    slowest = [each.slowest_new for each in takeovers if each.slowest_new is not None]
    return {
        "faults": len(takeovers),
        "calls_under_way": len(under_way),
        "under_way_p50": rounded(percentile(under_way, 50)),
        "under_way_max": rounded(under_way[-1] if under_way else None),
        "first_new_max": rounded(max(first, default=None)),
        "slowest_new": rounded(max(slowest, default=None)),
    }


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def text(report: dict[str, Any]) -> str:
    """Returns the report as text."""
    lines = [f"{report['sessions']} sessions, {report['seconds']} s, seed {report['seed']}", "", "injected:"]
    for kind, of in report["injected"].items():
        met = f" ({of['met']} packets, connections or answers met)" if "met" in of else ""
        lines.append(f"  {of['times']:4} × {kind}{met}")
    operations = report["operations"]
    lines += ["", f"operations: {operations.get('ok', 0)} ok, {operations.get('failed', 0)} failed, {operations.get('unknown', 0)} unknown, "]
    lines[-1] += f"in {operations['attempts']} attempts"
    effects = report["effects"]
    lines.append(f"effects of tools: {effects['recorded']} recorded; {effects['came_again_with_the_same_key']} calls came again with the same key")
    for name, times in report["ended_by_themselves"].items():
        lines.append(f"{name} ended by itself {times} times and was started again")
    for when, kinds in report["call_s"].items():
        for kind, of in kinds.items():
            lines.append(f"{kind}, {when}: {milliseconds(of['p50'])} p50, {milliseconds(of['p99'])} p99, {of['calls']} calls")
    for kind, of in report["takeover_s"].items():
        lines.append(
            f"{kind} ({of['faults']} times): {of['calls_under_way']} calls under way there were answered after {milliseconds(of['under_way_p50'])} p50, "
            f"{milliseconds(of['under_way_max'])} at most; the first new one after {milliseconds(of['first_new_max'])}, "
            f"the slowest new one took {milliseconds(of['slowest_new'])}"
        )
    lines.append("")
    for name, found in report["violations"].items():
        lines.append(f"{'VIOLATED' if found else 'holds'}: {name}")
        lines += [f"    {each}" for each in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"    and {len(found) - SHOWN} more")
    for variant, checks in report["self_test"].items():
        lines.append(f"self-test: {variant}: noticed by {', '.join(f'{name!r} ({times})' for name, times in checks.items()) or 'NOTHING'}")
    return "\n".join(lines)


def milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.1f} ms"
