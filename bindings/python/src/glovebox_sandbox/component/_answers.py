"""Functions that scripts can call by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import types
from ..errors import ToolDenied
from ._values import lower


@dataclass(frozen=True)
class Tool:
    """A function that scripts can call by name, with JSON arguments and a JSON result."""

    name: str
    """The name in scripts: ASCII letters, digits and underscores, starting with a letter."""
    description: str
    """The text that `help(tools.name)` shows."""
    call: Callable[[dict[str, Any]], Any]
    """Answers a call: the script waits for the result. An exception in the function becomes an exception in the script:
    `ToolDenied` becomes `tools.ToolDenied`, and any other exception `tools.ToolError`.
    """
    arguments_schema: Mapping[str, Any] | None = None
    """A JSON Schema of the arguments object. Arguments are validated against it before the call. Default: any object.
    """

    def described(self) -> types.Tool:
        """Returns the tool's description in the contract's types."""
        schema = None if self.arguments_schema is None else json.dumps(self.arguments_schema)
        return types.Tool(name=self.name, description=self.description, arguments_schema=schema)


class Answers:
    """An implementation of `glovebox:sandbox/tools` with the given tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = {tool.name: tool for tool in tools}

    def list_tools(self, _store: object) -> Any:
        return lower(list[types.Tool], [tool.described() for tool in self.tools.values()])

    def call(self, _store: object, name: str, arguments: str) -> Any:
        return lower(str | types.CallFailure, self.answer(name, arguments))

    def answer(self, name: str, arguments: str) -> str | types.CallFailure:
        tool = self.tools.get(name)
        if tool is None:
            return types.CallFailure(kind="unknown", message=f"unknown tool `{name}`; call a registered tool")
        try:
            return json.dumps(tool.call(json.loads(arguments)))
        except Exception as error:  # Any exception is reported to the script.
            # Component strings cannot contain lone surrogates.
            message = str(error).encode(errors="backslashreplace").decode()
            return types.CallFailure(kind="denied" if isinstance(error, ToolDenied) else "failed", message=message)
