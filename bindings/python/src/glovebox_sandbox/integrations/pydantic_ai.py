"""A tool of Pydantic AI that runs code."""

from __future__ import annotations

from typing import Any

from ._common import CodeTool, adapter, not_installed

try:
    from pydantic_ai import Tool
    from pydantic_ai.exceptions import ToolFailed
except ImportError as error:
    raise not_installed("pydantic-ai-slim", error) from error


@adapter
def run_code_tool(code_tool: CodeTool) -> Tool[Any]:
    """Creates a tool for `Agent(tools=[…])`.

    A script that fails yields a `ToolFailed`: the model sees the cause, and the agent continues.
    """

    async def run_code(code: str) -> str:
        text, is_ok = await code_tool.run(code)
        if not is_ok:
            raise ToolFailed(text)
        return text

    return Tool(run_code, takes_ctx=False, name=code_tool.name, description=code_tool.description)
