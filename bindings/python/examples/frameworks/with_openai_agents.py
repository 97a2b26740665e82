"""An OpenAI Agents SDK agent with a tool that runs code."""

from agents import Agent
from glovebox_sandbox.integrations.openai_agents import run_code_tool


def analyst() -> Agent:
    return Agent(name="analyst", tools=[run_code_tool()])
