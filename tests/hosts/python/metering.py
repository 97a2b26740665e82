"""Measures the cost of counting fuel: the CPU time of scripts in a provider and in the same provider woven without metering. Also
measures the creation of an instance with its first call, in which the component parses its woven data.

usage: metering.py LANGUAGE METERED.wasm UNMETERED.wasm      prints JSON

The two providers take turns, so that other load on the machine affects both. `ratio` is the ratio of the shortest times, which are
least affected; `median` is the median of the turns' ratios.
"""

import json
import statistics
import sys
import time

from glovebox_sandbox.component import Provider, Sandbox
from glovebox_sandbox.types import Limits, Policy

TURNS = 15

SCRIPTS = {
    "javascript": {
        "primes": """
            const sieve = new Uint8Array(600000); let count = 0;
            for (let i = 2; i < sieve.length; i++) { if (sieve[i]) continue; count++; for (let j = i * 2; j < sieve.length; j += i) sieve[j] = 1; }
            console.log(count)""",
        "json": """
            let rows = Array.from({ length: 3000 }, (_, i) => ({ id: i, name: 'row ' + i, tags: ['a', 'b', String(i % 7)] }));
            for (let turn = 0; turn < 5; turn++) rows = JSON.parse(JSON.stringify(rows));
            console.log(rows.filter((row) => row.tags.includes('3')).map((row) => row.name).join().length)""",
        "calls": """
            class Node { constructor(value) { this.value = value; this.left = this.right = null }
              insert(value) { const side = value < this.value ? 'left' : 'right';
                if (this[side]) this[side].insert(value); else this[side] = new Node(value) }
              sum() { return this.value + (this.left?.sum() ?? 0) + (this.right?.sum() ?? 0) } }
            const root = new Node(500); let seed = 1;
            for (let i = 0; i < 9000; i++) { seed = (seed * 1103515245 + 12345) % 2147483648; root.insert(seed % 100000) }
            console.log(root.sum())""",
    },
    "python": {
        "primes": """
sieve = bytearray(300_000)
count = 0
for i in range(2, len(sieve)):
    if not sieve[i]:
        count += 1
        for j in range(i * 2, len(sieve), i):
            sieve[j] = 1
print(count)""",
        "json": """
import json
rows = [{"id": i, "name": f"row {i}", "tags": ["a", "b", str(i % 7)]} for i in range(3000)]
for turn in range(5):
    rows = json.loads(json.dumps(rows))
print(len(",".join(row["name"] for row in rows if "3" in row["tags"])))""",
        "calls": """
class Node:
    def __init__(self, value):
        self.value, self.left, self.right = value, None, None
    def insert(self, value):
        side = "left" if value < self.value else "right"
        below = getattr(self, side)
        if below:
            below.insert(value)
        else:
            setattr(self, side, Node(value))
    def sum(self):
        return self.value + sum(side.sum() for side in (self.left, self.right) if side)
root, seed = Node(500), 1
for _ in range(9000):
    seed = (seed * 1103515245 + 12345) % 2147483648
    root.insert(seed % 100000)
print(root.sum())""",
    },
}


def cpu(sandbox: Sandbox, script: str) -> tuple[float, bytes]:
    start = time.process_time()
    execution = sandbox.execute(script, policy=Policy(limits=Limits(fuel=2**62)))
    seconds = time.process_time() - start
    if execution.outcome.tag != "completed":
        raise SystemExit(f"the script ended with the outcome {execution.outcome}")
    return seconds, execution.stdout.bytes


def instance(provider: Provider) -> float:
    start = time.perf_counter()
    Sandbox(provider).info()
    return time.perf_counter() - start


def main(language: str, metered: str, unmetered: str) -> None:
    provider = Provider(metered)
    instances = statistics.median(instance(provider) for _ in range(40))
    sandboxes = [Sandbox(provider), Sandbox(unmetered)]
    figures: dict[str, object] = {"instance_us": round(instances * 1e6)}
    for name, script in SCRIPTS[language].items():
        turns = [[cpu(sandbox, script) for sandbox in sandboxes] for _ in range(TURNS + 1)][1:]
        if len({printed for turn in turns for _, printed in turn}) != 1:
            raise SystemExit(f"{name}: the two providers print different output")
        median = statistics.median(metered / unmetered for (metered, _), (unmetered, _) in turns)
        least = [min(turn[which][0] for turn in turns) for which in range(2)]
        figures[name] = {"ratio": round(least[0] / least[1], 2), "median": round(median, 2), "ms": round(least[0] * 1000)}
    print(json.dumps(figures))


main(*sys.argv[1:])
