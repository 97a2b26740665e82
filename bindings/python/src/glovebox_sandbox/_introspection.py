"""Completion and inspection of a session's names. The queries run in a fork, so that getters and `__dir__` cannot
change the session."""

from __future__ import annotations

import json
import re
from typing import Any

from .sandbox import Sandbox, Session

TIMEOUT_MS = 1000
"""Timeout of the scripts for completion and inspection, in milliseconds."""

_MAX_MATCHES = 1000

_PYTHON_COMPLETE = """
def __glovebox(path, prefix):
    import builtins, keyword, __main__
    if path:
        value = eval(path, vars(__main__))
        names = set(dir(value))
    else:
        names = (set(vars(__main__)) - {"__glovebox"}) | set(dir(builtins)) | set(keyword.kwlist)
    if not prefix.startswith("_"):
        names = {name for name in names if not name.startswith("_")}
    return sorted(name for name in names if name.startswith(prefix))
__glovebox(*%s)
"""

_PYTHON_INSPECT = """
def __glovebox(path):
    import inspect, __main__, builtins
    names = {**vars(builtins), **vars(__main__)}
    value = eval(path, names)
    lines = []
    if callable(value):
        try:
            lines.append("Signature: " + path + str(inspect.signature(value)))
        except (TypeError, ValueError):
            pass
    else:
        text = repr(value)
        lines.append("Value: " + (text if len(text) <= 500 else text[:500] + "..."))
    lines.append("Type: " + type(value).__name__)
    documentation = inspect.getdoc(value)
    if documentation:
        lines.append("Docstring:\\n" + documentation)
    return "\\n".join(lines)
__glovebox(*%s)
"""

# `eval` sees the session's `let`, `const` and `class` declarations, which are not properties of `globalThis`.
_JAVASCRIPT_COMPLETE = """
((path, prefix) => {
    const names = new Set();
    for (let at = path ? Object(eval(path)) : globalThis; at !== null; at = Object.getPrototypeOf(at)) {
        for (const name of Object.getOwnPropertyNames(at)) names.add(name);
    }
    return [...names].filter((name) => name.startsWith(prefix) && /^[\\p{L}$_][\\p{L}\\p{N}$_]*$/u.test(name)).sort();
})(...%s)
"""

_WORD = {"python": r"\w", "javascript": r"[\w$]"}


def complete(session: Session, language: str, code: str, cursor: int) -> tuple[list[str], int]:
    """Returns the completions of the name before the cursor, and the position where the name begins. Completes names
    and attributes only."""
    word = _WORD[language]
    before = code[:cursor]
    # Splits a dotted name before its last component. Calls and indexes are not evaluated.
    path, prefix = re.search(rf"((?:(?!\d){word}+\.)*)({word}*)\Z", before).groups()  # type: ignore[union-attr]
    start = cursor - len(prefix)
    attribute_of_something = not path and before[:start].endswith(".")
    if attribute_of_something or prefix[:1].isdigit() or not (path or prefix):
        return [], start
    script = _PYTHON_COMPLETE if language == "python" else _JAVASCRIPT_COMPLETE
    value = _run_in_fork(session, language, script, path[:-1], prefix)
    if not isinstance(value, list):
        return [], start
    # The names come from the guest, so they are untrusted.
    matches = [match for match in value if isinstance(match, str) and match.startswith(prefix)]
    return matches[:_MAX_MATCHES], start


def inspect(session: Session, language: str, code: str, cursor: int) -> str | None:
    """Returns the signature or value, the type and the docstring of the Python name at the cursor. Returns `None` for
    JavaScript, which has no docstrings."""
    if language != "python":
        return None
    before = re.search(r"(?:(?!\d)\w+\.)*(?:(?!\d)\w+)?\Z", code[:cursor])
    after = re.match(r"\w*", code[cursor:])
    path = (before[0] if before else "") + (after[0] if after else "")
    if not path and code[:cursor].endswith("("):
        # After an opening parenthesis, the subject is the called function.
        return inspect(session, language, code, cursor - 1)
    if not path or path.endswith("."):
        return None
    value = _run_in_fork(session, language, _PYTHON_INSPECT, path)
    return value if isinstance(value, str) else None


def _run_in_fork(session: Session, language: str, script: str, *arguments: str) -> Any:
    # A JSON array of strings is also a valid literal in Python and JavaScript.
    source = script % json.dumps(arguments)
    fork = session.fork()
    return fork.execute(source, timeout_ms=TIMEOUT_MS).value


_PYTHON_UNFINISHED = re.compile(r"was never closed|unterminated triple-quoted|unexpected EOF")
_PYTHON_BLOCK = re.compile(r"expected an indented block|expected 'except' or 'finally' block")


def is_complete(box: Sandbox, language: str, code: str) -> dict[str, Any]:
    """Returns the content of Jupyter's `is_complete_reply` for a source, from the messages of the language's own
    parser. Executes nothing."""
    diagnostics = box.validate(code)
    lines = code.splitlines()
    last = lines[-1] if lines else ""
    indent = last[: len(last) - len(last.lstrip())]
    if not diagnostics:
        # As at Python's prompt, an empty line closes an indented block.
        is_open = language == "python" and bool(indent) and bool(last.strip()) and not code.endswith("\n")
        return {"status": "incomplete", "indent": indent} if is_open else {"status": "complete"}
    first = diagnostics[0]
    written = code.rstrip().splitlines() or [""]
    is_behind = (first.line, first.column) > (len(written), len(written[-1]))
    if language == "python":
        is_unfinished = bool(_PYTHON_UNFINISHED.search(first.message)) or last.startswith("@")
        if is_behind and _PYTHON_BLOCK.search(first.message):
            is_unfinished = True
    else:
        is_template = "unexpected end of string" in first.message and code.count("`") % 2 == 1
        is_unfinished = is_behind or is_template or "end of comment" in first.message or "end of input" in first.message
    if not is_unfinished:
        return {"status": "invalid"}
    return {"status": "incomplete", "indent": indent + "    " if last.rstrip().endswith((":", "{")) else indent}
