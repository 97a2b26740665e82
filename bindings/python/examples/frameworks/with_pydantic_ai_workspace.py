"""A Pydantic AI agent whose tools use a sandbox."""

from glovebox_sandbox.integrations.pydantic_ai import INSTRUCTIONS, GloveboxWorkspace
from pydantic_ai import Agent, RunContext
from pydantic_ai.models import Model


async def run_command(ctx: RunContext[None], command: str) -> str:
    """Runs a command."""
    result = await ctx.workspace.run(command, shell=True)
    return f"{result.stdout}{result.stderr}[exit code {result.exit_code}]"


async def ask(question: str, model: Model) -> str:
    agent = Agent(model, tools=[run_command], instructions=INSTRUCTIONS)
    result = await agent.run(question, workspace=GloveboxWorkspace())
    return str(result.output)
