"""Tests the examples in the package's page and in its docstrings."""

from __future__ import annotations

import doctest
import unittest
from pathlib import Path

import glovebox_sandbox
from glovebox_sandbox import aio, sandbox, tools, waiting

PAGE = Path(__file__).parents[3] / "docs/from-python.md"


class Docs(unittest.TestCase):
    def test_page_examples_pass(self) -> None:
        result = doctest.testfile(str(PAGE), module_relative=False)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 20)

    def test_docstring_examples_pass(self) -> None:
        names = {name: getattr(glovebox_sandbox, name) for name in ("AsyncSandbox", "Sandbox", "Tool")}
        for module in (glovebox_sandbox, aio, sandbox, tools, waiting):
            with self.subTest(module.__name__):
                result = doctest.testmod(module, extraglobs=names)
                self.assertEqual(result.failed, 0)
                self.assertGreater(result.attempted, 0)


if __name__ == "__main__":
    unittest.main()
