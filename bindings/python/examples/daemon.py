"""Runs scripts in a daemon, if one is available."""

from glovebox_sandbox import Sandbox


def llm_query(prompt: str) -> str:
    """Asks a model. This example only returns the prompt in upper case."""
    return prompt.upper()


# Uses the daemon if one answers, otherwise this process.
with Sandbox("python", backend="auto", tools=[llm_query]) as box, box.session(context=["one", "two"]) as session:
    run = session.execute("answers = [llm_query(part) for part in context]\nprint(answers)")
    print(run.stdout.strip(), session.variables["answers"][1])
