"""`tests/peers/run --check`: fake contestants, one of which answers correctly. Needs no network and installs nothing."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
import time
import tomllib
import unittest
from pathlib import Path
from typing import Any

from . import suspension, table
from .contestants import CONTESTANTS, DRIVERS, Contestant, chosen
from .environments import PINS, Environment, Places, Unavailable, UsageError, find_python, find_wheel, prepare, size_bytes
from .measures import MEASURES, counts, each_is
from .programs import NAMES
from .rounds import Cell, Entry, Plan, Run, empty_cells

MACHINE: dict[str, Any] = {"date": "2026-11-23", "processor": "a processor", "threads": 2, "load_before": 0.0, "load_after": 1.25}


def fake(mode: str, lacks: frozenset[str] = frozenset()) -> Contestant:
    command = [sys.executable, str(DRIVERS / "fake_driver.py"), mode]
    return Contestant(f"fake-{mode}", "python", "made up", "fake", lambda _, __: command, lacks)


def measured(contestant: Contestant, *, timeout_s: float = 30, rounds: int = 2) -> Entry:
    """Runs a contestant and returns its figures."""
    with tempfile.TemporaryDirectory() as root, contextlib.redirect_stderr(io.StringIO()):
        places = Places(Path(root), sys.executable, None)
        entry = Entry(contestant, Environment(Path(root) / "env"), empty_cells(contestant, MEASURES), {"fake": "1.0"})
        Run([entry], places, Plan(rounds, budget_ms=5, timeout_s=timeout_s, first=False)).run()
    return entry


def report(*entries: Entry) -> table.Report:
    return table.Report(entries, {"absent": "its wheel is missing"}, MEASURES, MACHINE, 2)


class Runs(unittest.TestCase):
    def test_correct_contestant_has_all_figures(self) -> None:
        entry = measured(fake("right"))
        self.assertEqual(entry.problems(), [])
        for name, cell in entry.cells.items():
            self.assertEqual(len(cell.rounds_ms), 2, name)
            self.assertGreater(cell.least_ms(), 0, name)
            self.assertGreaterEqual(cell.median_ms(), cell.least_ms(), name)
            self.assertEqual(len(cell.rounds_bytes), 2 if name.startswith("suspend") else 0, name)

    def test_missing_features_of_a_contestant_are_not_measured(self) -> None:
        entry = measured(fake("forgets", suspension.NAMES | {"hibernate", "resume"}))
        self.assertEqual(entry.problems(), [])
        self.assertEqual(table.cell_text(entry.cells["resume"]), "no")

    def check_words(self, mode: str, expected: str, **options: Any) -> Entry:
        """Checks that `words` fails as expected, and that no other measure fails."""
        entry = measured(fake(mode), **options)
        self.assertEqual(len(entry.problems()), 1, entry.problems())
        self.assertRegex(entry.problems()[0], rf"^words: {expected}")
        return entry

    def test_a_wrong_answer_is_reported(self) -> None:
        entry = self.check_words("wrong", r"wrong answer: `11889 k999=464971` for `11889 k999=464970`")
        self.assertEqual(table.cell_text(entry.cells["words"]), "wrong answer")

    def test_a_time_out_is_reported_and_ends_the_process(self) -> None:
        begun = time.monotonic()
        entry = self.check_words("hangs", r"timeout: no answer within 2 s", timeout_s=2)
        self.assertLess(time.monotonic() - begun, 25)
        self.assertEqual(table.cell_text(entry.cells["words"]), "timeout")

    def test_a_process_that_ends_is_reported(self) -> None:
        entry = self.check_words("ends", r"the process exited with 7; see .*fake-ends\.txt")
        self.assertEqual(table.cell_text(entry.cells["words"]), "failed")

    def test_an_error_is_reported(self) -> None:
        self.check_words("raises", r"MemoryError: no room for words")

    def test_a_state_that_was_not_saved_is_reported(self) -> None:
        problems = measured(fake("forgets")).problems()
        suspended = [name(calls) for calls in suspension.CALLS for name in (suspension.suspend, suspension.resume)]
        self.assertEqual([each.split(":")[0] for each in problems], ["hibernate", "resume", *suspended])
        self.assertIn("`1 0 name -1` for `42 1000 name 999`", problems[0])
        self.assertIn("`1 2` for `2 3 receipt 0 receipt 2`", problems[2])

    def test_a_driver_that_does_not_start_fails_as_a_whole(self) -> None:
        contestant = Contestant("broken", "python", "made up", "fake", lambda _, __: [sys.executable, "-c", "raise SystemExit(3)"])
        entry = measured(contestant)
        self.assertRegex(entry.problems()[0], "the process exited with 3")
        self.assertIn("FAILED broken: the process exited with 3", table.as_text(report(entry)))


class Tables(unittest.TestCase):
    def entry(self) -> Entry:
        """Returns an entry with known figures."""
        contestant = fake("right", frozenset({"resume"}))
        cells = empty_cells(contestant, MEASURES)
        for number, cell in enumerate(cells.values()):
            cell.rounds_ms = [0.0123 * 10**number, 0.04 * 10**number, 0.03 * 10**number]
        cells["words"] = Cell(failed="timeout: no answer within 60 s")
        for number, calls in enumerate(suspension.CALLS):
            cells[suspension.suspend(calls)] = Cell(rounds_ms=[0.3, 0.2], rounds_bytes=[2_000 + number, 1_000])
            cells[suspension.resume(calls)] = Cell(rounds_ms=[0.5 * 4**number])
        cells["suspend(100)"] = Cell(failed="timeout: no answer within 60 s")
        entry = Entry(contestant, Environment(Path("nowhere")), cells, {"fake": "1.0"})
        entry.installed_bytes, entry.cache_bytes, entry.first_ms = 54_600_000, 106_000_000, 12_345.0
        return entry

    def test_figures(self) -> None:
        figures = {0.0123: "0.012", 0.456: "0.46", 4.56: "4.6", 45.6: "46", 12_345.6: "12,346"}
        self.assertEqual({ms: table.figure(ms) for ms in figures}, figures)

    def test_text(self) -> None:
        text = table.as_text(report(self.entry()))
        lines = text.splitlines()
        self.assertIn("Python              fresh         live  hibernate  resume    process      agent run", text)
        row = r"0\.030 / 0\.012 +0\.30 / 0\.12 +3\.0 / 1\.2 +no +300 / 123 +3,000 / 1,230"
        self.assertRegex(text, rf"(?m)^fake-right  {row}$")
        self.assertRegex(text, r"(?m) timeout +55 \+ 106 +12\.3 s$")
        self.assertIn("absent was not measured: its wheel is missing", lines)
        self.assertIn("FAILED fake-right: words: timeout: no answer within 60 s", lines)
        self.assertIn("fake 1.0", lines)

    def test_suspended_scripts_have_sizes_and_times(self) -> None:
        head, rows = table.tables(report(self.entry()), "python")[3]
        self.assertEqual(head[:4], ["Python", "bytes(1)", "suspend(1)", "resume(1)"])
        self.assertEqual(rows[0][:7], ["fake-right", "2,000", "0.25 / 0.20", "0.50 / 0.50", "2,001", "0.25 / 0.20", "2.0 / 2.0"])
        self.assertEqual(rows[0][7:], ["timeout", "timeout", "8.0 / 8.0"])

    def test_contestants_that_do_not_suspend_are_not_in_that_table(self) -> None:
        other = self.entry()
        other.contestant = fake("other", suspension.NAMES)
        self.assertEqual([row[0] for row in table.tables(report(self.entry(), other), "python")[3][1]], ["fake-right"])
        self.assertEqual(len(table.tables(report(other), "python")), 3)

    def test_markdown_has_the_same_cells_in_each_line(self) -> None:
        text = table.as_markdown(report(self.entry()))
        blocks = re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE)
        self.assertEqual(len(blocks), 4)
        for block in blocks:
            self.assertEqual(len({line.count("|") for line in block.splitlines()}), 1, block)
        self.assertIn("| fake-right | 0.030 / 0.012 | 0.30 / 0.12 | 3.0 / 1.2 | no |", text)
        self.assertIn("* `absent` was not measured: its wheel is missing", text)

    def test_programs_are_compared_with_the_first_row(self) -> None:
        zero, other = self.entry(), self.entry()
        for number, name in enumerate(sorted(NAMES)):
            zero.cells[name].rounds_ms = [10.0, 20.0]
            other.cells[name].rounds_ms = [20.0 if number % 2 else 45.0]
        head, rows = table.tables(report(zero, other), "python")[2]
        self.assertEqual((head[1], head[-1], len(head)), ("calls", "mean", 13))
        self.assertEqual([row[-1] for row in rows], ["1.00", f"{(2**5 * 4.5**6) ** (1 / 11):.2f}"])
        self.assertEqual(rows[0][1], "10")
        other.cells["sort"] = Cell(failed="timeout: no answer within 60 s")
        self.assertEqual(table.tables(report(zero, other), "python")[2][1][1][-2:], ["timeout", "no"])

    def test_json(self) -> None:
        document = json.loads(table.as_json(report(self.entry())))
        measures = document["contestants"]["fake-right"]["measures"]
        self.assertEqual(measures["fresh"], {"median_ms": 0.03, "least_ms": 0.0123, "rounds_ms": [0.0123, 0.04, 0.03]})
        self.assertEqual(measures["resume"], {"lacks": True})
        self.assertEqual(measures["suspend(10)"], {"median_ms": 0.25, "least_ms": 0.2, "rounds_ms": [0.3, 0.2], "bytes": 2001})
        self.assertEqual(measures["words"], {"failed": "timeout: no answer within 60 s"})
        self.assertEqual(document["missing"], {"absent": "its wheel is missing"})

    def test_the_zero_line_installs_nothing(self) -> None:
        contestant = next(each for each in CONTESTANTS if each.name == "python3")
        entry = Entry(contestant, Environment(Path("nowhere")), empty_cells(contestant, MEASURES))
        self.assertEqual((table.disk_text(entry), table.first_text(entry)), ("0", "none"))


class Parts(unittest.TestCase):
    def test_answers(self) -> None:
        self.assertIsNone(each_is("1")(["1", "1"]))
        self.assertEqual(each_is("1")(["1", "2"]), "`2` for `1`")
        self.assertIsNone(counts(["1", "2", "3"]))
        self.assertEqual(counts(["1", "1"]), "`1` for `2`")

    def test_only(self) -> None:
        self.assertEqual([each.name for each in chosen("node, monty")], ["monty", "node"])
        with self.assertRaisesRegex(UsageError, "unknown contestant `mont`; the contestants are python3, "):
            chosen("mont")
        with self.assertRaises(UsageError):
            chosen("")

    def test_every_pin_is_a_version_and_belongs_to_a_contestant(self) -> None:
        pins = tomllib.loads(PINS.read_text())
        self.assertEqual(set(pins), {each.environment for each in CONTESTANTS} - {None, "glovebox"})
        for section in pins.values():
            for package in [*section.get("python", []), *section.get("with", [])]:
                self.assertRegex(package, r"^[\w.-]+==[\w.]+$")
            for package in section.get("node", []):
                self.assertRegex(package, r"^[\w@/.-]+@\d[\w.]+$")

    def test_names_and_measures_fit_together(self) -> None:
        self.assertEqual(len({each.name for each in CONTESTANTS}), len(CONTESTANTS))
        names = {each.name for each in MEASURES}
        for each in CONTESTANTS:
            self.assertLessEqual(each.lacks, names)

    def test_a_wheel_that_is_missing(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            self.assertIsNone(find_wheel(None, Path(root)))
            with self.assertRaisesRegex(UsageError, "the wheel `none.whl` does not exist"):
                find_wheel("none.whl", Path(root))
            with self.assertRaisesRegex(Unavailable, "bindings/python/build --dev"):
                prepare("glovebox", Places(Path(root), sys.executable, None))

    def test_missing_python(self) -> None:
        for program in ("true", "no-such-python"):
            with self.assertRaisesRegex(UsageError, f"`{program}` is not Python 3.11 or later"):
                find_python(program)
        self.assertEqual(Path(find_python(sys.executable)).resolve(), Path(sys.executable).resolve())

    def test_python_too_old_for_a_contestant(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            with self.assertRaisesRegex(Unavailable, r"^requires Python 3\.12 or later, but true is older; name another with --python$"):
                prepare("eryx", Places(Path(root), "true", None))
            self.assertEqual(list(Path(root).iterdir()), [])

    def test_sizes_count_a_file_with_two_names_once(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            one = Path(root) / "one"
            one.write_bytes(b"x" * 1000)
            (Path(root) / "two").hardlink_to(one)
            (Path(root) / "three").write_bytes(b"x" * 10)
            self.assertEqual(size_bytes(Path(root)), 1010)


def main() -> int:
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1
