"""A Strands agent whose code and files are in a sandbox."""

from glovebox_sandbox.integrations.strands import GloveboxSandbox
from strands import Agent
from strands.models import Model


def analyst(model: Model) -> Agent:
    return Agent(model=model, sandbox=GloveboxSandbox())
