"""The extraction of examples from pages, and the comparison of outputs."""

from __future__ import annotations

import unittest

from release import products, room, steps

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


class Products(unittest.TestCase):
    def test_each_provider_has_a_closed_variant(self) -> None:
        self.assertEqual(len(products.PROVIDERS), 6)
        names = {each.removesuffix("-closed") for each in products.PROVIDERS}
        self.assertEqual(names, {"glovebox", "glovebox-python", "glovebox-javascript"})


if __name__ == "__main__":
    unittest.main()
