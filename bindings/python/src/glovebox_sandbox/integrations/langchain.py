"""A tool of LangChain that runs code."""

from __future__ import annotations

from typing import Any

from ..types import Limits
from ._common import MAX_CHARACTERS, CodeTool, not_installed

try:
    from langchain_core.tools import StructuredTool, ToolException
except ImportError as error:
    raise not_installed("langchain-core", error) from error


def run_code_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    keep: bool = True,
    max_characters: int = MAX_CHARACTERS,
    limits: Limits | None = None,
    **options: Any,
) -> StructuredTool:
    """Makes a tool for `create_agent(tools=[…])` and for anything else that takes a `BaseTool`.

    Variables, functions and files live on from one call to the next unless `keep=False`. All conversations that use this tool share its
    session: make a tool for each one. `name` and `description` are what the model is told. A result has at most `max_characters`.
    `limits` and the other options are those of `Sandbox`, `language="javascript"` and `tools=[…]` among them; by default a call has 60
    seconds.

    A script that fails is a `ToolException`, which the tool makes a `ToolMessage` of status `error`.
    """
    code_tool = CodeTool(name, description, keep=keep, max_characters=max_characters, limits=limits, **options)

    def run_code(code: str) -> str:
        return _text(*code_tool.run_sync(code))

    async def run_code_async(code: str) -> str:
        return _text(*await code_tool.run(code))

    return StructuredTool.from_function(
        run_code,
        run_code_async,
        name=code_tool.name,
        description=code_tool.description,
        handle_tool_error=True,
    )


def _text(text: str, is_ok: bool) -> str:
    if not is_ok:
        raise ToolException(text)
    return text
