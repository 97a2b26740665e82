"""Tests the client of the daemon with a scripted server in place of the daemon."""

from __future__ import annotations

import gc
import http.server
import json
import os
import socketserver
import tempfile
import threading
import time
import unittest
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glovebox_sandbox import Limits, PolicyError, Sandbox, Tool, UnavailableError
from glovebox_sandbox._daemon_client import Client
from glovebox_sandbox._input import _input
from glovebox_sandbox._remote import cancelled
from glovebox_sandbox.run import Run
from glovebox_sandbox.tools import CancelToken

Reply = Callable[["Handler"], "tuple[int, object]"]
"""Answers a request with a status and JSON."""

RECORD = {**cancelled(), "metadata": {"runtime": "javascript", "runtime_name": "js", "version": "1"}}

PYTHON = {"runtime": "python", "runtime_name": "python", "version": "3.15.0"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self) -> None:
        status, value = self.server.reply(self)
        contents = value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(contents)))
        self.end_headers()
        self.wfile.write(contents)

    do_GET = do_POST = do_DELETE = answer

    def body(self) -> dict[str, Any]:
        """Reads the body of the request."""
        value: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return value

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, test: unittest.TestCase, reply: Reply) -> None:
        directory = tempfile.TemporaryDirectory()
        test.addCleanup(directory.cleanup)
        path = Path(directory.name, "d.sock")
        super().__init__(str(path), Handler)
        self.reply = reply
        self.closed = threading.Event()
        """Set when a connection is closed."""
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        test.addCleanup(self.server_close)
        test.addCleanup(self.shutdown)
        os.environ["GLOVEBOX_DAEMON_SOCKET"] = str(path)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.set()


def opening(handler: Handler) -> tuple[int, object]:
    """Answers a request that opens a sandbox."""
    if handler.command == "POST":
        handler.body()
    return 200, {"protocol": 2} if handler.path == "/v1/info" else RECORD


class Scripted(unittest.TestCase):
    def test_only_options_that_differ_from_their_defaults_are_sent(self) -> None:
        sent: list[object] = []

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.command == "GET":
                return opening(handler)
            sent.append(handler.body().get("policy"))
            return 200, RECORD

        Server(self, reply)
        Sandbox("javascript", backend="daemon")
        Sandbox("javascript", backend="daemon", limits=Limits(timeout_ms=5), metering="none", seed=0, args=["a"])
        changes = {"limits": {"timeout_ms": 5}, "metering": "none", "entropy": {"seeded": 0}, "args": ["a"]}
        self.assertEqual(sent, [None, changes])

    def test_connection_that_the_daemon_closed_is_not_used_again(self) -> None:
        def reply(handler: Handler) -> tuple[int, object]:
            if handler.path != "/v1/validate":
                return opening(handler)
            handler.body()
            handler.close_connection = True
            return 200, {"diagnostics": []}

        server = Server(self, reply)
        box = Sandbox("javascript", backend="daemon")
        for _ in range(2):
            server.closed.clear()
            self.assertEqual(box.validate("1"), [])
            self.assertTrue(server.closed.wait(60))

    def test_type_check_is_requested_with_the_tools_after_the_syntax(self) -> None:
        sent: list[tuple[object, bool]] = []
        found = [{"line": 1, "column": 2, "message": "wrong"}]

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.path != "/v1/validate":
                status, answer = opening(handler)
                return status, {**RECORD, "metadata": PYTHON} if answer is RECORD else answer
            body = handler.body()
            sent.append((body.get("check_types"), "tools" in body))
            is_wrong = "check_types" in body or body["source"] == "("
            return 200, {"diagnostics": found if is_wrong else []}

        Server(self, reply)
        with Sandbox(backend="daemon", tools=[Tool(len, schema={"type": "object"})]) as box:
            self.assertEqual(box.validate("1"), [])
            self.assertEqual([each.message for each in box.validate("1", types=True)], ["wrong"])
            self.assertEqual([each.line for each in box.validate("(", types=True)], [1])
        self.assertEqual(sent, [(None, False), (None, False), (True, True), (None, False)])

    def test_session_validates_scripts_with_the_tools_only_for_types(self) -> None:
        sent: list[dict[str, Any]] = []

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.path == "/v1/sessions":
                handler.body()
                return 201, {"id": "s", "runtime": "python"}
            if handler.path != "/v1/sessions/s/validate":
                return opening(handler)
            sent.append(handler.body())
            return 200, {"diagnostics": [{"line": 1, "column": 2, "message": "wrong"}]}

        Server(self, reply)
        with Sandbox(backend="daemon", tools=[Tool(len, schema={"type": "object"})]) as box:
            session = box.session()
            for types in (False, True):
                self.assertEqual([each.message for each in session.validate("x", types=types)], ["wrong"])
        self.assertEqual([body.get("check_types") for body in sent], [None, True])
        self.assertEqual([set(body) - {"check_types"} for body in sent], [{"source"}, {"source", "tools"}])

    def test_server_that_does_not_answer_with_json_is_not_a_daemon(self) -> None:
        Server(self, lambda _: (200, b"<html>"))
        with self.assertRaisesRegex(UnavailableError, "is not a daemon, or has another protocol version"):
            Sandbox(backend="daemon")

    def test_rejection_that_arrives_before_the_end_of_a_large_request_is_reported(self) -> None:
        def reply(handler: Handler) -> tuple[int, object]:
            if handler.command == "GET":
                return opening(handler)
            # The server closes the connection without reading the rest of the request.
            handler.close_connection = True
            return 413, {"type": "too-large", "detail": "the request is too large"}

        Server(self, reply)
        for size in (1, 1 << 18, 8 << 20):
            with self.subTest(size), self.assertRaisesRegex(PolicyError, "the request is too large"):
                Sandbox(backend="daemon", files={"large": bytes(size)})

    def test_execution_that_is_cancelled_while_it_is_polled_keeps_its_result(self) -> None:
        polled, is_cancelled, token = threading.Event(), threading.Event(), CancelToken()
        execution = "/v1/executions/e"

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.path == f"{execution}/continue":
                handler.body()
                polled.set()
                is_cancelled.wait(60)
                return 404, {"type": "not-found", "detail": "cancelled"}
            if handler.command == "DELETE":
                is_cancelled.set()
                # The response to the poll must arrive before this response.
                time.sleep(0.2)
                return 200, {**RECORD, "stdout": "begun"}
            if handler.command == "GET":
                return opening(handler)
            if not handler.body()["source"]:
                return 200, RECORD
            call = {"id": 0, "name": "wait", "arguments": {}}
            return 200, {"type": "needs-tools", "execution": "e", "calls": [call]}

        def wait() -> None:
            polled.wait(60)
            token.cancel()
            is_cancelled.wait(60)

        Server(self, reply)
        box = Sandbox("javascript", backend="daemon", tools=[wait])
        run = Run(box._backend.execute(_input("wait", None, None, None, None, None, None, None, token)))
        self.assertEqual((run.outcome.kind, run.stdout), ("cancelled", "begun"))

    def test_rejected_result_does_not_affect_other_results(self) -> None:
        together = threading.Barrier(2, timeout=60)
        received: dict[int, object] = {}

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.command == "GET":
                return opening(handler)
            body = handler.body()
            if not body.get("source") and "answers" not in body:
                return 200, RECORD
            answers = {each["id"]: each.get("value", "failed") for each in body.get("answers", [])}
            if "bad" in answers.values():
                return 400, {"type": "invalid-argument", "detail": "nested too deeply"}
            received.update(answers)
            calls = [{"id": id, "name": "meet", "arguments": {"id": id}} for id in (0, 1) if id not in received]
            if not calls:
                return 200, {"type": "result", "result": RECORD}
            return 200, {"type": "needs-tools", "execution": "e", "calls": calls}

        def meet(id: int) -> str:
            together.wait()
            return ("bad", "good")[id]

        Server(self, reply)
        Sandbox("javascript", backend="daemon", tools=[meet]).execute("meet", on_stdout=lambda text: None)
        self.assertEqual(received, {0: "failed", 1: "good"})

    def test_calls_of_an_execution_reuse_idle_threads(self) -> None:
        together = threading.Barrier(2, timeout=60)
        answered: set[int] = set()
        used: dict[int, threading.Thread] = {}

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.command == "GET":
                return opening(handler)
            body = handler.body()
            if not body.get("source") and "answers" not in body:
                return 200, RECORD
            answered.update(each["id"] for each in body.get("answers", []))
            for step in ([0], [1], [2, 3]):
                calls = [{"id": id, "name": "meet", "arguments": {"id": id}} for id in step if id not in answered]
                if calls:
                    return 200, {"type": "needs-tools", "execution": "e", "calls": calls}
            return 200, RECORD

        def meet(id: int) -> None:
            used[id] = threading.current_thread()
            if id > 1:
                together.wait()

        Server(self, reply)
        Sandbox("javascript", backend="daemon", tools=[meet]).execute("meet")
        self.assertIs(used[0], used[1])
        self.assertIn(used[0], (used[2], used[3]))
        self.assertIsNot(used[2], used[3])
        for thread in used.values():
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def test_session_whose_closing_was_interrupted_is_closed_when_it_is_dropped(self) -> None:
        deleted = threading.Event()

        def reply(handler: Handler) -> tuple[int, object]:
            if handler.command == "DELETE":
                deleted.set()
                return 200, {}
            if handler.path != "/v1/sessions":
                return opening(handler)
            handler.body()
            return 201, {"id": "s", "runtime": "js"}

        Server(self, reply)
        session = Sandbox("javascript", backend="daemon").session()
        interrupted = unittest.mock.patch.object(Client, "json", side_effect=KeyboardInterrupt)
        with interrupted, self.assertRaises(KeyboardInterrupt):
            session.close()
        del session
        gc.collect()
        self.assertTrue(deleted.wait(60))


if __name__ == "__main__":
    unittest.main()
