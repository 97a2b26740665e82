"""A LlamaIndex `CodeActAgent` whose code runs in a sandbox."""

from collections.abc import Callable

from glovebox_sandbox.integrations.llama_index import code_execute_fn
from llama_index.core.agent.workflow import CodeActAgent
from llama_index.core.llms import LLM


async def ask(question: str, functions: list[Callable[..., object]], llm: LLM) -> object:
    agent = CodeActAgent(code_execute_fn=code_execute_fn(functions), tools=functions, llm=llm)
    return await agent.run(question)
