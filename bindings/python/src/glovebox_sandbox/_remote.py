"""The code shared by the backends that run scripts in another process: checks for unsupported options, and records of
executions."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, Protocol

from ._backend import Entry, Policy
from .displays import is_text
from .errors import FilesError, SessionError, UnavailableError, UnsupportedError


def refuse(policy: Policy, reason: str) -> None:
    """Refuses the options that only the engine in this process supports. `reason` follows the option's name in the
    message."""
    requested = {
        "workspace": policy.workspace is not None,
        "mounts": bool(policy.mounts),
        "commit": policy.commit != "always",
        "packages": policy.packages is not None,
        "network": policy.network is not None,
    }
    for name, is_requested in requested.items():
        if is_requested:
            raise UnsupportedError(f"{name}: {reason}")


def encoded(contents: bytes) -> dict[str, str]:
    """Encodes bytes as base64 for JSON."""
    return {"base64": base64.b64encode(contents).decode()}


def entries(listed: list[dict[str, Any]]) -> list[Entry]:
    """Converts file entries from JSON."""
    return [(entry["path"], entry["kind"], entry["size_bytes"], entry["modified_ns"]) for entry in listed]


def positions(diagnostics: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Converts a parser's diagnostics from JSON."""
    return [(each["line"], each["column"], each["message"]) for each in diagnostics]


def variable(value: dict[str, Any]) -> tuple[str, str | None]:
    """Converts a variable's value from JSON to its representation and its JSON text, if it has one."""
    return value["repr"], json.dumps(value["value"]) if "value" in value else None


def cancelled() -> dict[str, Any]:
    """Returns the record of a cancelled execution that has no result, for example because it had not begun."""
    lists = ("files_created", "files_modified", "files_deleted", "tool_calls", "displays")
    numbers = ("fuel_consumed", "memory_used_bytes", "duration_ms", "displays_dropped")
    fuel = {"used": 0, "limit": 0, "utilization_percent": 0, "status": "efficient", "suggested_limit": None}
    return {
        "success": False,
        "outcome": {"kind": "cancelled"},
        "exit_code": 130,
        "interrupted": None,
        "value": None,
        "stdout": "",
        "stderr": "",
        "stdout_truncated": False,
        "stderr_truncated": False,
        **{name: [] for name in lists},
        **dict.fromkeys(numbers, 0),
        "workspace_path": None,
        "session_id": None,
        "rolled_back_to": None,
        "guidance": {"fuel": {**fuel, "likely_causes": []}, "advice": []},
        "metadata": {},
    }


class RemoteSession:
    """A session in another process."""

    _is_closed = False

    def _live(self) -> dict[str, Any]:
        """Requests the session's description from the other process."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionError("the session is closed; open a new one")

    @property
    def ended(self) -> str | None:
        try:
            ended: str | None = self._live()["ended"]
            return ended
        except (SessionError, UnavailableError) as error:
            return str(error)

    def info(self) -> str:
        return json.dumps(self._live())


class SessionFiles(Protocol):
    """The session in which an execution ran. It contains the execution's files."""

    def list_files(self, pattern: str) -> list[Entry]: ...
    def read_file(self, path: str) -> bytes: ...


_OURS = ("error", "files", "files_left_out", "file_entries", "stdout_base64", "stderr_base64")
"""The fields of a record that `glovebox run --json` does not print."""


class RemoteExecution:
    """An execution in another process."""

    def __init__(self, record: dict[str, Any], session: SessionFiles | None) -> None:
        self._record = record
        self._session = session
        self.ok: bool = record["success"]
        self.stdout: str = record["stdout"]
        self.stderr: str = record["stderr"]
        self.fuel_consumed: int = record["fuel_consumed"]

    def _output(self, name: str) -> bytes:
        encoded = self._record.get(f"{name}_base64")
        return base64.b64decode(encoded) if encoded is not None else str(self._record[name]).encode()

    @property
    def stdout_bytes(self) -> bytes:
        return self._output("stdout")

    @property
    def stderr_bytes(self) -> bytes:
        return self._output("stderr")

    @property
    def value(self) -> tuple[str, str | None] | None:
        value = self._record["value"]
        return value and (value["repr"], json.dumps(value["json"]) if "json" in value else None)

    @property
    def displays(self) -> list[tuple[bool, list[tuple[str, bytes]]]]:
        return [
            (shown["is_result"], [(name, _form(name, data)) for name, data in shown["data"].items()])
            for shown in self._record["displays"]
        ]

    def list_files(self, pattern: str) -> list[Entry]:
        if self._session is not None:
            return self._session.list_files(pattern)
        if pattern != "**":
            raise UnsupportedError(
                'pattern: this backend supports patterns only in sessions; remove it, or use backend="native"'
            )
        return entries(self._record.get("file_entries", []))

    def read_file(self, path: str) -> bytes:
        if self._session is not None:
            return self._session.read_file(path)
        contents = self._record.get("files", {}).get(os.path.normpath(path))
        if contents is None:
            more = ", or is too large to return" if self._record.get("files_left_out") else ""
            raise FilesError(f"the file `{path}` does not exist{more}")
        return base64.b64decode(contents)

    def json(self) -> str:
        record = {key: value for key, value in self._record.items() if key not in _OURS}
        return json.dumps({**record, "displays": []})


def _form(media_type: str, data: str) -> bytes:
    return data.encode() if is_text(media_type) else base64.b64decode(data)
