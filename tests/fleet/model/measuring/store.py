"""Measures latencies of an S3 server on loopback by size of the blob. The latency of a network is a separate assumption."""

from __future__ import annotations

import http.client
import os
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

SIZES_BYTES = (4 << 10, 128 << 10, 1 << 20, 16 << 20)
ROUNDS = {4 << 10: 300, 128 << 10: 300, 1 << 20: 100, 16 << 20: 20}
START_S = 30


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def measure(weed: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        # SeaweedFS adds 10,000 to each port number for gRPC, so the ports must be low enough.
        ports = {name: free_port() % 20_000 + 20_000 for name in ("master", "volume", "filer", "s3")}
        options = [f"-{name}.port={port}" for name, port in ports.items()]
        command = [str(weed), "server", "-ip=127.0.0.1", "-filer", "-s3", f"-dir={directory}", "-volume.max=20", *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                rounds(ports["s3"])
            finally:
                server.kill()


def rounds(port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            ask(http.client.HTTPConnection("127.0.0.1", port, timeout=10), "PUT", "/bench", b"")
            ask(http.client.HTTPConnection("127.0.0.1", port, timeout=10), "PUT", "/bench/first", b"1")
            break
        except (OSError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for size in SIZES_BYTES:
        put_ms, get_ms = [], []
        for number in range(ROUNDS[size]):
            body = os.urandom(size)
            put_ms.append(ask(connection, "PUT", f"/bench/{size}/{number}", body))
        for number in range(ROUNDS[size]):
            get_ms.append(ask(connection, "GET", f"/bench/{size}/{number}", None))
        print(f"[[store]]\nbytes = {size}\nput_ms = {figures(put_ms)}\nget_ms = {figures(get_ms)}\n", flush=True)


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None) -> float:
    begun = time.perf_counter()
    connection.request(method, path, body)
    answer = connection.getresponse()
    answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: status {answer.status}")
    return (time.perf_counter() - begun) * 1e3


def figures(values: list[float]) -> str:
    """Returns p50 and p99 as a TOML array."""
    return f"[{statistics.median(values):.2f}, {statistics.quantiles(values, n=100)[98]:.2f}]"
