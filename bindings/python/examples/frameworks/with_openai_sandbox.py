"""An OpenAI Agents SDK agent with a sandbox."""

from agents import RunConfig, Runner
from agents.sandbox import SandboxAgent, SandboxRunConfig
from glovebox_sandbox.integrations.openai_sandbox import INSTRUCTIONS, GloveboxSandboxClient


async def ask(question: str) -> object:
    agent = SandboxAgent(name="analyst", instructions=INSTRUCTIONS)
    config = RunConfig(sandbox=SandboxRunConfig(client=GloveboxSandboxClient()))
    return (await Runner.run(agent, question, run_config=config)).final_output
