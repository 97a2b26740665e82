"""A tool of the OpenAI Agents SDK that runs code."""

from __future__ import annotations

from typing import Any

from ..types import Limits
from ._common import MAX_CHARACTERS, CodeTool, not_installed

try:
    from agents import FunctionTool, function_tool
except ImportError as error:
    raise not_installed("openai-agents", error) from error


def run_code_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    keep: bool = True,
    max_characters: int = MAX_CHARACTERS,
    limits: Limits | None = None,
    **options: Any,
) -> FunctionTool:
    """Makes a tool for `Agent(tools=[…])`.

    Variables, functions and files live on from one call to the next unless `keep=False`. All conversations that use this tool share its
    session: make a tool for each one. `name` and `description` are what the model is told. A result has at most `max_characters`.
    `limits` and the other options are those of `Sandbox`, `language="javascript"` and `tools=[…]` among them; by default a call has 60
    seconds.

    A script that fails is an ordinary result that says why. What the sandbox itself refuses, such as a script that is too long, is an error,
    of which the model is told that.
    """
    code_tool = CodeTool(name, description, keep=keep, max_characters=max_characters, limits=limits, **options)

    async def run_code(code: str) -> str:
        text, is_ok = await code_tool.run(code)
        return text if is_ok else f"The script failed.\n{text}"

    return function_tool(
        run_code, name_override=code_tool.name, description_override=code_tool.description, use_docstring_info=False
    )
