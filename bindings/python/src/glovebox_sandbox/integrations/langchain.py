"""A LangChain tool that runs code."""

from __future__ import annotations

from ._common import CodeTool, adapter, not_installed

try:
    from langchain_core.tools import StructuredTool, ToolException
except ImportError as error:
    raise not_installed("langchain-core", error) from error


@adapter
def run_code_tool(code_tool: CodeTool) -> StructuredTool:
    """Creates a tool for `create_agent(tools=[…])` and for every other API that accepts a `BaseTool`.

    A script that fails raises a `ToolException`, which the tool converts to a `ToolMessage` of status `error`.
    """

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
