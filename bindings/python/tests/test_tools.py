"""Tests the schemas that are created from a function's type hints."""

from __future__ import annotations

import enum
import sys
import unittest
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from glovebox_sandbox import Tool
from glovebox_sandbox.tools import CancelToken, answer, await_here


class Point(TypedDict):
    x: int
    y: int


class Colour(enum.Enum):
    RED = 1


class Level(str, enum.Enum):
    LOW = "low"


class Custom:
    pass


class Schemas(unittest.TestCase):
    def test_type_hints_become_a_schema(self) -> None:
        def search(
            query: Annotated[str, "What to look for."],
            limit: int = 10,
            *,
            tags: list[str] | None = None,
            where: Literal["here", "there"] = "here",
            **more: float,
        ) -> list[str]:
            """Finds things.

            Many of them.
            """
            return []

        tool = Tool(search)
        self.assertEqual((tool.name, tool.description), ("search", "Finds things.\n\nMany of them."))
        strings = {"type": "array", "items": {"type": "string"}}
        self.assertEqual(
            tool.schema,
            {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for."},
                    "limit": {"type": "integer", "default": 10},
                    "tags": {"anyOf": [strings, {"type": "null"}], "default": None},
                    "where": {"enum": ["here", "there"], "default": "here"},
                },
                "required": ["query"],
                "additionalProperties": True,
            },
        )

    def test_each_kind_of_type_hint(self) -> None:
        for hint, expected in [
            (Any, {}),
            (bool, {"type": "boolean"}),
            (float, {"type": "number"}),
            (None, {"type": "null"}),
            (dict, {"type": "object"}),
            (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
            (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
            (Sequence[bool], {"type": "array", "items": {"type": "boolean"}}),
            (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
            (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            (Level, {"enum": ["low"]}),
        ]:

            def function(value: Any) -> None: ...

            function.__annotations__ = {"value": hint}
            with self.subTest(hint):
                self.assertEqual(Tool(function).schema["properties"]["value"], expected)

        def pair(value: tuple[int, str]) -> None: ...

        items = [{"type": "integer"}, {"type": "string"}]
        form = {"type": "array", "prefixItems": items, "minItems": 2, "maxItems": 2}
        self.assertEqual(Tool(pair).schema["properties"]["value"], form)

        def point(value: Point) -> None: ...

        integer = {"type": "integer"}
        form = {"type": "object", "properties": {"x": integer, "y": integer}, "required": ["x", "y"]}
        self.assertEqual(Tool(point).schema["properties"]["value"], form)

    def test_unsupported_type_hint_is_named(self) -> None:
        def custom(value: Custom) -> None: ...

        def colour(value: Colour) -> None: ...

        def nameless(*values: int) -> None: ...

        def unknown(value: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        refused: list[tuple[Any, str]] = [
            (custom, r"custom\(value\) is a Custom, and JSON cannot represent it; .* Tool\(…, schema=…\)"),
            (colour, r"colour\(value\) is a Colour"),
            (nameless, r"nameless takes `\*values: .*` by position only"),
            (unknown, r"cannot derive a schema for the arguments of unknown: .*NoSuchType"),
        ]
        for function, expected in refused:
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                Tool(function)
            self.assertEqual(Tool(function, schema={"type": "object"}).schema, {"type": "object"})
        with self.assertRaisesRegex(TypeError, "function must be callable, not int"):
            Tool(1)  # type: ignore[arg-type]

    def test_callable_object_is_a_tool(self) -> None:
        class Counter:
            """Counts."""

            def __call__(self, step: int) -> int:
                return step

        tool = Tool(Counter(), name="count")
        self.assertEqual((tool.name, tool.description), ("count", "Counts."))
        self.assertEqual(tool.schema["properties"], {"step": {"type": "integer"}})

    def test_tool_that_exits_fails_its_call(self) -> None:
        async def leave() -> None:
            sys.exit(3)

        for function in (lambda: sys.exit(3), leave):
            tool = Tool(function, name="leave", schema={"type": "object"})
            self.assertEqual(answer(tool, await_here, "{}", CancelToken()), ("failed", "the tool exited: 3"))


if __name__ == "__main__":
    unittest.main()
