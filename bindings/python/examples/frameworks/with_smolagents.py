"""A smolagents agent whose code runs in a sandbox."""

from glovebox_sandbox.integrations.smolagents import GloveboxExecutor
from smolagents import CodeAgent, Model, Tool


def ask(question: str, model: Model, search: Tool) -> object:
    with CodeAgent(tools=[search], model=model, executor=GloveboxExecutor()) as agent:
        return agent.run(question)
