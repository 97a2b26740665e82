"""The requests to a session's service, and its answers, through the engine's ingress."""

from __future__ import annotations

import json

from proof.history import Kind, Operation, service

EXECUTE = """\
n = globals().get('n', 0) + 1
print(n)
"""
# Calls the tool, which records its effect together with the operation. If the tool server is unreachable, the script
# receives an error and continues.
RECORD = """\
n = globals().get('n', 0) + 1
try:
    tools.record(operation={operation!r}, count=n)
    print(n, 'recorded')
except tools.ToolError:
    print(n, 'unknown')
"""
SCHEMA = {"type": "object", "properties": {"operation": {"type": "string"}, "count": {"type": "integer"}}, "required": ["operation", "count"]}

HANDLERS: dict[Kind, str] = {"execute": "execute", "record": "execute", "info": "info", "undo": "undo", "close": "close"}


def path(operation: Operation) -> str:
    return f"/{service(operation.session)}/{operation.session}/{HANDLERS[operation.kind]}"


def body(operation: Operation, callback: str) -> bytes | None:
    match operation.kind:
        case "execute":
            return json.dumps({"source": EXECUTE, "open": {}}).encode()
        case "record":
            tool = {"name": "record", "description": "Records the count.", "schema": SCHEMA, "callback": callback}
            return json.dumps({"source": RECORD.format(operation=operation.id), "open": {}, "tools": [tool]}).encode()
        case "undo" | "close":
            # `null` accepts any generation.
            return b"null"
        case "info":
            return None


def is_engine_error(status: int, answer: bytes) -> bool:
    """Returns `True` for an error of the engine itself or of a proxy in front of it: the outcome of the operation is
    then unknown. Status 400, for a malformed request, does not count."""
    if status < 400 or status == 400:
        return False
    try:
        return bool(json.loads(answer)["source"] == "ingress")
    except (ValueError, KeyError, TypeError):
        return True


def read(operation: Operation, status: int, answer: bytes) -> None:
    """Records an answer in the operation. Raises `ValueError` for an invalid answer."""
    match operation.kind, status:
        case "info", 404:
            operation.count = 0
        case "info" | "undo", 200:
            operation.count = int(json.loads(answer)["executions"])
        case "undo", 404 | 410:
            operation.refused = True
        case "close", 200:
            operation.count = int(json.loads(answer))
        case "execute" | "record", 200:
            execution = json.loads(answer)["execution"]
            if not execution["success"]:
                raise ValueError(f"the script failed: {answer[:300]!r}")
            count, _, rest = str(execution["stdout"]).strip().partition(" ")
            operation.count, operation.recorded = int(count), rest == "recorded"
        case _:
            raise ValueError(f"unexpected status {status}: {answer[:300]!r}")
