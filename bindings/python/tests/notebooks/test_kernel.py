"""Tests the kernel with Jupyter's own client and notebook runner. `bindings/python/notebooks` runs these tests."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

import nbformat
from kernel_case import TIMEOUT, KernelCase, Ran, install, setUpModule, tearDownModule
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


class Cells(KernelCase):
    def test_cell_has_output_and_value_and_keeps_names(self) -> None:
        ran = self.cell("import sys\nprint('out')\nprint('bad', file=sys.stderr)\nx = [1, 'two', None]\nx")
        self.assertEqual((ran.stdout, ran.stderr), ("out\n", "bad\n"))
        self.assertEqual((ran.text, ran.reply["status"], ran.error), ("[1, 'two', None]", "ok", None))
        self.assertEqual(ran.result and ran.result["execution_count"], ran.reply["execution_count"])
        # Output arrives before the value, and the value before the reply.
        self.assertEqual(ran.kinds[-1], "execute_result")
        self.assertIsNone(self.cell("y = len(x)").result)
        self.assertEqual(self.value("y"), "3")
        self.assertEqual(self.value("object"), "<class 'object'>")

    def test_output_is_streamed_while_the_cell_runs(self) -> None:
        ran = self.cell("import time\nprint('first', flush=True)\ntime.sleep(1.5)\nprint('second')")
        self.assertEqual(ran.stdout, "first\nsecond\n")
        self.assertGreater(ran.streams[-1] - ran.streams[0], 1.0)

    def test_large_output_is_complete_in_few_messages(self) -> None:
        ran = self.cell("for i in range(20_000): print(i)")
        self.assertEqual(ran.stdout, "".join(f"{i}\n" for i in range(20_000)))
        self.assertLess(len(ran.streams), 200)

    def test_exception_is_an_error_with_one_traceback(self) -> None:
        ran = self.cell("x = 1\nprint('before')\ndef f():\n    return x / 0\nf()")
        assert ran.error is not None
        self.assertEqual((ran.error["ename"], ran.error["evalue"]), ("ZeroDivisionError", "division by zero"))
        traceback = "\n".join(ran.error["traceback"])
        self.assertIn("line 4, in f", traceback)
        self.assertIn(f"<cell {ran.reply['execution_count']}>", traceback)
        self.assertEqual(traceback.count("ZeroDivisionError"), 1, traceback)
        self.assertEqual((ran.stdout, ran.stderr), ("before\n", ""))
        self.assertEqual((ran.reply["status"], ran.reply["ename"]), ("error", "ZeroDivisionError"))
        self.assertEqual(self.value("x"), "1")

    def test_an_error_has_the_guidance(self) -> None:
        ran = self.cell("import jsno")
        assert ran.error is not None
        self.assertIn("  line 1: import json", ran.error["traceback"])

    def test_input_is_unavailable(self) -> None:
        ran = self.cell("input()", allow_stdin=True)
        assert ran.error is not None
        self.assertEqual(ran.error["ename"], "EOFError")
        self.assertIn("no user can answer", "\n".join(ran.error["traceback"]))

    def test_exit_with_nonzero_code_is_an_error(self) -> None:
        self.assertIsNone(self.cell("raise SystemExit").error)
        ran = self.cell("x = 5\nimport sys\nsys.exit(3)")
        assert ran.error is not None
        self.assertEqual((ran.error["ename"], ran.error["evalue"]), ("Exited", "exited with 3"))
        self.assertEqual(self.value("x"), "5")

    def test_ended_interpreter_is_reported_and_replaced(self) -> None:
        ran = self.cell("x = 5\nimport os\nos._exit(3)")
        assert ran.error is not None
        self.assertIn("the next cell starts a new one", ran.error["traceback"][-1])
        self.assertEqual(self.value("'x' in globals()"), "False")

    def test_silent_cells_have_no_output_and_are_not_counted(self) -> None:
        before = self.cell("1").reply["execution_count"]
        ran = self.cell("x = 3\nprint('quiet')\nx", silent=True)
        self.assertEqual((ran.stdout, ran.result, ran.reply["status"]), ("", None, "ok"))
        self.assertNotIn("execute_input", ran.kinds)
        ran = self.cell("raise ValueError", silent=True)
        self.assertEqual((ran.error, ran.reply["ename"]), (None, "ValueError"))
        self.assertEqual(self.cell("x").reply["execution_count"], before + 1)
        self.assertEqual(self.cell("x", store_history=False).text, "3")
        self.assertEqual(self.cell("x").reply["execution_count"], before + 2)

    def test_user_expressions_are_evaluated_without_side_effects(self) -> None:
        user_expressions = {"sum": "x + 1", "pop": "l.pop()", "nothing": "None", "wrong": "absent"}
        ran = self.cell("x = 1\nl = [1, 2]", user_expressions=user_expressions)
        given = ran.reply["user_expressions"]
        self.assertEqual(given["sum"], {"status": "ok", "data": {"text/plain": "2"}, "metadata": {}})
        self.assertEqual(given["pop"]["data"]["text/plain"], "2")
        self.assertEqual(given["nothing"]["data"]["text/plain"], "None")
        self.assertEqual((given["wrong"]["status"], given["wrong"]["ename"]), ("error", "NameError"))
        self.assertEqual(self.value("l"), "[1, 2]")

    def test_cells_after_a_failure_run_only_if_requested(self) -> None:
        for stop, status in ((True, "aborted"), (False, "ok")):
            first = self.client.execute("import time\ntime.sleep(0.5)\n1 / 0", stop_on_error=stop)
            second = self.client.execute("'ran'")
            self.assertEqual(self.collect(first).reply["status"], "error")
            self.assertEqual(self.collect(second).reply["status"], status)

    def test_kernel_info_names_implementation_and_language(self) -> None:
        info = self.ask(self.client.kernel_info())
        self.assertEqual((info["implementation"], info["language_info"]["name"]), ("glovebox", "python"))
        self.assertRegex(info["language_info"]["version"], r"^3\.\d+")
        self.assertEqual(info["supported_features"], [])

    def test_cells_cannot_reach_the_kernel_process(self) -> None:
        self.assertEqual(self.value("import sys; sys.platform"), "'wasi'")
        ran = self.cell("open('/etc/passwd')")
        self.assertEqual(ran.error and ran.error["ename"], "PermissionError")


class Interrupts(KernelCase):
    ENDLESS = "n = 1\nprint('begun', flush=True)\nwhile True: pass"

    def interrupted(self, code: str, interrupt: Any) -> Ran:
        id = self.client.execute(code)
        self.wait_for_output(id, "begun")
        begun = time.monotonic()
        interrupt()
        ran = self.collect(id)
        self.assertLess(time.monotonic() - begun, 5)
        assert ran.error is not None
        self.assertEqual((ran.error["ename"], ran.reply["status"]), ("KeyboardInterrupt", "error"))
        return ran

    def test_an_endless_cell_is_interrupted_and_the_session_lives_on(self) -> None:
        self.assertEqual(self.manager.kernel_spec.interrupt_mode, "message")
        self.value("before = 7")
        ran = self.interrupted(self.ENDLESS, self.manager.interrupt_kernel)
        self.assertIn("while True: pass", "\n".join(ran.error["traceback"] if ran.error else []))
        self.assertEqual(ran.stderr, "")
        self.assertEqual(self.value("before + n"), "8")

    def test_sleeping_cell_is_interrupted(self) -> None:
        self.interrupted("n = 1\nprint('begun', flush=True)\nimport time\ntime.sleep(60)", self.manager.interrupt_kernel)
        self.assertEqual(self.value("n"), "1")

    def test_cell_that_ignores_interrupts_is_stopped_and_undone(self) -> None:
        self.value("n = 0")
        # The loop in `sum` executes no Python code, so only a hard stop ends it.
        ran = self.interrupted("n = 1\nprint('begun', flush=True)\nsum(iter(int, 1))", self.manager.interrupt_kernel)
        self.assertIn("the session was rolled back", "\n".join(ran.error["traceback"] if ran.error else []))
        self.assertEqual(self.value("n"), "0")

    def test_signal_interrupts_a_cell(self) -> None:
        process = self.manager.provisioner.process
        self.interrupted(self.ENDLESS, lambda: process.send_signal(signal.SIGINT))
        self.assertEqual(self.value("n"), "1")

    def test_interrupt_without_a_running_cell_is_ignored(self) -> None:
        self.manager.interrupt_kernel()
        self.manager.provisioner.process.send_signal(signal.SIGINT)
        # The kernel sends no reply to these interrupts, so the test waits for a fixed time.
        time.sleep(1)
        self.assertEqual(self.value("6 * 7"), "42")

    def test_restart_begins_a_new_session_during_an_endless_cell(self) -> None:
        id = self.client.execute(self.ENDLESS)
        self.wait_for_output(id, "begun")
        begun = time.monotonic()
        self.manager.restart_kernel()
        self.assertLess(time.monotonic() - begun, 10)
        self.client.wait_for_ready(timeout=TIMEOUT)
        self.assertEqual(self.value("'n' in globals()"), "False")

    def test_a_shutdown_ends_the_process(self) -> None:
        process = self.manager.provisioner.process
        self.value("x = 1")
        # The kernel's process has half of this time, in seconds, to exit before it receives a signal.
        self.manager.shutdown_wait_time = 30
        self.manager.shutdown_kernel()
        self.assertEqual(process.poll(), 0)


class Limited(KernelCase):
    kernel_name = "short"

    def test_cell_over_the_time_limit_is_an_error(self) -> None:
        ran = self.cell("x = 1\nwhile True: pass")
        assert ran.error is not None
        self.assertEqual(ran.error["ename"], "TimedOut")
        message = "\n".join(ran.error["traceback"])
        self.assertIn("The script took longer than 500 ms.", message)
        self.assertEqual(ran.stderr, "")
        self.assertEqual(self.value("x"), "1")

    def test_nothing_is_saved_without_a_directory(self) -> None:
        ran = self.cell("%save a")
        self.assertIn("--saves DIR", ran.error["evalue"] if ran.error else "")


class Typing(KernelCase):
    """Requests that a frontend makes while a user types."""

    def is_complete(self, code: str) -> tuple[str, str | None]:
        reply = self.ask(self.client.is_complete(code))
        return reply["status"], reply.get("indent")

    def complete(self, code: str) -> list[str]:
        reply = self.ask(self.client.complete(code, len(code)))
        self.assertEqual((reply["status"], reply["cursor_end"]), ("ok", len(code)))
        return [code[: reply["cursor_start"]] + match for match in reply["matches"]]

    def test_complete_and_incomplete_cells_are_detected(self) -> None:
        for code, expected in [
            ("x = 1", ("complete", None)),
            ("%undo", ("complete", None)),
            ("def f():", ("incomplete", "    ")),
            ("def f():\n    return 1", ("incomplete", "    ")),
            ("def f():\n    return 1\n", ("complete", None)),
            ("print(", ("incomplete", "")),
            ("'''a", ("incomplete", "")),
            ("try:\n    x = 1\n", ("incomplete", "    ")),
            ("def f():\nx = 1", ("invalid", None)),
            ("a b", ("invalid", None)),
            ("", ("complete", None)),
        ]:
            with self.subTest(code):
                self.assertEqual(self.is_complete(code), expected)

    def test_names_and_attributes_are_completed(self) -> None:
        self.value("import math\nvalue_one, value_two = 1, {}\nclass C:\n    inner = math")
        self.assertEqual(self.complete("print(value_"), ["print(value_one", "print(value_two"])
        self.assertEqual(self.complete("x = math.sq"), ["x = math.sqrt"])
        self.assertEqual(self.complete("C.inner.isc"), ["C.inner.isclose"])
        self.assertIn("ValueError", self.complete("Val"))
        self.assertIn("value_two.keys", self.complete("value_two."))
        self.assertEqual(self.complete("ünb.absent"), [])
        for nothing in ("", "f().x", "1.", "absent.x", "'a'.jo"):
            self.assertEqual(self.complete(nothing), [], nothing)

    def test_completing_changes_nothing(self) -> None:
        self.value("n = 0\nclass C:\n    @property\n    def p(self):\n        global n\n        n += 1\n        return self\nc = C()")
        self.value("kept = 1")
        self.assertEqual(self.complete("c.p.p"), ["c.p.p"])
        self.assertEqual(self.value("n"), "0")
        self.value("kept = 2")
        self.complete("kep")
        self.cell("%undo")
        self.assertEqual(self.value("kept"), "1")

    def test_endless_and_forged_completions_are_dropped(self) -> None:
        self.value(
            "class Slow:\n    def __dir__(self):\n        while True: pass\n"
            "class Liar:\n    def __dir__(self): return ['x' * 10, 5]\nslow, liar = Slow(), Liar()"
        )
        begun = time.monotonic()
        self.assertEqual(self.complete("slow.a"), [])
        self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual(self.complete("liar.y"), [])

    def test_inspection_shows_signature_and_docstring(self) -> None:
        self.value("def area(w, h=2):\n    'The area.'\n    return w * h\nnumber = 42")
        for code, cursor, expected in [
            ("area", 2, "Signature: area(w, h=2)\nType: function\nDocstring:\nThe area."),
            ("area(", 5, "Signature: area(w, h=2)\nType: function\nDocstring:\nThe area."),
        ]:
            reply = self.ask(self.client.inspect(code, cursor))
            self.assertEqual((reply["found"], reply["data"]["text/plain"]), (True, expected))
        reply = self.ask(self.client.inspect("1 + number", 8))
        self.assertTrue(reply["data"]["text/plain"].startswith("Value: 42\nType: int\n"))
        self.assertEqual(self.ask(self.client.inspect("absent", 3))["found"], False)


class Magics(KernelCase):
    def say(self, code: str) -> str:
        ran = self.cell(code)
        self.assertIsNone(ran.error, code)
        return ran.stdout

    def test_undo_reverts_a_cell(self) -> None:
        self.value("x = 1\nopen('a.txt', 'w').write('one')")
        self.value("x = 2\nopen('a.txt', 'w').write('two')")
        self.assertEqual(self.say("%undo"), "restored `main` to its state after 1 execution\n")
        self.assertEqual(self.value("x, open('a.txt').read()"), "(1, 'one')")

    def test_forks_are_independent(self) -> None:
        self.value("x = 1")
        self.say("%fork other")
        self.value("x = 2")
        self.say("%switch other")
        self.assertEqual(self.value("x"), "1")
        self.assertEqual(self.value("%switch main\nx"), "2")
        self.say("%switch empty")
        self.assertEqual(self.value("'x' in globals()"), "False")
        self.assertEqual([line[:7].strip() for line in self.say("%sessions").splitlines()], ["* empty", "main", "other"])
        ran = self.cell("%fork other")
        self.assertIn("already", ran.error["evalue"] if ran.error else "")

    def test_a_session_is_saved_and_loaded_by_another_kernel(self) -> None:
        self.value("x = ['kept']")
        self.assertIn("saved `main` as trip.glovebox", self.say("%save trip"))
        self.manager.restart_kernel()
        self.client.wait_for_ready(timeout=TIMEOUT)
        self.assertEqual(self.value("%load trip.glovebox\nx"), "['kept']")
        self.assertIn("* trip", self.say("%sessions"))
        for file in ("../trip", "/etc/passwd", ".hidden", "a/b", "absent"):
            for magic in ("%load", "%save"):
                if (magic, file) != ("%save", "absent"):
                    ran = self.cell(f"{magic} {file}")
                    self.assertEqual(ran.error and ran.error["ename"], "UsageError", f"{magic} {file}")

    def test_wrong_magic_shows_usage_and_does_not_run_the_cell(self) -> None:
        ran = self.cell("%undoo\nprint('ran')")
        assert ran.error is not None
        self.assertEqual((ran.error["ename"], ran.stdout), ("UsageError", ""))
        self.assertIn("%switch NAME", ran.error["evalue"])
        ran = self.cell("%fork")
        self.assertEqual(ran.error and ran.error["evalue"], "usage: %fork NAME")

    def test_lines_below_a_magic_keep_their_numbers(self) -> None:
        ran = self.cell("%sessions\n\n1 / 0")
        self.assertIn("line 3", "\n".join(ran.error["traceback"]) if ran.error else "")


class JavaScript(KernelCase):
    kernel_name = "glovebox-javascript"

    def test_javascript_cell_has_output_value_and_error(self) -> None:
        ran = self.cell("let x = 40; const add = (n) => n + x; console.log('out'); add(2)")
        self.assertEqual((ran.stdout, ran.text), ("out\n", "42"))
        self.assertEqual(self.value("x"), "40")
        ran = self.cell("throw new TypeError('no')")
        assert ran.error is not None
        self.assertEqual((ran.error["ename"], ran.error["evalue"], ran.stderr), ("TypeError", "no", ""))

    def test_javascript_cell_is_interrupted(self) -> None:
        id = self.client.execute("console.log('begun'); for (;;);")
        self.wait_for_output(id, "begun")
        self.manager.interrupt_kernel()
        ran = self.collect(id)
        self.assertEqual(ran.error and ran.error["ename"], "KeyboardInterrupt")
        self.assertEqual(self.value("1 + 1"), "2")

    def test_javascript_names_are_completed(self) -> None:
        self.value("var value_one = { alpha: 1, beta: 2 }; let local = { gamma: 3 }")
        for code, expected in [("value_", ["value_one"]), ("value_one.a", ["alpha"]), ("local.", "gamma"), ("Math.cbr", ["cbrt"])]:
            reply = self.ask(self.client.complete(code, len(code)))
            if isinstance(expected, list):
                self.assertEqual(reply["matches"], expected, code)
            else:
                self.assertIn(expected, reply["matches"], code)
        for code, status in [("f(", "incomplete"), ("if (x) {", "incomplete"), ("`a", "incomplete"), ("a b", "invalid"), ("1", "complete")]:
            self.assertEqual(self.ask(self.client.is_complete(code))["status"], status, code)


class Notebooks(unittest.TestCase):
    def notebook(self, *cells: str) -> Any:
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])

    def run_notebook(self, notebook: Any, **options: Any) -> Any:
        return NotebookClient(notebook, kernel_name="glovebox-python", timeout=TIMEOUT, **options).execute()

    def test_a_notebook_runs_from_end_to_end(self) -> None:
        done = self.run_notebook(
            self.notebook(
                "import json\ncities = ['Oslo', 'Lima']",
                "print(len(cities))",
                "%fork other\njson.dumps(cities)",
            )
        )
        nbformat.validate(done)
        outputs = [cell.outputs for cell in done.cells]
        self.assertEqual(outputs[0], [])
        self.assertEqual((outputs[1][0].name, outputs[1][0].text), ("stdout", "2\n"))
        self.assertEqual(outputs[2][-1].data["text/plain"], "'[\"Oslo\", \"Lima\"]'")
        self.assertEqual([cell.execution_count for cell in done.cells], [1, 2, 3])
        self.assertEqual(done.metadata.language_info.name, "python")

    def test_failing_cell_ends_the_notebook_unless_allowed(self) -> None:
        with self.assertRaisesRegex(CellExecutionError, "division by zero"):
            self.run_notebook(self.notebook("1 / 0", "'after'"))
        done = self.run_notebook(self.notebook("1 / 0", "'after'"), allow_errors=True)
        self.assertEqual(done.cells[0].outputs[0].ename, "ZeroDivisionError")
        self.assertEqual(done.cells[1].outputs[0].data["text/plain"], "'after'")


    def test_displays_keep_order_and_values_use_the_best_form(self) -> None:
        table = "class Table:\n    def _repr_html_(self): return '<table></table>'\n    def _repr_png_(self): return b'\\x89PNG'"
        done = self.run_notebook(
            self.notebook(
                table,
                "print('first')\ndisplay('shown')\ndisplay(Table(), Table())",
                "display(1)\nTable()",
                "display(2)\n1 / 0",
            ),
            allow_errors=True,
        )
        nbformat.validate(done)
        kinds = [[output.output_type for output in cell.outputs] for cell in done.cells]
        self.assertEqual(
            kinds,
            [[], ["stream", *["display_data"] * 3], ["display_data", "execute_result"], ["display_data", "error"]],
        )
        _, text, one, other = done.cells[1].outputs
        self.assertEqual(text.data, {"text/plain": "'shown'"})
        for output in (one, other, done.cells[2].outputs[1]):
            self.assertEqual(output.data["text/html"], "<table></table>")
            self.assertEqual(base64.b64decode(output.data["image/png"]), b"\x89PNG")
            self.assertIn("Table object", output.data["text/plain"])
        self.assertEqual(done.cells[3].outputs[0].data, {"text/plain": "2"})

    def test_figures_and_data_frames_are_pictures_and_tables(self) -> None:
        # Only this test needs the image, which is downloaded and prepared on first use.
        installed = install("--runtime", "python-3.15-data", "--name", "data")
        self.assertEqual(installed.returncode, 0, installed.stderr)
        notebook = self.notebook(
            "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()",
            "import pandas as pd\ndf = pd.DataFrame({'city': ['Oslo', 'Lima']})\ndisplay(df)\ndf",
        )
        done = NotebookClient(notebook, kernel_name="data", timeout=TIMEOUT).execute()
        nbformat.validate(done)
        kinds = [[output.output_type for output in cell.outputs] for cell in done.cells]
        self.assertEqual(kinds, [["display_data"], ["display_data", "execute_result"]])
        png = base64.b64decode(done.cells[0].outputs[0].data["image/png"])
        self.assertTrue(png.startswith(b"\x89PNG\r\n\x1a\n") and png.rstrip().endswith(b"IEND\xaeB`\x82"), png[:20])
        for output in done.cells[1].outputs:
            self.assertIn("<td>Oslo</td>", output.data["text/html"])
            self.assertIn("1  Lima", output.data["text/plain"])


class Installing(unittest.TestCase):
    def test_invalid_options_are_reported_and_nothing_is_installed(self) -> None:
        for arguments, expected in [
            (("--runtime", "cobol"), "cobol"),
            (("--language", "javascript", "--runtime", "python"), "runs python, not javascript"),
            (("--timeout-ms", "0"), "timeout_ms"),
            (("--language", "cobol"), "invalid choice"),
        ]:
            installed = install("--name", "wrong", *arguments)
            self.assertNotEqual(installed.returncode, 0)
            self.assertIn(expected, installed.stderr)
            self.assertNotIn("Traceback", installed.stderr)
        self.assertFalse(Path(os.environ["JUPYTER_PATH"], "kernels/wrong").exists())

    def test_without_ipykernel_the_error_says_what_to_install(self) -> None:
        for module, extra in (("kernel", "kernel"), ("notebook", "notebook")):
            text = f"""
import sys
sys.modules.update({{"ipykernel": None, "ipykernel.kernelapp": None, "IPython": None}})
try:
    import glovebox_sandbox.{module} as module
    module.load_ipython_extension(None)
except ImportError as error:
    print(error)
"""
            ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
            self.assertIn(f"pip install 'glovebox-sandbox[{extra}]'", ran.stdout)


if __name__ == "__main__":
    unittest.main()
