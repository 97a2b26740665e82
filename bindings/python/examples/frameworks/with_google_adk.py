"""A Google ADK agent whose code runs in a sandbox."""

from glovebox_sandbox.integrations.google_adk import GloveboxCodeExecutor
from google.adk.agents import LlmAgent


def analyst(model: str) -> LlmAgent:
    return LlmAgent(name="analyst", model=model, code_executor=GloveboxCodeExecutor(stateful=True))
