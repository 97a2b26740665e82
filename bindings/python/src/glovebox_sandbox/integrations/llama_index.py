"""The function that executes code for LlamaIndex's `CodeActAgent`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import _check
from ..types import Limits
from ._common import MAX_CHARACTERS, Interpreter, failure, not_installed, shorten

try:
    from llama_index.core.tools import FunctionTool
except ImportError as error:
    raise not_installed("llama-index-core", error) from error


def code_execute_fn(
    functions: Iterable[Callable[..., Any] | FunctionTool] = (),
    *,
    keep: bool = True,
    max_characters: int = MAX_CHARACTERS,
    limits: Limits | None = None,
    **options: Any,
) -> Callable[[str], Any]:
    """Creates the `code_execute_fn` of a `CodeActAgent`: an `async` function from code to a dict.

    `functions` are the agent's `tools`, which scripts call by name. They run on the host; `async` functions run on the
    agent's loop. Variables persist between calls unless `keep=False`.

    The dict has `stdout`, `stderr`, the `value` of the last expression as the interpreter prints it, and `error`.
    `error` is the traceback and advice for a failed script, otherwise `None`. Each text is shortened to
    `max_characters`. `limits` and the other options are those of `Sandbox`.
    """
    named: dict[str, Callable[..., Any]] = {}
    for function in functions:
        if isinstance(function, FunctionTool):
            if function.requires_context:
                raise TypeError(
                    f"{function.metadata.name} requires a context, but scripts have none; remove the parameter, "
                    "or leave the tool out"
                )
            function = function.real_fn
        elif not callable(function):
            raise _check.wrong("an item of functions", "a function or a FunctionTool", function)
        named[function.__name__] = function
    limit = _check.of("max_characters", int, max_characters)
    interpreter = Interpreter(named, keep=keep, limits=limits, **options)

    async def execute(code: str) -> dict[str, Any]:
        """Runs Python code in a sandbox."""
        run = await interpreter.run_async(code)
        return {
            "stdout": shorten(run.stdout, limit),
            "stderr": shorten(run.stderr, limit) if run.ok else "",
            "value": run.value_repr and shorten(run.value_repr, limit),
            "error": None if run.ok else shorten(failure(run), limit),
        }

    return execute
