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
    """Formats a number with three significant digits, or as an integer if it is at least 100."""
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
        ("executions per second", number(base["executions_per_s"])),
        ("… that resume their session", percent(base["miss_share"])),
        ("latency in ms, p50 and p99", f"{number(base['p50_ms'])} and {number(base['p99_ms'])}"),
        ("… with the session in memory", f"{number(base['warm_p50_ms'])} and {number(base['warm_p99_ms'])}"),
        ("… with the session resumed", f"{number(base['cold_p50_ms'])} and {number(base['cold_p99_ms'])}"),
        ("sessions in memory", number(base["warm_sessions"])),
        ("session memory per node", f"{base['warm_bytes'] / base['nodes'] / 2**30:.1f} GiB"),
        ("processor utilization", percent(base["processors_busy"])),
        ("store writes", f"{number(base['puts_per_s'])} requests/s, {base['put_bytes_per_s'] / 1e9:.1f} GB/s"),
        ("store reads", f"{number(base['gets_per_s'])} requests/s, {base['get_bytes_per_s'] / 1e9:.1f} GB/s"),
        ("mean session size in MB, in memory and stored", f"{held['mean_warm_bytes'] / 1e6:.1f} and {held['mean_blob_bytes'] / 1e6:.1f}"),
        ("mean ms to hibernate and to resume a session", f"{number(held['mean_hibernate_ms'])} and {number(held['mean_resume_ms'])}"),
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
    return table(["session data", *(f"`{runtime}`" for runtime in runtimes)], rows)


def placement(data: dict[str, Any]) -> str:
    rows = [
        [each["placement"], percent(each["miss_share"]), number(each["p50_ms"]), number(each["p99_ms"]), f"{each['imbalance']:.2f}"]
        for each in data["placement"]
    ]
    return table(["placement", "executions that resume", "p50, ms", "p99, ms", "busiest node / mean"], rows)


def affinity(data: dict[str, Any]) -> str:
    rows = [
        [
            number(each["at_most"]),
            *map(percent, (each["miss_share"], each["processors_busy"])),
            *map(number, (each["p50_ms"], each["p99_ms"])),
        ]
        for each in data["affinity"]
    ]
    return table(["executions per processor", "resumed", "processor utilization", "p50, ms", "p99, ms"], rows)


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
    head = ["save policy", "writes/s", "GB/s", "p50, ms", "p99, ms", "processor utilization"]
    return table([*head, "request cost in the busiest hour, $ per million sessions"], rows)


def stores(data: dict[str, Any]) -> str:
    keys = ("p50_ms", "p99_ms", "cold_p50_ms")
    rows = [[each["store"], *(number(each[key]) for key in keys)] for each in data["stores"]]
    return table(["store", "p50, ms", "p99, ms", "p50 with the session resumed, ms"], rows)


def failure(data: dict[str, Any]) -> str:
    def row(each: dict[str, Any]) -> list[str]:
        back = "not within 5 minutes" if each["back_s"] is None else f"{number(each['back_s'])} s"
        name = each["name"].split(" of the nodes, ")[-1]
        values = (each["p99_before_ms"], each["p99_worst_ms"])
        return [number(each["nodes"]), name, *map(number, values), back, number(each["most_resumed_per_s"]), percent(each["refused_share"])]

    head = ["nodes before the failure", "strategy", "p99 before, ms", "worst p99, ms", "recovered after", "peak resumes/s", "refused"]
    return table(head, [row(each) for each in data["failure"]])


def cost(data: dict[str, Any]) -> str:
    parts = ("machines", "puts", "gets", "stored", "sum")
    rows = [
        [each["persistence"], number(each["nodes"]), *(number(each[part] * 1e6) for part in parts)]
        for each in data["cost"]["per_session_hour"]
    ]
    return table(["save policy", "nodes", "machines", "writes", "reads", "storage", "total"], rows)


def needed(data: dict[str, Any]) -> str:
    rows = [
        [each["persistence"], number(each["nodes_by_processor"]), number(each["nodes_by_memory"])]
        for each in data["cost"]["per_session_hour"]
        if each["which"] == "needed"
    ]
    return table(["save policy", "nodes for processor time", "nodes for memory"], rows)


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
    head = ["assumption", "executions/s", "resumed", "p50, ms", "p99, ms", "GB/s written", "nodes for processor time", "nodes for memory"]
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
