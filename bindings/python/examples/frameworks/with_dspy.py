"""A dspy module whose code runs in a sandbox."""

import dspy
from glovebox_sandbox.integrations.dspy import GloveboxInterpreter


def ask(question: str, text: str, lm: dspy.LM) -> object:
    dspy.configure(lm=lm, interpreter_factory=GloveboxInterpreter)
    return dspy.RLM("text, question -> answer")(text=text, question=question)
