"""Tests of the extraction of examples from pages, and of the comparison of outputs."""

from __future__ import annotations

import unittest

from release import room, steps

PAGE = """\
# Title

## One

```console
$ first
```

## Two

Text.

```console
$ a | b
1
2
$ c
$ d; echo $?
124
```
"""


class Pages(unittest.TestCase):
    def test_a_transcript_is_commands_and_what_they_print(self) -> None:
        text = steps.block(PAGE, "Two", "console")
        self.assertEqual(steps.transcript(text), [("a | b", "1\n2\n"), ("c", ""), ("d; echo $?", "124\n")])

    def test_missing_section_is_a_failure(self) -> None:
        with self.assertRaisesRegex(room.Failed, "no `console` block under `Three`"):
            steps.block(PAGE, "Three", "console")

    def test_printed_output_must_match(self) -> None:
        steps.same("it", "1\n", "1")
        with self.assertRaisesRegex(room.Failed, "it printed"):
            steps.same("it", "1", "2")


class FirstCall(unittest.TestCase):
    def test_duration_is_reported_up_to_the_limit(self) -> None:
        printed = "glovebox: unpacking `python-3.15`\n1\n\n"
        self.assertEqual(steps.first_call_result(printed, 0.5), "0.50 s")
        self.assertEqual(steps.first_call_result(printed, steps.MAX_FIRST_CALL_S), "5.00 s")
        with self.assertRaisesRegex(room.Failed, "took 5.1 s, more than 5 s"):
            steps.first_call_result(printed, steps.MAX_FIRST_CALL_S + 0.1)

    def test_preparing_is_a_failure(self) -> None:
        for step in ("compiling", "booting", "fetching"):
            with self.assertRaisesRegex(room.Failed, "prepared an interpreter"):
                steps.first_call_result(f"glovebox: {step} `python-3.15`\n1\n", 0.5)

    def test_other_output_is_a_failure(self) -> None:
        for printed in ("", "2\n"):
            with self.assertRaisesRegex(room.Failed, "the first call printed"):
                steps.first_call_result(printed, 0.5)

    def test_import_time_is_cumulative(self) -> None:
        printed = "import time: self [us] | cumulative | imported package\nimport time:       750 |      28400 | box\n"
        self.assertEqual(steps.import_ms(printed, "box"), 28.4)
        with self.assertRaisesRegex(room.Failed, "did not list `other`"):
            steps.import_ms(printed, "other")


if __name__ == "__main__":
    unittest.main()
