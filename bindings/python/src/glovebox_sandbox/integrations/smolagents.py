"""The executor of smolagents' `CodeAgent`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import _check
from ..run import Opaque
from ..types import Limits
from ._common import Interpreter, failure, not_installed

try:
    from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor
except ImportError as error:
    raise not_installed("smolagents", error) from error

_FINAL = "final_answer"


class GloveboxExecutor(PythonExecutor):
    """An executor that runs an agent's code in a Glovebox session:
    `CodeAgent(tools=[…], model=…, executor=GloveboxExecutor())`.

    The agent's tools run on the host, and scripts call them by name. Arguments and results are passed as JSON.
    Variables, imports and files persist between steps. `final_answer(…)` ends the script.
    """

    def __init__(self, *, limits: Limits | None = None, **options: Any) -> None:
        """`limits` and the other options are those of `Sandbox`. By default, the timeout of a step and of each tool call
        is 60 seconds.
        """
        self._functions: dict[str, Callable[..., Any]] = {}
        self._ends: dict[str, Callable[..., Any]] = {}
        self._answers: list[Any] = []
        self._interpreter = Interpreter(self._functions, ends=self._ends, limits=limits, **options)
        self.state: dict[str, Any] = {"__name__": "__main__", "_print_outputs": ""}
        """The name of the module in which scripts run, and the output that the agent shows for a failed step."""

    def send_tools(self, tools: Mapping[str, Callable[..., Any]]) -> None:
        """Replaces the tools that scripts can call."""
        functions: dict[str, Callable[..., Any]] = {}
        for name, tool in tools.items():
            if not callable(tool):
                raise _check.wrong(f"tools[{name!r}]", "callable", tool)
            functions[name] = tool
        self._ends.clear()
        if final := functions.pop(_FINAL, None):
            self._ends[_FINAL] = lambda *args, **kwargs: self._answers.append(final(*args, **kwargs))
        self._functions.clear()
        self._functions.update(functions)

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Sets global variables. Raises `TypeError` for a value that JSON cannot represent."""
        self._interpreter.set_variables(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs the code of one step. A script that fails raises an `InterpreterError`, which the agent shows to its
        model."""
        self._answers.clear()
        self.state["_print_outputs"] = ""
        run = self._interpreter.run(code_action)
        logs = self.state["_print_outputs"] = run.stdout
        if self._answers:
            return CodeOutput(output=self._answers[0], logs=logs, is_final_answer=True)
        if not run.ok:
            raise InterpreterError(failure(run))
        value = run.value
        return CodeOutput(output=value.repr if isinstance(value, Opaque) else value, logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Ends the session. `CodeAgent.cleanup` calls this method."""
        self._interpreter.close()
