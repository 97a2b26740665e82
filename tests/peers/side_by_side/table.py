"""The output of a run: for people, for the page on performance, and for programs."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import agent, suspension
from .measures import Measure
from .programs import NAMES, mean_ratio
from .rounds import Cell, Entry

# Several tables, because a single one would be wider than a page.
SESSION = ("fresh", "live", "hibernate", "resume", "process", agent.NAME)
TITLES = {"python": "Python", "javascript": "JavaScript"}
ONCE = "first call"
DISK = "disk"
MEAN = "mean"
FIGURES = (
    "Times are in milliseconds: median / minimum of the rounds, or the minimum alone. `no` means not available. "
    f"`{MEAN}`: the geometric mean of the eleven ratios to the first row."
)


@dataclass(frozen=True)
class Report:
    entries: Sequence[Entry]
    missing: Mapping[str, str]
    """Missing contestants, with the reasons."""
    measures: Sequence[Measure]
    machine: Mapping[str, Any]
    rounds: int

    def failures(self) -> list[str]:
        return [f"{entry.contestant.name}: {problem}" for entry in self.entries for problem in entry.problems()]


def figure(ms: float) -> str:
    """Formats a number with two significant digits below ten, and without decimals otherwise."""
    if ms < 0.1:
        return f"{ms:.3f}"
    if ms < 10:
        return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}"
    return f"{ms:,.0f}"


def cell_text(cell: Cell) -> str:
    if cell.lacks:
        return "no"
    if cell.failed:
        kind = cell.failed.split(":", 1)[0]
        return kind if kind in ("timeout", "wrong answer") else "failed"
    if not cell.rounds_ms:
        return "failed"
    return f"{figure(cell.median_ms())} / {figure(cell.least_ms())}"


def least_text(cell: Cell) -> str:
    return figure(cell.least_ms()) if cell.rounds_ms and not cell.failed else cell_text(cell)


def bytes_text(cell: Cell) -> str:
    """Formats the size of suspended scripts."""
    return f"{cell.median_bytes():,}" if cell.rounds_bytes and not cell.failed else cell_text(cell)


def mean_text(entry: Entry, zero: Entry) -> str:
    def least(each: Entry) -> dict[str, float]:
        return {name: cell.least_ms() for name, cell in each.cells.items() if cell.rounds_ms and not cell.failed}

    ratio = mean_ratio(least(entry), least(zero))
    return "no" if ratio is None else f"{ratio:.2f}"


def first_text(entry: Entry) -> str:
    if entry.contestant.environment is None:
        return "none"
    if entry.failed:
        return "failed"
    if entry.first_ms is None:
        return "not measured"
    return f"{entry.first_ms / 1e3:.1f} s"


def disk_text(entry: Entry) -> str:
    megabytes = f"{entry.installed_bytes / 1e6:.0f}"
    if entry.contestant.environment is None:
        return "0"
    # A cache of less than a megabyte is negligible.
    return megabytes if (entry.cache_bytes or 0) < 1e6 else f"{megabytes} + {(entry.cache_bytes or 0) / 1e6:.0f}"


def tables(report: Report, language: str) -> list[tuple[list[str], list[list[str]]]]:
    """Returns the headers and rows of a language's tables."""
    entries = [entry for entry in report.entries if entry.contestant.language == language]
    if not entries:
        return []
    sessions = [each.name for each in report.measures if each.name in SESSION]
    others = (*SESSION, *NAMES, *suspension.NAMES)
    work = [each.name for each in report.measures if each.name not in others]
    programs = [each.name for each in report.measures if each.name in NAMES]

    def row(entry: Entry, names: Sequence[str]) -> list[str]:
        if entry.failed:
            return [entry.contestant.name, *("failed" for _ in names)]
        return [entry.contestant.name, *(cell_text(entry.cells[name]) for name in names)]

    title = TITLES[language]
    first = ([title, *sessions], [row(entry, sessions) for entry in entries])
    second = ([title, *work, f"{DISK} (MB)", ONCE], [[*row(entry, work), disk_text(entry), first_text(entry)] for entry in entries])

    def of_programs(entry: Entry) -> list[str]:
        if entry.failed:
            return [entry.contestant.name, *("failed" for _ in programs), "no"]
        return [entry.contestant.name, *(least_text(entry.cells[name]) for name in programs), mean_text(entry, entries[0])]

    third = ([title, *programs, MEAN], [of_programs(entry) for entry in entries])
    suspending = [entry for entry in entries if not entry.contestant.lacks >= suspension.NAMES]
    return [first, second, third, *([suspended(title, suspending)] if suspending else [])]


def suspended(title: str, entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """Returns the table of suspended scripts."""

    def row(entry: Entry) -> list[str]:
        texts = [entry.contestant.name]
        for calls in suspension.CALLS:
            suspend, resume = (entry.cells[name(calls)] for name in (suspension.suspend, suspension.resume))
            texts += [bytes_text(suspend), cell_text(suspend), cell_text(resume)]
        return texts if not entry.failed else [entry.contestant.name, *("failed" for _ in texts[1:])]

    head = [title]
    for calls in suspension.CALLS:
        head += [f"bytes({calls})", suspension.suspend(calls), suspension.resume(calls)]
    return head, [row(entry) for entry in entries]


def plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    lines = []
    for line in [head, *rows]:
        padded = [text.rjust(width) for text, width in zip(line, widths, strict=True)]
        lines.append("  ".join([line[0].ljust(widths[0]), *padded[1:]]).rstrip())
    return "\n".join(lines)


def marked_down(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = "|" + "|".join("---" for _ in head) + "|"
    lines = ["| " + " | ".join(line) + " |" for line in [head, *rows]]
    return "\n".join([lines[0], rule, *lines[1:]])


def versions(report: Report) -> str:
    merged: dict[str, str] = {}
    for entry in report.entries:
        merged |= entry.versions
    return ", ".join(f"{name} {number}" for name, number in merged.items())


def circumstances(report: Report) -> str:
    machine = report.machine
    rounds = "1 round" if report.rounds == 1 else f"{report.rounds} alternating rounds"
    before, after = machine["load_before"], machine["load_after"]
    return (
        f"{machine['date']}; {machine['processor']}, {machine['threads']} threads; {rounds}; "
        f"load average {before:.1f} before and {after:.1f} after"
    )


def as_text(report: Report) -> str:
    blocks = [circumstances(report), versions(report), FIGURES]
    for language in TITLES:
        blocks += [plain(head, rows) for head, rows in tables(report, language)]
    blocks.append("\n".join(f"{each.name.ljust(12)} {each.what}" for each in report.measures))
    blocks += [f"{name} was not measured: {why}" for name, why in report.missing.items()]
    blocks += [f"FAILED {failure}" for failure in report.failures()]
    return "\n\n".join(block for block in blocks if block)


def as_markdown(report: Report) -> str:
    blocks = [textwrap.fill(f"{circumstances(report)}. {versions(report)}. {FIGURES}", 140, break_on_hyphens=False)]
    for language in TITLES:
        blocks += [marked_down(head, rows) for head, rows in tables(report, language)]
    blocks += [f"* `{name}` was not measured: {why}" for name, why in report.missing.items()]
    return "\n\n".join(blocks)


def as_json(report: Report) -> str:
    def of_cell(cell: Cell) -> dict[str, Any]:
        if cell.lacks:
            return {"lacks": True}
        if cell.failed:
            return {"failed": cell.failed}
        return {
            "median_ms": statistics.median(cell.rounds_ms),
            "least_ms": min(cell.rounds_ms),
            "rounds_ms": cell.rounds_ms,
        } | ({"bytes": cell.median_bytes()} if cell.rounds_bytes else {})

    contestants = {
        entry.contestant.name: {
            "language": entry.contestant.language,
            "about": entry.contestant.about,
            "versions": entry.versions,
            "installed_bytes": entry.installed_bytes,
            "cache_bytes": entry.cache_bytes,
            "first_ms": entry.first_ms,
            "failed": entry.failed,
            "measures": {} if entry.failed else {name: of_cell(cell) for name, cell in entry.cells.items()},
        }
        for entry in report.entries
    }
    document = {"machine": dict(report.machine), "rounds": report.rounds, "contestants": contestants, "missing": dict(report.missing)}
    return json.dumps(document, indent=2)
