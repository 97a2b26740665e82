"""Runs the code that a model writes, until the model has no more code. The agent runs in the sandbox, like that code."""

import contextlib
import io
from pathlib import Path


def run(code: str) -> str:
    """Returns what the code prints. An error is part of it, so that the model can correct the code."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(code, {"tools": tools})
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    return output.getvalue().strip()


for bill in sorted(Path().glob("*.txt")):
    print(f"# {bill}")
    messages = [f"Task: pay the bill in {bill}."]
    while code := tools.model(prompt="\n".join(messages)):
        output = run(code)
        messages += [f"Code: {code}", f"Output: {output}"]
        if not code.startswith("print(open"):
            print(f"{code}\n  {output}")
