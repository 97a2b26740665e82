"""A LangChain agent with a tool that runs code."""

from glovebox_sandbox.integrations.langchain import run_code_tool
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel


def analyst(model: BaseChatModel) -> object:
    return create_agent(model, tools=[run_code_tool()])
