"""Tests all backends with one suite: the engine in this process, a provider component, and the daemon."""

from __future__ import annotations

import http.server
import json
import os
import tempfile
import threading
import time
import unittest
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glovebox_sandbox import (
    CommitError,
    FilesError,
    GloveboxError,
    Limits,
    Mount,
    Network,
    Opaque,
    PolicyError,
    ScriptError,
    Secret,
    SessionError,
    Tool,
    ToolDenied,
    UnsupportedError,
    _check,
)
from scripts import BackendCase

if TYPE_CHECKING:
    Case = unittest.TestCase
else:
    Case = object


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


async def slow(text: str) -> str:
    """Converts text to upper case asynchronously."""
    return text.upper()


def fail() -> None:
    """Always fails."""
    raise RuntimeError("no such luck \ud800")


def deny() -> None:
    """Always refuses."""
    raise ToolDenied("not today")


class Suite(BackendCase, Case):
    def test_displays_have_all_their_forms(self) -> None:
        with self.sandbox(limits=Limits(display_bytes=70)) as box:
            run = box.execute(self.script("show"))
            self.assertEqual([list(shown) for shown in run.displays], [["text/plain"], ["text/html", "image/png"]])
            one, two = run.displays
            self.assertEqual((one.text, one.html, two.html, two.png, two["image/png"]), ("1", None, "<b>é</b>", b"\x89PNG", b"\x89PNG"))
            self.assertEqual((one.is_result, run.displays_dropped, run.stdout), (False, 0, ""))
            self.assertEqual(two.bundle(), {"text/html": "<b>é</b>", "image/png": "iVBORw=="})
            record = run.to_dict()
            self.assertEqual(record["displays"][1], {"is_result": False, "data": two.bundle()})
            self.assertEqual(list(record).index("displays") + 1, list(record).index("displays_dropped"))
            # The record omits the images, which only `displays` loads.
            self.assertNotIn("iVBORw==", run._executed.json())
            dropped = box.execute(self.script("show") + "\n" + self.script("show"))
            self.assertEqual((len(dropped.displays), dropped.displays_dropped), (2, 2))
        with self.sandbox() as box, box.session() as session:
            (result,) = session.execute(self.script("show_result")).displays
            self.assertEqual((result.is_result, result.html), (True, "<i>"))
            self.assertEqual(session.execute(self.script("answer")).displays, [])

    def test_run_reports_what_the_script_did(self) -> None:
        with self.sandbox() as box:
            run = box.execute(self.script("answer"))
        self.assertTrue(run.ok)
        self.assertEqual((run.outcome.kind, run.outcome.exit_code, str(run.outcome)), ("completed", 0, "completed"))
        self.assertEqual((run.stdout, run.stdout_bytes, run.stderr), ("42\n", b"42\n", ""))
        self.assertGreater(run.fuel_consumed, 1000)
        self.assertGreater(run.memory_used_bytes, 1000)
        self.assertGreater(run.duration_ms, 0)
        self.assertIs(run.raise_for_outcome(), run)
        self.assertEqual(run.to_dict()["stdout"], "42\n")
        self.assertEqual((run.files_created, run.tool_calls, run.value, run.session_id), ([], [], None, None))
        self.assertIn("completed", repr(run))
        with self.assertRaisesRegex(SessionError, "the sandbox was closed"):
            box.execute("1")

    def test_each_script_ending_is_an_outcome(self) -> None:
        box = self.sandbox(limits=Limits(fuel=300_000_000))
        raised = box.execute(self.script("raise"), name="x.src").outcome
        self.assertEqual((raised.kind, raised.type, raised.message, raised.exit_code), ("raised", "TypeError", "no", 1))
        self.assertEqual(raised.line, 2)
        self.assertIn("x.src", raised.traceback or "")
        exited = box.execute(self.script("exit")).outcome
        self.assertEqual((exited.kind, exited.code, exited.exit_code), ("exited", 3, 3))
        run = box.execute(self.script("endless"))
        spent = run.outcome
        self.assertEqual((spent.kind, spent.resource, spent.limit, spent.exit_code), ("exhausted", "fuel", 300_000_000, 137))
        self.assertIn("OutOfFuel", run.stderr)
        self.assertFalse(run.ok)
        self.assertEqual(box.execute(self.script("answer")).stdout, "42\n")

    def test_time_is_limited_by_the_sandbox_and_by_each_call(self) -> None:
        begun = time.monotonic()
        box = self.sandbox(limits=Limits(timeout_ms=200))
        for name in ("endless", "sleep"):
            outcome = box.execute(self.script(name)).outcome
            self.assertEqual((outcome.kind, outcome.resource, outcome.limit, outcome.exit_code), ("exhausted", "time", 200, 124))
        outcome = self.sandbox().execute(self.script("endless"), timeout_ms=100).outcome
        self.assertEqual((outcome.kind, outcome.exit_code), ("cancelled", 130))
        self.assertLess(time.monotonic() - begun, 20)

    def test_script_exceptions_are_raised_on_request(self) -> None:
        run = self.sandbox().execute(self.script("raise"))
        with self.assertRaisesRegex(ScriptError, "TypeError: no") as raised:
            run.raise_for_outcome()
        self.assertIs(raised.exception.run, run)

    def test_call_has_input_and_context(self) -> None:
        box = self.sandbox(env={"K": "v"}, args=["one", "two"])
        for stdin in ("höre\n", "höre\n".encode()):
            self.assertEqual(box.execute(self.script("stdin"), stdin=stdin).stdout, "höre\n")
        self.assertEqual(box.execute(self.script("context"), context={"city": "Oslo"}).stdout, "Oslo\n")
        printed = box.execute(self.script("print_args")).stdout
        self.assertEqual(printed.replace('"', "'").replace("[ ", "[").replace(" ]", "]"), "['one', 'two'] v\n")

    def test_files_are_passed_in_and_returned(self) -> None:
        box = self.sandbox(files={"in.csv": "a,b\n", "d/e.bin": b"\0\1"})
        run = box.execute(self.script("write"))
        self.assertEqual((run.files_created, run.files_modified, run.files_deleted), (["out.csv"], ["in.csv"], []))
        self.assertEqual((run.files["out.csv"], run.files["in.csv"]), (b"1,2", b"a,b\nmore"))
        self.assertEqual(sorted(run.files), ["d/e.bin", "in.csv", "out.csv"])
        self.assertEqual((len(run.files), "out.csv" in run.files, "absent" in run.files), (3, True, False))
        self.assertEqual({entry.path: entry.kind for entry in run.files.list()}["d"], "directory")
        with self.assertRaises(KeyError):
            run.files["absent"]
        # The files of one execution are not visible to the next execution.
        self.assertEqual(box.execute(self.script("read")).stdout, "a,b\n\n")

    def test_output_is_passed_to_listeners(self) -> None:
        box = self.sandbox()
        out: list[str] = []
        err: list[str] = []
        run = box.execute(self.script("streams"), on_stdout=out.append, on_stderr=err.append)
        self.assertEqual(("".join(out), "".join(err)), ("ö" * 5000 + "\n", "bad\n"))
        self.assertEqual((run.stdout, run.stderr), ("".join(out), "".join(err)))

        def stop(_text: str) -> None:
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            box.execute(self.script("streams"), on_stdout=stop)
        self.assertEqual(box.execute(self.script("answer")).stdout, "42\n")

    def test_output_is_truncated_at_a_character(self) -> None:
        run = self.sandbox(limits=Limits(stdout_bytes=1001)).execute(self.script("streams"))
        self.assertEqual((run.stdout, len(run.stdout_bytes), run.stdout_truncated), ("ö" * 500, 1001, True))
        self.assertFalse(run.stderr_truncated)
        if self.language == "python":
            box = self.sandbox(limits=Limits(stdout_bytes=3))
            source = r"import sys; sys.stdout.buffer.write(b'\xffa\xc3\xb6')"
            self.assertEqual(box.execute(source).stdout, "\ufffda", "after invalid UTF-8")

    def test_session_keeps_variables_and_files(self) -> None:
        box = self.sandbox(files={"in.csv": "begin"})
        with box.session(context={"city": "Oslo"}) as session:
            self.assertEqual(session.execute(self.script("context")).stdout, "Oslo\n")
            session.execute(self.script("let"))
            run = session.execute(self.script("value"))
            self.assertEqual((run.value, run.session_id), ([1, "two", None], session.id))
            self.assertIsInstance(session.execute(self.script("opaque")).value, Opaque)
            self.assertIsNone(session.execute(self.script("let")).value)
            self.assertEqual(session.variables["x"], 1)
            session.variables["y"] = {"k": [1.5, "ü", None]}
            self.assertEqual((session.variables["y"], "y" in session.variables), ({"k": [1.5, "ü", None]}, True))
            self.assertEqual((session.variables.get("absent", 7), "absent" in session.variables), (7, False))
            with self.assertRaises(KeyError):
                session.variables["absent"]
            self.assertEqual(session.info.executions, 5)
        self.assertIn("closed", session.ended or "")
        with self.assertRaises(SessionError):
            session.execute(self.script("answer"))
        session.close()

    def test_a_sessions_files_are_read_and_written(self) -> None:
        with self.sandbox(files={"in.csv": "begin"}).session() as session:
            self.assertEqual(session.execute(self.script("read")).stdout, "begin\n")
            session.files.write("d/a.txt", "text")
            session.files.write("d/a.txt", b"bytes")
            run = session.execute(self.script("write_a"))
            self.assertEqual((run.files_created, run.files["d/b.txt"]), (["d/b.txt"], b"there"))
            self.assertEqual([entry.path for entry in session.files.list("d/*")], ["d/a.txt", "d/b.txt"])
            self.assertEqual(session.files.read("d/a.txt"), b"bytes")
            for refused in (
                lambda: session.files.read("absent"),
                lambda: session.files.write("../x", b""),
                lambda: session.files.delete("d"),
            ):
                with self.assertRaises(FilesError):
                    refused()
            session.files.delete("d", recursive=True)
            self.assertEqual([entry.path for entry in session.files.list()], ["in.csv"])

    def test_a_session_is_forked_undone_and_resumed(self) -> None:
        box = self.sandbox(checkpoints="always")
        with box.session() as session:
            session.execute(self.script("let"))
            fork = session.fork()
            session.execute(self.script("increase"))
            session.undo()
            self.assertEqual(session.variables["x"], 1)
            mark = session.checkpoint()
            self.assertIn(mark, [each.id for each in session.checkpoints()])
            session.execute(self.script("increase"))
            self.assertEqual((session.variables["x"], fork.variables["x"]), (2, 1))
            self.assertEqual(session.undo(mark), mark)
            self.assertEqual(session.variables["x"], 1)
            session.execute(self.script("increase"))
            state = session.hibernate()
            with self.assertRaises(SessionError):
                session.undo(1_000_000)
        with box.resume(state) as resumed:
            self.assertEqual(resumed.variables["x"], 2)
        with self.assertRaises(SessionError):
            box.resume(state[:-1] + bytes([state[-1] ^ 1]))
        with self.assertRaises(SessionError):
            box.resume(b"nothing")

    def test_unwound_session_is_rolled_back(self) -> None:
        with self.sandbox(limits=Limits(fuel=300_000_000, fuel_reserve=0), checkpoints="always").session() as session:
            session.execute(self.script("let"))
            run = session.execute(self.script("increase") + "\n" + self.script("endless"))
            self.assertEqual(run.outcome.kind, "exhausted")
            self.assertIsNotNone(run.rolled_back_to)
            self.assertEqual(session.variables["x"], 1)

    def test_functions_are_tools(self) -> None:
        box = self.sandbox(tools=[add, slow, deny, Tool(fail, description="Fails.")])
        run = box.execute(self.script("tool"))
        self.assertEqual(run.stdout, "42\n")
        call = run.tool_calls[0]
        self.assertEqual((call.name, call.arguments, call.result, call.error), ("add", {"a": 20, "b": 22}, 42, None))
        self.assertEqual(box.execute(self.script("tool_default")).stdout, "21\n")
        self.assertEqual(box.execute(self.script("slow_tool")).stdout, "LATER\n")
        failed = box.execute(self.script("tool_fails"))
        self.assertEqual(failed.stdout, "no such luck \\ud800\n")
        self.assertEqual(failed.tool_calls[0].error, "ToolError: no such luck \\ud800")
        denied = box.execute(self.script("tool_denied"))
        self.assertEqual((denied.stdout, denied.tool_calls[0].error), ("not today\n", "ToolDenied: not today"))
        wrong = box.execute(self.script("tool_wrong"))
        self.assertEqual(wrong.stdout, "InvalidArguments\n")
        with box.session() as session:
            self.assertEqual(session.execute(self.script("tool")).stdout, "42\n")

    def test_integers_and_the_order_of_keys_are_kept(self) -> None:
        kept: dict[str, Any] = {"b": [2**53 + 1, -(2**63) - 1, 10**30 + 7], "a": [0.5, True, None]}
        if self.language == "python":
            # JavaScript sorts numeric keys, and has one type for all numbers.
            kept |= {"10": 1e20, "9": [-0.0, 10**20]}
        given: list[Any] = []

        def echo(x: Any) -> Any:
            given.append(x)
            return x

        with self.sandbox(tools=[echo]) as box, box.session(context=kept) as session:
            run = session.execute(self.script("echo"))
            session.variables["y"] = kept
            call = run.tool_calls[0]
            everything = [run.value, call.arguments["x"], call.result, given[0], session.variables["x"], session.variables["y"]]
            self.assertEqual([json.dumps(each) for each in everything], [json.dumps(kept)] * 6)

    def test_validation_reports_the_failing_position(self) -> None:
        box = self.sandbox()
        self.assertEqual(box.validate(self.script("answer")), [])
        found = box.validate(self.script("syntax"))
        self.assertEqual((found[0].line, len(found)), (1, 1))
        self.assertIn("SyntaxError", found[0].message)

    def test_guidance_suggests_changes(self) -> None:
        guidance = self.sandbox().execute(self.script("missing")).guidance
        self.assertEqual((guidance.fuel.status, [each.kind for each in guidance.advice]), ("efficient", ["module"]))
        correction = guidance.advice[0].correction
        self.assertIn("json" if self.language == "python" else "path", correction.text if correction else "")

    def test_seed_and_clock_make_runs_equal(self) -> None:
        def runs(**options: Any) -> set[tuple[str, int]]:
            sandboxes = [self.sandbox(**options) for _ in range(2)]
            return {(run.stdout, run.fuel_consumed) for run in (box.execute(self.script("random")) for box in sandboxes)}

        self.assertEqual(len(runs(seed=7, clock_ns=1_000_000_000)), 1)
        self.assertEqual(len({out for out, _ in runs(seed=7, clock_ns=0) | runs(seed=8, clock_ns=0)}), 2)
        self.assertEqual(len({out for out, _ in runs()}), 2)

    def test_invalid_options_are_rejected_before_running(self) -> None:
        for limits, expected in [(Limits(fuel=0), "fuel"), (Limits(memory_bytes=1), "memory.bytes")]:
            with self.assertRaisesRegex(PolicyError, expected):
                self.sandbox(limits=limits).execute("1")
        with self.assertRaises(PolicyError):
            self.sandbox(limits=Limits(source_bytes=7)).execute("x" * 8)
        self.assertTrue(issubclass(PolicyError, GloveboxError) and issubclass(PolicyError, ValueError))

    def test_wrong_types_are_named(self) -> None:
        box = self.sandbox()
        session = box.session()
        wrong: list[tuple[str, Any]] = [
            ("source must be str, not int", lambda: box.execute(1)),  # type: ignore[arg-type]
            ("name must be str", lambda: box.execute("1", name=b"x")),  # type: ignore[arg-type]
            ("stdin must be str or bytes", lambda: box.execute("1", stdin=1)),  # type: ignore[arg-type]
            ("timeout_ms must be int, not float", lambda: box.execute("1", timeout_ms=1.5)),  # type: ignore[arg-type]
            ("on_stdout must be callable", lambda: box.execute("1", on_stdout=1)),  # type: ignore[arg-type]
            ("context must be a JSON value", lambda: box.execute("1", context={1, 2})),
            ("context must be a JSON value", lambda: box.session(context=float("nan"))),
            ('kind must be "detect"', lambda: box.execute("1", kind="x")),  # type: ignore[arg-type]
            ("source must be str", lambda: box.validate(None)),  # type: ignore[arg-type]
            ("state must be bytes", lambda: box.resume("x")),  # type: ignore[arg-type]
            ("path must be str", lambda: session.files.read(1)),  # type: ignore[arg-type]
            ("contents must be str or bytes", lambda: session.files.write("a", 1)),  # type: ignore[arg-type]
            ("value must be a JSON value", lambda: session.variables.__setitem__("a", {1})),
            ("name must be str", lambda: session.variables[1]),  # type: ignore[index]
            ("checkpoint must be int", lambda: session.undo("1")),  # type: ignore[arg-type]
            ("limits.fuel must be int, not str", lambda: self.sandbox(limits=Limits(fuel="1"))),  # type: ignore[arg-type]
            ("limits must be Limits", lambda: self.sandbox(limits={})),
            ("workspace must be str or os.PathLike", lambda: self.sandbox(workspace=1)),
            ("commit must be one of 'always'", lambda: self.sandbox(commit="x")),
            ("tools must be a sequence", lambda: self.sandbox(tools=add)),
            (r"tools\[0\] must be a function", lambda: self.sandbox(tools=[1])),
            (r"files\['a'\] must be str or bytes", lambda: self.sandbox(files={"a": 1})),
            (r"a key of env must be str", lambda: self.sandbox(env={1: "a"})),
            (r"args must be a sequence", lambda: self.sandbox(args="one")),
            ("seed must be int", lambda: self.sandbox(seed="7")),
            ("checkpoints must be int", lambda: self.sandbox(checkpoints="some")),
        ]
        for expected, call in wrong:
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                call()
        nested: list[Any] = []
        nested.append(nested)
        surrogate = "a\ud800"
        wrong = [
            ("context must be a JSON value", lambda: box.execute("1", context=surrogate)),
            ("context must be a JSON value", lambda: box.execute("1", context={surrogate: 1})),
            ("context must be a JSON value", lambda: box.execute("1", context=float("nan"))),
            ("context must be a JSON value", lambda: box.execute("1", context=nested)),
            ("value must be a JSON value", lambda: session.variables.__setitem__("a", [surrogate])),
            ("schema must be a JSON value", lambda: Tool(add, schema={"a": add})),
            ("pattern must be str, not int", lambda: box.execute("1").files.list(1)),  # type: ignore[arg-type]
        ]
        for expected, call in wrong:
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                call()
        # JSON contains the emoji as an escaped surrogate pair, which is valid.
        self.assertEqual(json.loads(_check.as_json("a", ["\U0001f600", "\\ud800"])), ["\U0001f600", "\\ud800"])
        out_of_range: list[tuple[str, Callable[[], object]]] = [
            ("timeout_ms must be a number from 0", lambda: box.execute("1", timeout_ms=-1)),
            ("timeout_ms must be a number from 0", lambda: box.execute("1", timeout_ms=2**64)),
            ("checkpoint must be a number from 0", lambda: session.undo(-1)),
            ("seed must be a number from 0", lambda: self.sandbox(seed=2**64)),
            ("limits.fuel must be a number from 0", lambda: self.sandbox(limits=Limits(fuel=-1))),
            ("limits.open_files must be a number from 0 to 4294967295", lambda: self.sandbox(limits=Limits(open_files=2**32))),
            ("source contains a lone surrogate at 1", lambda: box.execute(surrogate)),
            ("stdin contains a lone surrogate", lambda: box.execute("1", stdin=surrogate)),
            ("name contains a lone surrogate", lambda: session.variables[surrogate]),
            ("path contains a lone surrogate", lambda: session.files.read(surrogate)),
            (r"env\['a'\] contains a lone surrogate", lambda: self.sandbox(env={"a": surrogate})),
            ("a key of files contains a lone surrogate", lambda: self.sandbox(files={surrogate: "a"})),
        ]
        for expected, call in out_of_range:
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                call()

    def test_host_directory_is_mounted_or_unsupported(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            workspace, mounted = Path(directory, "data"), Path(directory, "in")
            workspace.mkdir()
            mounted.mkdir()
            (workspace / "in.csv").write_text("host")
            (mounted / "a.txt").write_text("there")
            if self.backend != "native":
                for option in ({"workspace": workspace}, {"mounts": {"/in": mounted}}, {"commit": "never"}):
                    with self.assertRaisesRegex(UnsupportedError, f'{next(iter(option))}: .* backend="native"'):
                        self.sandbox(**option)
                return
            mounts = {"/in": Mount(mounted, read_only=True)}
            box = self.sandbox(workspace=workspace, commit="on-success", mounts=mounts)
            self.assertEqual(box.execute(self.script("read")).stdout, "host\n")
            self.assertIn("a.txt", box.execute(self.script("list")).stdout)
            failed = box.execute(self.script("write") + "\n" + self.script("exit"))
            self.assertEqual((failed.outcome.code, sorted(each.name for each in workspace.iterdir())), (3, ["in.csv"]))
            self.assertEqual(failed.files["out.csv"], b"1,2")
            box.execute(self.script("write"))
            self.assertEqual((workspace / "out.csv").read_text(), "1,2")

            def meddle(_text: str) -> None:
                (workspace / "out.csv").write_text("somebody else's")

            with self.assertRaisesRegex(CommitError, "the directory is unchanged: .*out.csv") as refused:
                box.execute("\n".join(map(self.script, ("write", "answer", "pause"))), on_stdout=meddle)
            self.assertEqual((refused.exception.run.stdout, refused.exception.run.ok), ("42\n", True))
            self.assertEqual((workspace / "out.csv").read_text(), "somebody else's")
            self.assertEqual((workspace / "in.csv").read_text(), "hostmore")


class NativePython(Suite, unittest.TestCase):
    def test_packages_are_available_unless_disabled(self) -> None:
        # `markdown` is a bundled package, not a module of the standard library.
        source = "import markdown; print(markdown.markdown('a'))"
        self.assertEqual(self.sandbox().execute(source).stdout, "<p>a</p>\n")
        without = self.sandbox(packages=False).execute(source)
        self.assertEqual(without.outcome.type, "ModuleNotFoundError")

    def test_network_reaches_only_named_addresses(self) -> None:
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write((self.headers["Authorization"] or "none").encode())

            def log_message(self, *args: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server, unittest.mock.patch.dict(os.environ, REAL="the-real-one"):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/"
            network = Network(allow=[url], allow_private=["127.0.0.1"], secrets={"KEY": Secret("REAL", "127.0.0.1")}, request_count=1)
            box = self.sandbox(network=network)
            source = f"import os, requests; key = os.environ['KEY']; print(requests.get('{url}', headers={{'Authorization': key}}).text == key)"
            run = box.execute(source)
            self.assertEqual((run.stdout, run.tool_calls[0].name), ("True\n", "network.fetch"))
            self.assertEqual(box.execute(f"import requests; requests.get('{url}other')").outcome.type, "ConnectionError")
            server.shutdown()
        self.assertIn("the network is off", self.sandbox().execute("import requests; requests.get('http://a.example')").stderr)
        with self.assertRaisesRegex(PolicyError, "network.allow"):
            self.sandbox(network=Network(allow=["everything"]))
        with self.assertRaisesRegex(TypeError, "network.request_count must be int"):
            self.sandbox(network=Network(allow=[], request_count="1"))  # type: ignore[arg-type]


class NativeJavaScript(Suite, unittest.TestCase):
    language = "javascript"

    def test_typescript_types_are_removed(self) -> None:
        run = self.sandbox().execute("const x: number = 42; console.log(x)", name="a.ts")
        self.assertEqual(run.stdout, "42\n")


class DaemonPython(Suite, unittest.TestCase):
    backend = "daemon"


class DaemonJavaScript(Suite, unittest.TestCase):
    backend = "daemon"
    language = "javascript"


class ComponentJavaScript(Suite, unittest.TestCase):
    backend = "component"
    language = "javascript"

    def test_unsupported_options_have_a_hint(self) -> None:
        with self.assertRaisesRegex(UnsupportedError, 'packages: .* backend="native"'):
            self.sandbox(packages=True)
        with self.assertRaisesRegex(UnsupportedError, 'network: .* backend="native"'):
            self.sandbox(network=Network(allow=[]))
        with self.assertRaisesRegex(UnsupportedError, 'metering: .* backend="native"'):
            self.sandbox(metering="none")
        with self.assertRaisesRegex(UnsupportedError, 'id: .* backend="native"'):
            self.sandbox().session(id="mine")
        options = self.options(tools=[add])
        options["provider"] = options["provider"].with_name("glovebox-javascript-closed.wasm")
        from glovebox_sandbox import Sandbox, UnavailableError

        with self.assertRaisesRegex(UnsupportedError, "tools: .* provider="):
            Sandbox("javascript", **options)
        with self.assertRaisesRegex(UnavailableError, "provider `absent.wasm` does not exist; .* provider="):
            Sandbox("javascript", backend="component", provider="absent.wasm")


if __name__ == "__main__":
    unittest.main()
