"""Generates the tables of `docs/fleet-model.md` from `figures.json`. Each table is between two comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

BLOCK = re.compile(r"(<!-- figures: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str, data: dict[str, Any]) -> str:
    """Returns the page with tables generated from the figures."""
    return BLOCK.sub(lambda block: block[1] + TABLES[block[2]](data) + block[3], page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Formats a number with three digits, or with all digits before the point."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    return f"{share * 100:.2g}%" if share < 0.995 else "100%"


def fleet(data: dict[str, Any]) -> str:
    base, held = data["base"], data["held"]
    rows = [
        ("executions a second", number(base["executions_per_s"])),
        ("of them the session had to be resumed for", percent(base["miss_share"])),
        ("ms until the answer, p50 and p99", f"{number(base['p50_ms'])} and {number(base['p99_ms'])}"),
        ("… where the session was in memory", f"{number(base['warm_p50_ms'])} and {number(base['warm_p99_ms'])}"),
        ("… where it had to be resumed", f"{number(base['cold_p50_ms'])} and {number(base['cold_p99_ms'])}"),
        ("sessions in memory", number(base["warm_sessions"])),
        ("memory that they hold on each node", f"{base['warm_bytes'] / base['nodes'] / 2**30:.1f} GiB"),
        ("processor time in use", percent(base["processors_busy"])),
        ("written to the store", f"{number(base['puts_per_s'])} requests/s, {base['put_bytes_per_s'] / 1e9:.1f} GB/s"),
        ("read from it", f"{number(base['gets_per_s'])} requests/s, {base['get_bytes_per_s'] / 1e9:.1f} GB/s"),
        ("MB of a session in memory, and stored, mean", f"{held['mean_warm_bytes'] / 1e6:.1f} and {held['mean_blob_bytes'] / 1e6:.1f}"),
        ("ms to hibernate and to resume one, mean", f"{number(held['mean_hibernate_ms'])} and {number(held['mean_resume_ms'])}"),
    ]
    return table(["", ""], rows)


def held(data: dict[str, Any]) -> str:
    sizes = data["held"]["by_size"]
    runtimes = sorted({each["runtime"] for each in sizes})
    rows = []
    for own_mib in sorted({each["own_mib"] for each in sizes}):
        found = [next(each for each in sizes if each["runtime"] == runtime and each["own_mib"] == own_mib) for runtime in runtimes]
        name = "a variable" if own_mib == 0 else f"{own_mib} MiB"
        rows.append([name, *(f"{number(each['warm'])}; {number(each['stored_bytes'] / 1e6)} MB" for each in found)])
    return table(["the session's data", *(f"`{runtime}`" for runtime in runtimes)], rows)


def placement(data: dict[str, Any]) -> str:
    rows = [
        [each["placement"], percent(each["miss_share"]), number(each["p50_ms"]), number(each["p99_ms"]), f"{each['imbalance']:.2f}"]
        for each in data["placement"]
    ]
    return table(["placement", "executions that resume", "p50, ms", "p99, ms", "busiest node, by the mean"], rows)


def affinity(data: dict[str, Any]) -> str:
    rows = [
        [
            number(each["at_most"]),
            *map(percent, (each["miss_share"], each["processors_busy"])),
            *map(number, (each["p50_ms"], each["p99_ms"])),
        ]
        for each in data["affinity"]
    ]
    return table(["executions for each processor", "that resume", "processor time in use", "p50, ms", "p99, ms"], rows)


def persistence(data: dict[str, Any]) -> str:
    rows = [
        [
            each["persistence"],
            number(each["puts_per_s"]),
            f"{each['put_bytes_per_s'] / 1e9:.1f}",
            number(each["p50_ms"]),
            number(each["p99_ms"]),
            percent(each["processors_busy"]),
            number(each["requests_per_session_hour"] * 1e6),
        ]
        for each in data["persistence"]
    ]
    head = ["a session is saved", "writes/s", "GB/s", "p50, ms", "p99, ms", "processor time in use"]
    return table([*head, "requests of the busiest hour, $ for a million sessions"], rows)


def stores(data: dict[str, Any]) -> str:
    keys = ("p50_ms", "p99_ms", "cold_p50_ms")
    rows = [[each["store"], *(number(each[key]) for key in keys)] for each in data["stores"]]
    return table(["store", "p50, ms", "p99, ms", "p50 where it had to be resumed, ms"], rows)


def failure(data: dict[str, Any]) -> str:
    def row(each: dict[str, Any]) -> list[str]:
        back = "not within 5 minutes" if each["back_s"] is None else f"{number(each['back_s'])} s"
        name = each["name"].split(" of the nodes, ")[-1]
        values = (each["p99_before_ms"], each["p99_worst_ms"])
        return [number(each["nodes"]), name, *map(number, values), back, number(each["most_resumed_per_s"]), percent(each["refused_share"])]

    head = ["nodes before", "what is done", "p99 before, ms", "worst, ms", "back after", "resumed/s at most", "refused"]
    return table(head, [row(each) for each in data["failure"]])


def cost(data: dict[str, Any]) -> str:
    parts = ("machines", "puts", "gets", "stored", "sum")
    rows = [
        [each["persistence"], number(each["nodes"]), *(number(each[part] * 1e6) for part in parts)]
        for each in data["cost"]["per_session_hour"]
    ]
    return table(["a session is saved", "nodes", "machines", "writes", "reads", "storage", "in all"], rows)


def needed(data: dict[str, Any]) -> str:
    rows = [
        [each["persistence"], number(each["nodes_by_processor"]), number(each["nodes_by_memory"])]
        for each in data["cost"]["per_session_hour"]
        if each["which"] == "needed"
    ]
    return table(["a session is saved", "nodes for its processor time", "nodes for its memory"], rows)


def sensitivity(data: dict[str, Any]) -> str:
    rows = [
        [
            each["assumption"],
            number(each["executions_per_s"] / each["sessions"] * 1e6),
            percent(each["miss_share"]),
            number(each["p50_ms"]),
            number(each["p99_ms"]),
            f"{each['put_bytes_per_s'] / each['sessions'] * 1e-3:.1f}",
            number(each["nodes_by_processor"]),
            number(each["nodes_by_memory"]),
        ]
        for each in data["sensitivity"]
    ]
    head = ["", "executions/s", "that resume", "p50, ms", "p99, ms", "GB/s written", "nodes for processor time", "for memory"]
    return table(head, rows)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "fleet": fleet,
    "held": held,
    "placement": placement,
    "affinity": affinity,
    "persistence": persistence,
    "stores": stores,
    "failure": failure,
    "cost": cost,
    "needed": needed,
    "sensitivity": sensitivity,
}
