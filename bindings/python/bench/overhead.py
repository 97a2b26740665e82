"""Measures the overhead of the Python part of an execution: compares `Sandbox.execute` with a loop in Rust over the
engine's `execute`. The two alternate in one process, so that other load on the machine affects both.

usage: overhead.py [--max-us N]      prints JSON, in microseconds; fails if the difference exceeds N
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

from glovebox_sandbox import Sandbox

TURNS = 40
EACH = 50

SCRIPTS = {"python": "print(1)", "javascript": "console.log(1)"}


def timed(call: Callable[[], object]) -> list[int]:
    """Returns the duration of each call, in nanoseconds."""
    times = []
    for _ in range(EACH):
        begun = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begun)
    return times


def measure(language: str) -> dict[str, float]:
    source = SCRIPTS[language]
    box = Sandbox(language)
    native = box._backend
    # `Backend` does not declare `time`, which only this benchmark uses.
    rust: Callable[[str, int], list[int]] = native.time  # type: ignore[attr-defined]
    python_ns, text_ns, rust_ns = [], [], []
    for turn in range(TURNS + 2):
        of_python = timed(lambda: box.execute(source))
        of_text = timed(lambda: box.execute(source).stdout)
        of_rust = rust(source, EACH)
        # The first two turns are warm-up.
        if turn >= 2:
            python_ns.append(statistics.median(of_python))
            text_ns.append(statistics.median(of_text))
            rust_ns.append(statistics.median(of_rust))
    differences = [python - rust for python, rust in zip(python_ns, rust_ns, strict=True)]
    return {
        "rust_us": round(statistics.median(rust_ns) / 1e3, 1),
        "python_us": round(statistics.median(python_ns) / 1e3, 1),
        "python_with_stdout_us": round(statistics.median(text_ns) / 1e3, 1),
        "overhead_us": round(statistics.median(differences) / 1e3, 1),
        "ratio": round(statistics.median(python_ns) / statistics.median(rust_ns), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the overhead of the Python part of an execution.")
    parser.add_argument("--max-us", type=float, default=None)
    max_us: float | None = parser.parse_args().max_us
    measured = {language: measure(language) for language in SCRIPTS}
    print(json.dumps(measured, indent=2))
    over = {language: each["overhead_us"] for language, each in measured.items()}
    if max_us is not None and max(over.values()) > max_us:
        raise SystemExit(f"the overhead exceeds {max_us} µs: {over}")


main()
