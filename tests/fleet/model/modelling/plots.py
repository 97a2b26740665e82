"""Draws plots of `figures.json` as SVG. Equal figures produce equal files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = {
    # A fixed salt makes hashed identifiers reproducible.
    "svg.hashsalt": "fleet-model",
    # Keeps text as text instead of paths: the files are smaller and do not depend on installed fonts.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
}
TIME_TICKS = {5: "5 s", 15: "15 s", 60: "1 min", 180: "3 min", 600: "10 min", 1_800: "30 min", 3_600: "1 h", 14_400: "4 h", 86_400: "1 day"}


def draw(figures: Path, directory: Path) -> None:
    """Draws every plot into the directory."""
    data = json.loads(figures.read_text())
    with matplotlib.rc_context(STYLE):
        for name, make in PLOTS.items():
            make(data).savefig(directory / f"{name}.svg", metadata={"Date": None, "Creator": None})


def pair(height: float = 2.9) -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(8.4, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, left, right


def times(axes: Axes, label: str = "an idle session stays in memory for") -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(TIME_TICKS), list(TIME_TICKS.values()), rotation=45)
    axes.minorticks_off()
    axes.set_xlabel(label)


def column(rows: list[dict[str, Any]], key: str, factor: float = 1.0) -> list[float]:
    return [row[key] * factor for row in rows]


def warm_time(data: dict[str, Any]) -> Figure:
    rows = data["warm_time"]
    figure, left, right = pair()
    each_s = column(rows, "ttl_s")
    left.plot(each_s, [row["warm_bytes"] / row["nodes"] / 2**30 for row in rows], marker=".")
    left.set_ylabel("GiB of sessions on each of 1,000 nodes")
    times(left)
    right.plot(each_s, column(rows, "miss_share", 100), marker=".", label="executions that resume, %")
    right.plot(each_s, column(rows, "closed_miss_share", 100), linestyle=":", color="black", label="closed form, %")
    right.set_yscale("log")
    right.set_ylim(0.1, 100)
    right.set_ylabel("% of executions")
    times(right)
    right.legend()
    return figure


def latency(data: dict[str, Any]) -> Figure:
    rows = data["warm_time"]
    figure, left, right = pair()
    each_s = column(rows, "ttl_s")
    left.plot(each_s, column(rows, "p50_ms"), marker=".", label="p50, all")
    left.plot(each_s, column(rows, "p99_ms"), marker=".", label="p99, all")
    left.plot(each_s, column(rows, "warm_p50_ms"), linestyle=":", label="p50, in memory")
    left.plot(each_s, column(rows, "cold_p50_ms"), linestyle=":", label="p50, resumed")
    left.set_yscale("log")
    left.set_ylabel("latency, ms")
    times(left)
    left.legend()
    for way in data["tails"]:
        points = way["times"]
        right.plot(column(points, "ttl_s"), column(points, "miss_share", 100), marker=".", label=way["pauses"])
    right.set_ylabel("% of executions that resume")
    right.set_yscale("log")
    right.set_ylim(0.1, 100)
    times(right)
    right.legend(fontsize=7)
    return figure


def memory(data: dict[str, Any]) -> Figure:
    rows = data["memory"]
    figure, left, right = pair(2.6)
    left.plot(column(rows, "memory_gib"), column(rows, "miss_share", 100), marker=".", label="simulated")
    left.plot(column(rows, "memory_gib"), column(rows, "che_miss_share", 100), linestyle=":", color="black", label="Che's approximation")
    left.set_xscale("log", base=2)
    left.set_xticks(column(rows, "memory_gib"), [f"{row['memory_gib']:g}" for row in rows])
    left.set_xlabel("GiB of session memory per node")
    left.set_ylabel("% of executions that resume")
    left.legend()
    rows = data["nodes"]
    right.plot(column(rows, "nodes"), column(rows, "p99_ms"), marker=".", label="p99, ms")
    right.plot(column(rows, "nodes"), column(rows, "p50_ms"), marker=".", label="p50, ms")
    right.set_yscale("log")
    right.set_xlabel("nodes for a million sessions")
    other = right.twinx()
    other.plot(column(rows, "nodes"), column(rows, "miss_share", 100), marker=".", color="tab:green", label="% that resume")
    other.set_ylabel("% of executions that resume")
    other.grid(False)
    lines = [*right.get_lines(), *other.get_lines()]
    right.legend(lines, [str(line.get_label()) for line in lines])
    return figure


def bars(axes: Axes, names: list[str], values: list[float], label: str, digits: str) -> None:
    places = list(range(len(names)))
    drawn = axes.barh(places, values, color="tab:blue")
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.bar_label(drawn, [digits.format(value) for value in values], padding=2, fontsize=8)
    axes.set_xlabel(label)
    axes.margins(x=0.18)
    axes.grid(False)


def placement(data: dict[str, Any]) -> Figure:
    rows = data["placement"]
    figure, left, right = pair(2.3)
    names = [row["placement"] for row in rows]
    bars(left, names, column(rows, "miss_share", 100), "% of executions that resume", "{:.1f}")
    bars(right, [""] * len(names), column(rows, "imbalance"), "busiest node's processor time / mean", "{:.2f}")
    return figure


def traffic(data: dict[str, Any]) -> Figure:
    rows = data["persistence"]
    figure = Figure(figsize=(8.4, 2.2), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    names = [row["persistence"] for row in rows]
    bars(first, names, column(rows, "put_bytes_per_s", 1e-9), "GB/s written", "{:.1f}")
    bars(second, [""] * len(names), column(rows, "puts_per_s", 1e-3), "thousand writes/s", "{:.1f}")
    bars(third, [""] * len(names), column(rows, "p50_ms"), "p50 latency, ms", "{:.0f}")
    return figure


def failure(data: dict[str, Any]) -> Figure:
    figure, left, right = pair(3.8)
    counts = sorted({row["nodes"] for row in data["failure"]})
    for axes, nodes in ((left, counts[-1]), (right, counts[0])):
        for row in data["failure"]:
            if row["nodes"] == nodes:
                since_s = [row["begin_s"] + row["step_s"] * number for number in range(len(row["p99_ms"]))]
                axes.plot(since_s, row["p99_ms"], label=row["name"].split(" of the nodes, ")[-1])
        axes.set_yscale("log")
        axes.set_ylim(500, 40_000)
        axes.set_title(f"{nodes:,} nodes", fontsize=9)
        axes.set_xlabel("seconds since a third of the nodes failed")
        axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0.0, -0.22))
    left.set_ylabel("p99 latency in each 10 s, ms")
    return figure


def day(data: dict[str, Any]) -> Figure:
    hours = sorted(data["day"]["hours"], key=lambda each: int(each["hour"]))
    figure, left, right = pair(2.4)
    left.step(column(hours, "hour"), column(hours, "executions_per_s"), where="mid")
    left.set_ylabel(f"executions/s of {data['day']['sessions']:,} sessions")
    left.set_ylim(0, None)
    right.step(column(hours, "hour"), column(hours, "miss_share", 100), where="mid")
    right.set_ylabel("% of executions that resume")
    right.set_ylim(0, None)
    for axes in (left, right):
        axes.set_xticks(range(0, 25, 4))
        axes.set_xlabel("hour")
    return figure


def cost(data: dict[str, Any]) -> Figure:
    rows = data["cost"]["per_session_hour"]
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    axes = figure.subplots()
    places = list(range(len(rows)))
    left = [0.0] * len(rows)
    for part, label in (("machines", "machines"), ("puts", "writes"), ("gets", "reads"), ("stored", "storage")):
        values = column(rows, part, 1e6)
        axes.barh(places, values, left=left, label=label)
        left = [one + other for one, other in zip(left, values, strict=True)]
    axes.set_yticks(places, [f"{row['persistence']}, {row['nodes']:,.0f} nodes" for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("millionths of a dollar per session-hour")
    axes.grid(False)
    axes.legend(loc="lower right")
    return figure


PLOTS: dict[str, Callable[[dict[str, Any]], Figure]] = {
    "warm-time": warm_time,
    "latency": latency,
    "memory": memory,
    "placement": placement,
    "traffic": traffic,
    "failure": failure,
    "day": day,
    "cost": cost,
}
