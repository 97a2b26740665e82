"""An OpenAI Agents SDK tool that runs code."""

from __future__ import annotations

from ._common import CodeTool, adapter, not_installed

try:
    from agents import FunctionTool, function_tool
except ImportError as error:
    raise not_installed("openai-agents", error) from error


@adapter
def run_code_tool(code_tool: CodeTool) -> FunctionTool:
    """Creates a tool for `Agent(tools=[…])`.

    A failed script has an ordinary result with the cause. A request that the sandbox itself refuses, such as an
    oversized script, is an error, and the model gets its message.
    """

    async def run_code(code: str) -> str:
        text, is_ok = await code_tool.run(code)
        return text if is_ok else f"The script failed.\n{text}"

    return function_tool(
        run_code, name_override=code_tool.name, description_override=code_tool.description, use_docstring_info=False
    )
