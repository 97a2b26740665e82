"""A tool of Pydantic AI that runs code."""

from __future__ import annotations

from typing import Any

from ..types import Limits
from ._common import MAX_CHARACTERS, CodeTool, not_installed

try:
    from pydantic_ai import Tool
    from pydantic_ai.exceptions import ToolFailed
except ImportError as error:
    raise not_installed("pydantic-ai-slim", error) from error


def run_code_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    keep: bool = True,
    max_characters: int = MAX_CHARACTERS,
    limits: Limits | None = None,
    **options: Any,
) -> Tool[Any]:
    """Makes a tool for `Agent(tools=[…])`.

    Variables, functions and files live on from one call to the next unless `keep=False`. All conversations that use this tool share its
    session: make a tool for each one. `name` and `description` are what the model is told. A result has at most `max_characters`.
    `limits` and the other options are those of `Sandbox`, `language="javascript"` and `tools=[…]` among them; by default a call has 60
    seconds.

    A script that fails is a `ToolFailed`: the model sees why, and the agent goes on.
    """
    code_tool = CodeTool(name, description, keep=keep, max_characters=max_characters, limits=limits, **options)

    async def run_code(code: str) -> str:
        text, is_ok = await code_tool.run(code)
        if not is_ok:
            raise ToolFailed(text)
        return text

    return Tool(run_code, takes_ctx=False, name=code_tool.name, description=code_tool.description)
