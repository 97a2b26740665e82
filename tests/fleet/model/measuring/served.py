"""Replays a trace on a server with memory for some of its sessions, and compares its misses with the model's."""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any


def measure(glovebox: Path, trace: Path) -> None:
    """Replays a trace. Its first line is `{"live": N, "sessions": N}`; each further line is `[session, predicted in memory]`."""
    lines = trace.read_text().splitlines()
    head, steps = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "server.toml"
        config.write_text(
            f'listen = "127.0.0.1:0"\nruntimes = ["python"]\n[sessions]\nlive_count = {head["live"]}\nidle_ms = 3_600_000\n'
            f"[[tokens]]\nname = \"trace\"\nsha256 = \"{sha256(token)}\"\nsessions = 100_000\nexecutions_per_minute = 1_000_000\n"
        )
        command = [str(glovebox), "serve", "--config", str(config), "--store", f"{directory}/store", "--no-page"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                replay(Client(port_of(server), token), head, steps)
            finally:
                server.kill()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def port_of(server: subprocess.Popen[str]) -> int:
    assert server.stdout is not None
    for line in server.stdout:
        if "http://127.0.0.1:" in line:
            return int(line.rsplit("http://127.0.0.1:", 1)[1].split("/")[0].strip())
    raise RuntimeError("the server exited before it listened")


class Client:
    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: status {answer.status}: {text[:200]!r}")
        return json.loads(text)


def replay(client: Client, head: dict[str, int], steps: list[tuple[int, bool]]) -> None:
    for number in range(head["sessions"]):
        client.ask("POST", "/v1/sessions", {"language": "python", "id": f"s{number}"})
    # The listing shows which sessions are in memory, without resuming any.
    live: list[bool] = []
    for session, _ in steps:
        sessions = client.ask("GET", "/v1/sessions", None)["sessions"]
        live.append(any(each["id"] == f"s{session}" and each["live"] is not None for each in sessions))
        answer = client.ask("POST", f"/v1/sessions/s{session}/execute", {"source": "print(1)"})
        if answer.get("stdout", "").strip() != "1":
            raise RuntimeError(f"unexpected answer: {answer}")
    predicted = [warm for _, warm in steps]
    print(
        f"[served]\nexecutions = {len(steps)}\npredicted_misses = {predicted.count(False)}\nobserved_misses = {live.count(False)}\n"
        f"as_predicted = {sum(one == other for one, other in zip(live, predicted, strict=True))}\n"
    )
