"""Measures the costs of a session by runtime and size. Each process has sessions of only one runtime and size."""

from __future__ import annotations

import os
import statistics
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glovebox_sandbox import Sandbox, Session

PAGE_BYTES = 4096
# The address range reserved for a growable linear memory is far larger than any other inaccessible mapping.
RESERVED_BYTES = 1 << 30
EMPTY = bytes(PAGE_BYTES)
ROUNDS = 15
# Sizes of a session's data; 0 means a session with a single variable.
SIZES_MIB = (0, 1, 4, 16, 64)
# Number of concurrent sessions to average over, so that the process's other memory is negligible.
HELD = {0: 40, 1: 20, 4: 10, 16: 5, 64: 2}

PYTHON = {
    # Random numbers compress by only a tenth, which is about the worst case for script data.
    "fill": "import random, array\nheld = array.array('d', (random.random() for _ in range({values})))\nnumber = 1",
    "small": "number = 1",
    # A typical step: function calls, a container and some text.
    "step": "number += 1\nrows = [(i, str(i * number)) for i in range(200)]\nprint(len(rows), sum(len(text) for _, text in rows))",
}
JAVASCRIPT = {
    "fill": "globalThis.held = new Float64Array({values}).map(() => Math.random()); globalThis.number = 1",
    "small": "globalThis.number = 1",
    "step": "number += 1; globalThis.rows = Array.from({length: 200}, (_, i) => [i, String(i * number)]); "
    "console.log(rows.length, rows.reduce((sum, row) => sum + row[1].length, 0))",
}
SCRIPTS = {"python-3.12": PYTHON, "python-3.15-data": PYTHON, "javascript": JAVASCRIPT}


def measure(runtime: str) -> None:
    for size_mib in SIZES_MIB:
        # Each size is measured in a new process, because a process reuses memory from earlier measurements.
        command = [sys.executable, "-c", f"from measuring.sessions import one; one({runtime!r}, {size_mib})"]
        here = str(Path(__file__).resolve().parent.parent)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
        subprocess.run(command, check=True, env=environment)


def one(runtime: str, size_mib: int) -> None:
    from glovebox_sandbox import Limits, Sandbox

    scripts = SCRIPTS[runtime]
    limits = Limits(memory_bytes=512 << 20, timeout_ms=60_000)
    # Uses the default checkpoints, as a service does.
    box = Sandbox(runtime, limits=limits)
    setup = scripts["fill"].replace("{values}", str(size_mib << 17)) if size_mib else scripts["small"]
    session = opened(box, setup)
    session.execute(scripts["step"])
    states: list[bytes] = []
    execute_ms = [ms(lambda: session.execute(scripts["step"])) for _ in range(ROUNDS)]
    hibernate_ms = [ms(lambda: states.append(session.hibernate())) for _ in range(ROUNDS)]
    resume_ms, first_ms = [], []
    for state in states:
        resumed: list[Session] = []
        resume_ms.append(ms(lambda: resumed.append(box.resume(state))))
        first_ms.append(ms(lambda: resumed[0].execute(scripts["step"])))
        resumed[0].close()
    session.close()
    before = private_bytes()
    held = [opened(box, setup) for _ in range(HELD[size_mib])]
    for each in held:
        each.execute(scripts["step"])
    warm_bytes = (private_bytes() - before) // len(held)
    for each in held:
        each.close()
    pages, packed = written(Sandbox(runtime, limits=limits, checkpoints="never"), setup, scripts["step"])
    print(
        f'[[session]]\nruntime = "{runtime}"\nown_mib = {size_mib}\n'
        f"execute_ms = {middle(execute_ms)}\nhibernate_ms = {middle(hibernate_ms)}\n"
        f"resume_ms = {middle(resume_ms)}\nfirst_execute_ms = {middle(first_ms)}\nblob_bytes = {len(states[-1])}\n"
        f"warm_bytes = {warm_bytes}\nwritten_pages = {pages}\nwritten_packed_bytes = {packed}\n",
        flush=True,
    )


def opened(box: Sandbox, setup: str) -> Session:
    session = box.session()
    session.execute(setup).raise_for_outcome()
    return session


def ms(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3


def middle(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def private_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


def written(box: Sandbox, setup: str, step: str) -> tuple[int, int]:
    """Returns the number of pages that an execution changes, and the compressed size of the differences."""
    session = opened(box, setup)
    for _ in range(5):
        session.execute(step)
    counts = [difference(lambda: session.execute(step)) for _ in range(5)]
    session.close()
    return int(statistics.median(pages for pages, _ in counts)), int(statistics.median(packed for _, packed in counts))


def difference(call: Callable[[], object]) -> tuple[int, int]:
    before = dict(present())
    call()
    changed = [(page, before.get(address, EMPTY)) for address, page in present() if before.get(address) != page]
    bytes_changed = b"".join(xor(page, old) for page, old in changed)
    return len(changed), len(zlib.compress(bytes_changed, 1))


def xor(page: bytes, old: bytes) -> bytes:
    return (int.from_bytes(page) ^ int.from_bytes(old)).to_bytes(PAGE_BYTES)


def present() -> Iterator[tuple[int, bytes]]:
    """Yields the written pages of guests' linear memories, with their addresses. An inaccessible reservation follows each memory."""
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb") as pagemap, open("/proc/self/mem", "rb") as memory:
        for start, end in linear_memories(maps.read().splitlines()):
            pagemap.seek(start // PAGE_BYTES * 8)
            flags = pagemap.read((end - start) // PAGE_BYTES * 8)
            for number, (flag,) in enumerate(struct.iter_unpack("<Q", flags)):
                # The page is present and does not belong to the image.
                if flag >> 63 & 1 and not flag >> 61 & 1:
                    memory.seek(start + number * PAGE_BYTES)
                    yield start + number * PAGE_BYTES, memory.read(PAGE_BYTES)


def linear_memories(lines: list[str]) -> Iterator[tuple[int, int]]:
    before: list[tuple[int, int]] = []
    for line in lines:
        range_, rights = line.split()[:2]
        start, end = (int(each, 16) for each in range_.split("-"))
        if before and before[-1][1] != start:
            before = []
        if rights.startswith("rw"):
            before.append((start, end))
        elif rights.startswith("---"):
            if end - start >= RESERVED_BYTES:
                yield from before
            before = []
