"""A deep agent whose commands and files are in a sandbox."""

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend
from glovebox_sandbox.integrations.deepagents import INSTRUCTIONS, GloveboxBackend
from langchain_core.language_models import BaseChatModel


def analyst(model: BaseChatModel) -> object:
    backend = CompositeBackend(default=GloveboxBackend(), routes={}, artifacts_root="/app")
    return create_deep_agent(model, backend=backend, system_prompt=INSTRUCTIONS)
