"""Tests the comparison of figures and the search for linear memories."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measuring.sessions import linear_memories
from modelling.command import differences


class Differences(unittest.TestCase):
    def test_equal_figures_have_no_differences(self) -> None:
        figures = {"a": [1, 2.5, None], "b": {"c": "d"}}
        self.assertEqual(differences("f", figures, {"b": {"c": "d"}, "a": [1, 2.5, None]}), [])

    def test_each_difference_is_named(self) -> None:
        found = differences("f", {"a": [1, 2], "b": {"c": 1.0}}, {"a": [1, 3], "b": {"c": 1.0000001}, "d": 1})
        self.assertEqual([each.split(": ")[1:-1] for each in found], [["a[1]"], ["b", "c"], ["d"]])

    def test_lists_of_different_length_differ(self) -> None:
        self.assertEqual(len(differences("f", [1, 2], [1, 2, 3])), 1)


class LinearMemories(unittest.TestCase):
    def test_mappings_before_a_large_reservation_are_found(self) -> None:
        maps = [
            "1000-3000 rw-p 00000000 00:00 0",
            "3000-5000 ---p 00000000 00:00 0",
            "5000-6000 rw-p 00000000 00:00 0",
            "6000-8000 rw-p 00000000 00:01 7 /memfd:image (deleted)",
            "8000-80008000 ---p 00000000 00:00 0",
            "90000000-90001000 rw-p 00000000 00:00 0 [heap]",
            "a0000000-f0000000 ---p 00000000 00:00 0",
        ]
        self.assertEqual(list(linear_memories(maps)), [(0x5000, 0x6000), (0x6000, 0x8000)])


if __name__ == "__main__":
    unittest.main()
