"""Tests the magic in IPython's own shell. `bindings/python/notebooks` runs these tests."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from glovebox_sandbox import Run, notebook


class Magic(unittest.TestCase):
    shell: Any

    @classmethod
    def setUpClass(cls) -> None:
        cls._directory = tempfile.TemporaryDirectory()
        os.environ["IPYTHONDIR"] = cls._directory.name
        cls.shell = InteractiveShell.instance()
        cls.addClassCleanup(cls._directory.cleanup)
        cls.addClassCleanup(InteractiveShell.clear_instance)
        # IPython stores its history in a database in the temporary directory.
        cls.addClassCleanup(lambda: cls.shell.history_manager.end_session())

    _directory: tempfile.TemporaryDirectory[str]

    def setUp(self) -> None:
        self.shell.run_cell("%load_ext glovebox_sandbox.notebook")
        self.addCleanup(self.shell.run_cell, "%unload_ext glovebox_sandbox.notebook")

    def cell(self, line: str, code: str) -> tuple[str, str]:
        """Returns the output of a cell with the magic."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.shell.run_cell(f"%%glovebox {line}\n{code}")
        return out.getvalue(), err.getvalue()

    def test_a_cell_prints_what_it_writes_and_shows_its_value(self) -> None:
        self.assertEqual(self.cell("", "print('hi')\n6 * 7"), ("hi\n42\n", ""))
        self.assertEqual(self.cell("", "import sys; print('bad', file=sys.stderr)"), ("", "bad\n"))
        self.assertEqual(self.cell("", "import sys; sys.platform"), ("'wasi'\n", ""))

    def test_named_sessions_continue_and_fresh_ones_do_not(self) -> None:
        self.cell("", "x = 1")
        self.cell("--session other", "x = 2")
        self.assertEqual(self.cell("", "x")[0], "1\n")
        self.assertEqual(self.cell("--session other", "x")[0], "2\n")
        self.assertEqual(self.cell("--fresh", "'x' in globals()")[0], "False\n")
        self.shell.run_cell("x = 'mine'")
        self.cell("", "x = 3")
        self.assertEqual(self.shell.user_ns["x"], "mine")

    def test_each_language_has_separate_sessions(self) -> None:
        self.assertEqual(self.cell("--language javascript", "var x = 40; x + 2")[0], "42\n")
        self.assertEqual(self.cell("--language javascript", "[x, 'a']")[0], "[ 40, 'a' ]\n")

    def test_incomplete_cell_is_reported_once_with_guidance(self) -> None:
        out, err = self.cell("", "print('before')\nimport jsno")
        self.assertEqual(out, "before\n")
        self.assertEqual(err.count("Traceback"), 1)
        self.assertIn("glovebox: ModuleNotFoundError: No module named 'jsno'\n", err)
        self.assertIn("  line 2: import json", err)
        out, err = self.cell("", "import sys; sys.exit(3)")
        self.assertEqual((out, err), ("", "glovebox: exited with 3\n"))

    def test_time_is_limited_and_the_session_continues(self) -> None:
        self.cell("", "x = 1")
        begun = time.monotonic()
        _, err = self.cell("--timeout-ms 300", "while True: pass")
        self.assertLess(time.monotonic() - begun, 5)
        self.assertIn("glovebox: cancelled", err)
        self.assertEqual(self.cell("", "x")[0], "1\n")

    def test_out_option_stores_the_run(self) -> None:
        self.assertEqual(self.cell("--out done", "open('a.txt', 'w').write('a')\n[1, 2]")[0], "[1, 2]\n")
        run = self.shell.user_ns["done"]
        self.assertIsInstance(run, Run)
        self.assertEqual((run.value, run.files["a.txt"]), ([1, 2], b"a"))
        self.cell("--out done", "1 / 0")
        self.assertEqual(self.shell.user_ns["done"].outcome.type, "ZeroDivisionError")

    def test_ended_interpreter_is_replaced(self) -> None:
        self.cell("", "x = 1\nimport os\nos._exit(1)")
        self.assertEqual(self.cell("", "'x' in globals()")[0], "False\n")

    def test_wrong_arguments_give_usage_and_run_nothing(self) -> None:
        for line, text in [
            ("--nonsense", "unrecognized arguments: --nonsense"),
            ("--session", "expected one argument"),
            ("--fresh --session a", "not allowed with"),
            ("--timeout-ms soon", "invalid number value: 'soon'"),
            ("--timeout-ms 0", "must be between 1 and 3600000, not 0"),
            ("--out 1x", "`1x` is not a valid variable name"),
            ("--session 'a", "No closing quotation"),
        ]:
            out, err = self.cell(line, "print('ran')")
            self.assertIn(text, err)
            self.assertIn("usage: %%glovebox", err)
            self.assertEqual(out, "")
            self.assertNotIn("Traceback", err)

    def test_unknown_language_error_lists_the_languages(self) -> None:
        out, err = self.cell("--language cobol", "1")
        self.assertRegex(out + err, "cobol.*python")

    def test_an_interrupt_cancels_the_cell(self) -> None:
        self.cell("", "x = 1")
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        out, err = self.cell("", "while True: pass")
        self.assertLess(time.monotonic() - begun, 8)
        self.assertIn("KeyboardInterrupt", out + err)
        self.assertEqual(self.cell("", "x")[0], "1\n")

    def test_unloading_ends_the_sessions(self) -> None:
        self.shell.run_cell("%unload_ext glovebox_sandbox.notebook")
        self.assertIn("glovebox", self.cell("", "1")[1])
        self.shell.run_cell("%load_ext glovebox_sandbox.notebook")
        self.assertEqual(self.cell("", "1")[0], "1\n")

    def test_magic_help_lists_the_options(self) -> None:
        magic = self.shell.find_cell_magic("glovebox")
        self.assertIn("--timeout-ms N", magic.__doc__)


class Importing(unittest.TestCase):
    def test_package_imports_neither_ipython_nor_ipykernel(self) -> None:
        text = "import sys, glovebox_sandbox, glovebox_sandbox.notebook; print('IPython' in sys.modules, 'ipykernel' in sys.modules)"
        ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(ran.stdout, "False False\n")
        self.assertTrue(notebook.__doc__)


if __name__ == "__main__":
    unittest.main()
