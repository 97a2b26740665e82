"""The list of a script's tools, for the model that writes the script."""

from __future__ import annotations

from collections.abc import Sequence

from ..tools import Tool

_MAX_LIST = 3_500
"""Maximum length of a list in characters. English text of this length is at most 1,000 tokens long."""

_MAX_NAMES = 200
"""Maximum number of names in a list. Short names with numbers take four tokens each."""

_MAX_END = 20
"""Maximum length of the note about omitted names."""

_MAX_SUMMARY = 120
"""Maximum length of a tool's description in a list, in characters."""

_SEARCH = 'tools.search("words") returns the name, description and signature of the functions that match best.'


def tool_list(language: str, tools: Sequence[Tool]) -> str:
    """Describes the tools. Lists only names if there are too many tools."""
    if not tools:
        return ""
    call = "await tools.name({ argument: value })" if language == "javascript" else "tools.name(argument=value)"
    whole = "\n".join([f"The code can call these functions: {call}", *map(_signature, tools)])
    if len(whole) <= _MAX_LIST:
        return whole
    names = f"The code can call {len(tools)} functions: {call}. {_SEARCH}\nNames:"
    for index, tool in enumerate(tools):
        if index == _MAX_NAMES or len(names) + len(tool.name) + 1 + _MAX_END > _MAX_LIST:
            return f"{names} and {len(tools) - index} more"
        names += f" {tool.name}"
    return names


def _signature(tool: Tool) -> str:
    required = tool.schema.get("required", ())
    keys = [key if key in required else f"{key}?" for key in tool.schema.get("properties", {})]
    summary = tool.description.strip().partition("\n")[0]
    if len(summary) > _MAX_SUMMARY:
        summary = f"{summary[:_MAX_SUMMARY]}…"
    return f"tools.{tool.name}({', '.join(keys)})" + (f": {summary}" if summary else "")
