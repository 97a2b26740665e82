"""Functions that scripts can call."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, Protocol

from . import _check
from .errors import ToolDenied

_PLAIN: dict[object, dict[str, Any]] = {
    Any: {},
    object: {},
    inspect.Parameter.empty: {},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
}


class Token(Protocol):
    """A token that indicates whether the answer to a call is still needed."""

    @property
    def is_cancelled(self) -> bool: ...


class CancelToken:
    """A cancellation token for executions in another process and their tool calls. The native module has its own class."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancels the execution, or marks the answer as no longer needed."""
        self.is_cancelled = True


class Tool:
    """A function that scripts call as `tools.name(…)`.

    >>> def add(a: int, b: int = 1) -> int:
    ...     "Adds two numbers."
    ...     return a + b
    >>> tool = Tool(add)
    >>> tool.name, tool.description, tool.schema["required"]
    ('add', 'Adds two numbers.', ['a'])

    The tool's name, description and schema come from the function's name, docstring and type hints. Arguments are
    validated against the schema before the call. The function must return a value that JSON can represent. A
    `ToolDenied` becomes `tools.ToolDenied` in the script, and any other exception becomes `tools.ToolError`. An `async`
    function is awaited on the loop of the `AsyncSandbox`; in a `Sandbox`, it is awaited on a separate loop.
    Tools run concurrently, on separate threads.
    """

    __slots__ = ("description", "function", "name", "schema", "waits")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        waits: bool = False,
    ) -> None:
        """`schema` is a JSON Schema of an object whose properties are the named arguments.

        With `waits=True`, a tool call does not call the function: it waits for an answer from the caller of
        `Sandbox.start`. In `execute`, the call fails. Only the native backend and a daemon support `waits`.
        """
        if not callable(function):
            raise _check.wrong("function", "callable", function)
        self.function = function
        named = getattr(function, "__name__", type(function).__name__)
        self.name = named if name is None else _check.of("name", str, name)
        documented = inspect.getdoc(function) or ""
        self.description = documented if description is None else _check.of("description", str, description)
        if schema is None:
            self.schema = schema_of(function)
        elif isinstance(schema, Mapping):
            self.schema = dict(schema)
        else:
            raise _check.wrong("schema", "a mapping", schema)
        _check.as_json("schema", self.schema)
        self.waits = _check.of("waits", bool, waits)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


def tool_of(name: str, tool: object) -> Tool:
    """Creates a tool from a function, or returns a tool unchanged."""
    if isinstance(tool, Tool):
        return tool
    if not callable(tool):
        raise _check.wrong(name, "a function or a Tool", tool)
    return Tool(tool)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Creates the JSON Schema of a function's arguments."""
    named = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = inspect.signature(function).parameters.values()
        target = function if inspect.isroutine(function) else type(function).__call__
        hints = typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise TypeError(f"cannot derive a schema for the arguments of {named}: {error}; pass Tool(…, schema=…)") from None
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            schema["additionalProperties"] = True
            continue
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"{named} takes `{parameter}` by position only, but scripts pass arguments by name; "
                "make it a keyword parameter"
            )
        of = form(f"{named}({parameter.name})", hints.get(parameter.name, parameter.empty))
        if parameter.default is parameter.empty:
            schema["required"].append(parameter.name)
        elif _is_json(parameter.default):
            of = {**of, "default": parameter.default}
        schema["properties"][parameter.name] = of
    return schema


def form(name: str, hint: Any) -> dict[str, Any]:
    """Converts a type hint to JSON Schema."""
    try:
        plain = _PLAIN.get(hint)
    except TypeError:
        plain = None
    if plain is not None:
        return dict(plain)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        texts = [each for each in arguments[1:] if isinstance(each, str)]
        return {**form(name, arguments[0]), **({"description": texts[0]} if texts else {})}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [form(name, each) for each in arguments]}
    if isinstance(origin, type) and issubclass(origin, tuple) and not (len(arguments) == 2 and arguments[1] is ...):
        items = [form(name, each) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": form(name, arguments[1])}
    if isinstance(origin, type) and issubclass(origin, (Sequence, set, frozenset)):
        return {"type": "array", "items": form(name, arguments[0])}
    if typing.is_typeddict(hint):
        fields = {key: form(f"{name}.{key}", each) for key, each in typing.get_type_hints(hint).items()}
        return {"type": "object", "properties": fields, "required": sorted(hint.__required_keys__)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and issubclass(hint, (str, int)):
        return {"enum": [each.value for each in hint]}
    shown = getattr(hint, "__name__", hint)
    raise TypeError(f"{name} is a {shown}, and JSON cannot represent it; change the annotation, or pass Tool(…, schema=…)")


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and value == value)


Await = Callable[[Coroutine[Any, Any, Any], Token], Any]
"""Awaits a coroutine on behalf of a thread that has no event loop, and returns its result."""


def await_here(coroutine: Coroutine[Any, Any, Any], token: Token) -> Any:
    """Awaits a coroutine on a separate event loop. Cancels it when its result is no longer needed."""
    import asyncio

    async def watched() -> Any:
        task = asyncio.ensure_future(coroutine)
        while not task.done():
            await asyncio.wait([task], timeout=0.05)
            if token.is_cancelled:
                task.cancel()
        return task.result()

    return asyncio.run(watched())


async def _contained(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Awaits a tool's coroutine. Converts `SystemExit`, which would end the caller's loop, to an error of the tool."""
    try:
        return await coroutine
    except SystemExit as error:
        raise RuntimeError(f"the tool exited: {error}") from None


AnswerKind = Literal["returned", "failed", "denied"]
"""The outcome of a tool call."""

Answer = tuple[AnswerKind, str]
"""The answer to a tool call: its outcome, and the result as JSON text or the text of the failure."""


def answer(tool: Tool, wait: Await, arguments: str, token: Token) -> Answer:
    """Calls a tool's function with JSON arguments, and converts its result or exception to an answer."""
    import asyncio  # The import takes 10 ms, and programs without tools do not need it.

    try:
        result = tool.function(**json.loads(arguments))
        if inspect.iscoroutine(result):
            result = wait(_contained(result), token)
        if dataclasses.is_dataclass(result) and not isinstance(result, type):
            result = dataclasses.asdict(result)
    except SystemExit as error:
        return "failed", f"the tool exited: {error}"
    except (Exception, asyncio.CancelledError) as error:  # Any exception is reported to the script.
        # UTF-8 cannot encode lone surrogates.
        text = (str(error) or type(error).__name__).encode(errors="backslashreplace").decode()
        return "denied" if isinstance(error, ToolDenied) else "failed", text
    try:
        return "returned", json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return "failed", f"{tool.name} returned a value that JSON cannot represent: {error}"
