"""Runs scripts in an ordinary Python interpreter, with all rights of the current user: NOT a sandbox.

Speaks JSON-RPC 2.0 with the package over standard input and output, one message per line. Needs only Python 3.8 or later.
"""

import ast
import contextlib
import io
import json
import os
import queue
import re
import signal
import sys
import threading
import time
import traceback

# The protocol uses copies of the standard streams, so that scripts can neither write to it nor read from it.
OUT = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
IN = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
os.dup2(2, 1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

lock = threading.Lock()
work = queue.Queue()
answers = {}
sessions = {}
cancelled = set()
running = {"id": None, "why": None}


class RefusedRequest(Exception):
    def __init__(self, code, message, name="invalid-argument"):
        super().__init__(message)
        self.code, self.name = code, name


def send(message):
    with lock:
        OUT.write(json.dumps(dict(message, jsonrpc="2.0")) + "\n")
        OUT.flush()


def ask(method, params):
    number = len(answers) + 1
    answers[number] = mine = queue.Queue()
    send({"id": number, "method": method, "params": params})
    answer = mine.get()
    if "error" in answer:
        raise RuntimeError(answer["error"].get("message", "the client refused"))
    return answer.get("result")


def read():
    """Receives messages while the main thread runs scripts."""
    for line in IN:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method is None:
            if id in answers:
                answers[id].put(message)
        elif method == "cancel":
            given = (message.get("params") or {}).get("id")
            if given is not None:
                cancelled.add(given)
            if running["id"] is not None and given in (None, running["id"]):
                interrupt("cancelled")
            if id is not None:
                send({"id": id, "result": {}})
        else:
            work.put(message)
    os._exit(0)


def interrupt(why):
    running["why"] = running["why"] or why
    signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)


class Stream(io.TextIOBase):
    """An output stream of a script, forwarded to the client on request."""

    def __init__(self, name, request, wants_output):
        self.name, self.request, self.wants_output, self.pieces = name, request, wants_output, []

    def writable(self):
        return True

    def write(self, text):
        self.pieces.append(text)
        if self.wants_output and text:
            send({"method": "output", "params": {"request": self.request, "stream": self.name, "text": text}})
        return len(text)

    def text(self):
        return "".join(self.pieces)


class Tools:
    def __init__(self, session, names):
        for name in names:
            setattr(self, name, self.caller(session, name))

    @staticmethod
    def caller(session, name):
        def call(**arguments):
            return ask("tool", {"session": session, "name": name, "arguments": arguments})

        return call


def initialize(params):
    id = f"native-{len(sessions) + 1}"
    if params.get("language", "python") != "python" or params.get("runtime"):
        raise RefusedRequest(-32602, "only Python is supported without a sandbox", "unsupported")
    if params.get("files") or params.get("state"):
        raise RefusedRequest(-32602, "`files` are not supported without a sandbox, because scripts run in a host directory", "unsupported")
    names = [tool["name"] for tool in params.get("tools") or []]
    limits = (params.get("policy") or {}).get("limits") or {}

    def make():
        scope = {"__name__": "__main__", "__builtins__": __builtins__, "tools": Tools(id, names)}
        if "context" in params:
            scope["context"] = params["context"]

        def llm_query(prompt):
            return scope["tools"].llm_query(prompt=prompt)

        def rlm_query(task, ctx=None):
            ctx = scope.get("context") if ctx is None else ctx
            return scope["tools"].rlm_query(task=task, ctx=ctx)

        def chunk_text(text, size=1000, overlap=0):
            return [text[at : at + size] for at in range(0, len(text), max(size - overlap, 1))]

        def search_context(pattern, window=100):
            text = str(scope.get("context", ""))
            found = re.finditer(pattern, text)
            return [{"match": m.group(), "start": m.start(), "context": text[max(m.start() - window, 0) : m.end() + window]} for m in found]

        scope.update(llm_query=llm_query, rlm_query=rlm_query, chunk_text=chunk_text, search_context=search_context)
        return scope

    sessions[id] = {"make": make, "scope": make(), "timeout_ms": limits.get("timeout_ms", 10000), "count": 0}
    return {"session": id, "language": "python", "runtime": "native", "version": sys.version.split()[0]}


def session_of(params):
    id = params.get("session") or next(reversed(list(sessions)), None)
    if id not in sessions:
        raise RefusedRequest(-32002, "no session is open; open one with `initialize`", "not-initialized")
    return sessions[id]


def bytes_of(given):
    import base64

    return base64.b64decode(given["base64"]) if isinstance(given, dict) else (given or "").encode()


def run(code, name, scope):
    """Runs a script, and returns the value of a trailing expression."""
    tree = compile(code, name, "exec", ast.PyCF_ONLY_AST)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), scope)
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), scope)


def execute(id, params):
    session = session_of(params)
    scope = session["make"]() if params.get("fresh") else session["scope"]
    if "context" in params:
        scope["context"] = params["context"]
    name = params.get("name") or "<script>"
    out, err = Stream("stdout", id, params.get("stream")), Stream("stderr", id, params.get("stream"))
    outcome, error, value = {"kind": "completed"}, None, None
    limit = session["timeout_ms"]
    timers = [threading.Timer(limit / 1000, interrupt, ["time"])]
    if params.get("timeout_ms") is not None:
        timers.append(threading.Timer(params["timeout_ms"] / 1000, interrupt, ["cancelled"]))
    begun = time.perf_counter()
    stdin = io.TextIOWrapper(io.BytesIO(bytes_of(params.get("stdin"))), encoding="utf-8")
    before = sys.stdin
    try:
        sys.stdin = stdin
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            running["id"], running["why"] = id, None
            for timer in timers:
                timer.daemon = True
                timer.start()
            value = run(params["code"], name, scope)
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
        outcome, error = {"kind": "exited", "code": code}, None if code == 0 else f"exited with {code}"
    except BaseException as raised:
        kind, message = type(raised).__name__, str(raised)
        frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == name]
        shown = "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames))
        shown += "".join(traceback.format_exception_only(type(raised), raised))
        line = frames[-1].lineno if frames else getattr(raised, "lineno", None)
        outcome = {"kind": "raised", "type": kind, "message": message, "traceback": shown, "line": line}
        error = f"{kind}: {message}" if message else kind
        err.write(shown)
        if isinstance(raised, KeyboardInterrupt) and running["why"] == "time":
            outcome = {"kind": "exhausted", "resource": "time", "limit": limit, "used": limit}
            error = f"out of time: ran longer than {limit} ms"
        elif isinstance(raised, KeyboardInterrupt) and running["why"]:
            outcome, error = {"kind": "cancelled"}, "cancelled"
    finally:
        running["id"] = None
        for timer in timers:
            timer.cancel()
        sys.stdin = before
    session["count"] += 1
    lists = ("files_created", "files_modified", "files_deleted", "tool_calls", "displays")
    fuel = {"used": 0, "limit": 0, "utilization_percent": 0, "status": "efficient", "suggested_limit": None, "likely_causes": []}
    record = {
        "success": error is None,
        "outcome": outcome,
        "error": error,
        "interrupted": None,
        "value": None if value is None else shown_value(value),
        "stdout": out.text(),
        "stderr": err.text(),
        "stdout_truncated": False,
        "stderr_truncated": False,
        "displays_dropped": 0,
        "fuel_consumed": 0,
        "memory_used_bytes": 0,
        "duration_ms": (time.perf_counter() - begun) * 1000,
        "workspace_path": None,
        "session_id": None if params.get("fresh") else params.get("session"),
        "rolled_back_to": None,
        "guidance": {"fuel": fuel, "advice": []},
        "metadata": {},
    }
    record.update((name, []) for name in lists)
    return record


def shown_value(value):
    shown = {"repr": repr(value)}
    try:
        shown["json"] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        pass
    return shown


def get_variable(params):
    scope = session_of(params)["scope"]
    if params["name"] not in scope:
        return {"found": False}
    shown = shown_value(scope[params["name"]])
    return {"found": True, "repr": shown["repr"], **({"value": shown["json"]} if "json" in shown else {})}


def set_variable(params):
    session_of(params)["scope"][params["name"]] = params["value"]
    return {}


def validate(params):
    try:
        compile(params["code"], params.get("name") or "<script>", "exec", ast.PyCF_ONLY_AST)
    except SyntaxError as error:
        return {"diagnostics": [{"line": error.lineno or 1, "column": error.offset or 1, "message": f"{type(error).__name__}: {error.msg}"}]}
    return {"diagnostics": []}


def info(params):
    session = session_of(params)
    numbers = dict.fromkeys(("memory_bytes", "private_bytes", "held_bytes", "checkpoints", "checkpoints_skipped", "rollbacks"), 0)
    return dict(numbers, id=params.get("session"), language="python", runtime_name="native", executions=session["count"], ended=None)


def destroy(params):
    session_of(params)
    sessions.pop(params.get("session") or next(reversed(list(sessions))), None)
    return {}


METHODS = {
    "initialize": initialize,
    "getVariable": get_variable,
    "setVariable": set_variable,
    "validate": validate,
    "info": info,
    "destroy": destroy,
}


def answer(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    try:
        if method != "execute" and method not in METHODS:
            raise RefusedRequest(-32601, f"`{method}` is not supported without a sandbox", "unsupported")
        if id is not None and id in cancelled:
            raise RefusedRequest(-32800, "the execution was cancelled before it started", "cancelled")
        result = execute(id, params) if method == "execute" else METHODS[method](params)
        reply = {"id": id, "result": result}
    except RefusedRequest as refused:
        reply = {"id": id, "error": {"code": refused.code, "message": str(refused), "data": {"code": refused.name}}}
    except (KeyError, TypeError, ValueError) as error:
        reply = {"id": id, "error": {"code": -32602, "message": f"invalid parameters: {error}", "data": {"code": "invalid-argument"}}}
    cancelled.discard(id)
    if id is not None:
        send(reply)


def main():
    # Timeouts use SIGINT, which is initially ignored if a shell starts this program in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=read, daemon=True).start()
    while True:
        # A signal that arrives after the end of its execution must not end this loop.
        try:
            answer(work.get())
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
