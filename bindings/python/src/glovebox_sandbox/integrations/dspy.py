"""The interpreter for dspy modules that write code: `RLM`, `Flex` and `ProgramOfThought`."""

from __future__ import annotations

import keyword
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from ..errors import GloveboxError
from ..run import Opaque, Run
from ..types import Limits
from ._common import Interpreter, failure, not_installed

try:
    from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise not_installed("dspy", error) from error

_SUBMIT = "SUBMIT"


class GloveboxInterpreter:
    """dspy's `CodeInterpreter` in a Glovebox session: `dspy.configure(interpreter_factory=GloveboxInterpreter)`.

    Host tools and `SUBMIT` are global functions in scripts. Arguments and results are passed as JSON. A script that
    reaches a limit raises a `CodeExecutionError`, and the session continues. A script that ends its interpreter raises
    a `CodeInterpreterError`, and all later calls raise this error too.
    """

    execution_instructions = (
        "Python runs in CPython/WebAssembly. Variables, functions, imports and files of the working directory persist across executions. "
        "The standard library is available; subprocesses, threads, the network and the host's files and environment are not. "
        "Host tools and SUBMIT are global functions, and their arguments and results are JSON-compatible values."
    )
    """dspy's description of this interpreter for the model."""

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        output_fields: Sequence[Mapping[str, Any]] | None = None,
        *,
        limits: Limits | None = None,
        **options: Any,
    ) -> None:
        """`tools` are host functions, by name. `output_fields` are the parameters of `SUBMIT`; without them `SUBMIT`
        takes one value. `limits` and the other options are those of `Sandbox`. By default, the timeout of an execution
        and of each tool call is 60 seconds.
        """
        self._tools: dict[str, Callable[..., Any]] = dict(tools or {})
        self.output_fields = None if output_fields is None else [dict(field) for field in output_fields]
        """The parameters of `SUBMIT`. dspy sets them to the output fields of a module's signature."""
        self._submitted: list[dict[str, Any]] = []
        self._running = threading.Lock()
        self._is_shut_down = False
        self._interpreter = Interpreter(
            self._tools, ends={_SUBMIT: self._submit}, replace=False, plain=_jsonable, limits=limits, **options
        )

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The functions that scripts can call. A removed function can no longer be called, not even by a running
        script."""
        return self._tools

    def start(self) -> None:
        """Opens the session, if it is not open yet."""
        self._check_alive()
        try:
            self._interpreter.open()
        except (GloveboxError, ValueError, TypeError) as error:
            raise CodeInterpreterError(str(error)) from error

    def execute(self, code: str, variables: Mapping[str, Any] | None = None) -> Any:
        """Runs a script. Returns the submitted value, otherwise the value of the last expression, otherwise the printed
        output, otherwise `None`."""
        self._check_alive()
        if not isinstance(code, str):
            raise CodeInterpreterError(f"code must be str, not {type(code).__name__}")
        given = self._variables(variables or {})
        if not self._running.acquire(blocking=False):
            raise CodeInterpreterError(
                "the interpreter is already running a script, possibly the caller of this tool; wait until it ends, "
                "or use another interpreter"
            )
        try:
            self._submitted.clear()
            return self._result(self._interpreter.run(code, given))
        except (GloveboxError, ValueError, TypeError) as error:
            raise CodeInterpreterError(str(error)) from error
        finally:
            self._running.release()

    def shutdown(self) -> None:
        """Ends the session permanently. Shutting down again has no effect."""
        self._is_shut_down = True
        self._interpreter.close()

    def _check_alive(self) -> None:
        if self._is_shut_down:
            raise CodeInterpreterError("the interpreter was shut down; create a new one")
        if _SUBMIT in self._tools:
            raise CodeInterpreterError(f"a tool must not be named {_SUBMIT}; rename the tool")

    def _variables(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        for name in variables:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise CodeInterpreterError(f"{name!r} is not a valid Python variable name")
            if name == _SUBMIT or name in self._tools:
                raise CodeInterpreterError(f"a variable must not have the name of the tool {name}; rename the variable")
        represented: dict[str, Any] = {}
        for name, value in variables.items():
            try:
                represented[name] = to_jsonable_python(value)
            except ValueError as error:
                raise CodeInterpreterError(f"variable {name!r} cannot be represented in JSON: {error}") from error
        return represented

    def _submit(self, *args: Any, **kwargs: Any) -> None:
        if self.output_fields is None:
            if len(args) + len(kwargs) != 1 or (kwargs and "output" not in kwargs):
                raise TypeError("SUBMIT takes one value: pass it as the only argument, or as `output`")
            self._submitted.append({"output": args[0] if args else kwargs["output"]})
            return
        names = [field["name"] for field in self.output_fields]
        if len(args) > len(names):
            raise TypeError(f"SUBMIT takes only {', '.join(names)}; number of given values: {len(args)}")
        values = dict(zip(names, args, strict=False))
        if twice := sorted(values.keys() & kwargs.keys()):
            raise TypeError(f"SUBMIT got multiple values for {', '.join(twice)}")
        values.update(kwargs)
        if wrong := sorted(values.keys() ^ set(names)):
            raise TypeError(f"SUBMIT takes {', '.join(names)}; missing or unknown: {', '.join(wrong)}")
        self._submitted.append({name: values[name] for name in names})

    def _result(self, run: Run) -> Any:
        if self._submitted:
            return FinalOutput(self._submitted[0])
        if ended := self._interpreter.ended:
            raise CodeInterpreterError(f"the script ended its interpreter: {ended}")
        outcome = run.outcome
        if outcome.kind == "raised" and outcome.type == "SyntaxError":
            raise SyntaxError(f"{outcome.message}\n{failure(run)}")
        if outcome.kind != "completed":
            raise CodeExecutionError(failure(run))
        value = run.value
        if isinstance(value, Opaque):
            return value.repr
        return value if value is not None else run.stdout or None

    def __call__(self, code: str, variables: Mapping[str, Any] | None = None) -> Any:
        """Calls `execute`."""
        return self.execute(code, variables)

    def __enter__(self) -> GloveboxInterpreter:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()


def _jsonable(value: Any) -> Any:
    """Converts a tool's result as dspy's own interpreters do."""
    return to_jsonable_python(value, fallback=str)
