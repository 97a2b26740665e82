"""Tests the adapters without their frameworks. The tests in `tests/integrations` use the frameworks."""

from __future__ import annotations

import importlib
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from glovebox_sandbox import Tool
from glovebox_sandbox.integrations import _common
from glovebox_sandbox.integrations._common import CodeTool, shorten

FRAMEWORKS = {
    "deepagents": ("deepagents", "deepagents"),
    "dspy": ("dspy", "dspy"),
    "google_adk": ("google.adk", "google-adk"),
    "langchain": ("langchain_core", "langchain-core"),
    "llama_index": ("llama_index", "llama-index-core"),
    "openai_agents": ("agents", "openai-agents"),
    "openai_sandbox": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai-slim"),
    "smolagents": ("smolagents", "smolagents"),
    "strands": ("strands", "strands-agents"),
}


MAX_LINES = 200


class Adapters(unittest.TestCase):
    def test_adapters_are_short(self) -> None:
        # Code that several adapters need belongs into the modules with an underscore.
        directory = Path(_common.__file__).parent
        lines = {name: len((directory / f"{name}.py").read_text().splitlines()) for name in FRAMEWORKS}
        self.assertEqual({name: count for name, count in lines.items() if count > MAX_LINES}, {})
        modules = {path.stem for path in directory.glob("*.py") if not path.stem.startswith("_")}
        self.assertEqual(modules, {*FRAMEWORKS})


class Missing(unittest.TestCase):
    def test_missing_framework_is_named(self) -> None:
        for module, (package, named) in FRAMEWORKS.items():
            # `None` hides the module, even if it is installed.
            absent = {package: None, f"{package}.core": None}
            with self.subTest(module), mock.patch.dict(sys.modules, absent):
                with self.assertRaisesRegex(ImportError, f"pip install --upgrade {named}$"):
                    importlib.import_module(f"glovebox_sandbox.integrations.{module}")

    def test_frameworks_are_imported_lazily(self) -> None:
        tops = [package for package, _ in FRAMEWORKS.values()]
        code = f"import sys, glovebox_sandbox.integrations; sys.exit(any(name in sys.modules for name in {tops!r}))"
        subprocess.run([sys.executable, "-c", code], check=True)


class Reports(unittest.TestCase):
    def test_long_text_loses_its_middle(self) -> None:
        self.assertEqual(shorten("abc", 3), "abc")
        self.assertEqual(shorten("abcdefgh", 4), "ab\n[4 characters omitted]\ngh")
        self.assertEqual(shorten("abcdefgh", 5), "ab\n[4 characters omitted]\ngh")

    def test_description_lists_the_tools(self) -> None:
        def weather(city: str, days: int = 1) -> str:
            """Returns the weather.

            More.
            """
            return f"{city} {days}"

        described = CodeTool(tools=[weather]).description
        self.assertTrue(described.endswith(": tools.name(argument=value)\ntools.weather(city, days?): Returns the weather."))
        self.assertNotIn("tools.", CodeTool().description)
        self.assertEqual(CodeTool(tools=[weather], description="Mine.").description, "Mine.")
        many = [Tool(weather, name=f"service_operation_number_{n}") for n in range(1_000)]
        listed = CodeTool(tools=many, language="javascript").description
        # The list costs a model at most 1,000 tokens.
        self.assertLessEqual(len(listed) - len(CodeTool(language="javascript").description), 3_501)
        self.assertRegex(listed, r"(?s)search\(.words.\).*\nNames: service_operation_number_0 .* and \d+ more$")
        short = [Tool(weather, name=f"pets_do_{n}") for n in range(1_000)]
        self.assertTrue(CodeTool(tools=short).description.endswith(" pets_do_199 and 800 more"))
        with self.assertRaisesRegex(TypeError, "tools"):
            CodeTool(tools=[3])


if __name__ == "__main__":
    unittest.main()
