"""A Pydantic AI agent with a tool that runs code."""

from glovebox_sandbox.integrations.pydantic_ai import run_code_tool
from pydantic_ai import Agent
from pydantic_ai.models import Model


def analyst(model: Model) -> Agent:
    return Agent(model, tools=[run_code_tool()])
