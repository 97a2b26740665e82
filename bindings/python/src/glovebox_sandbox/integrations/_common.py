"""The code shared by the adapters: an interpreter whose scripts call the host's functions by their bare names, and
reports for models."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import keyword
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from .. import _check
from .._input import _input
from .._native_backend import is_here
from ..aio import _ThreadedSandbox, _Threads
from ..errors import SessionError
from ..run import Run
from ..sandbox import Session
from ..tools import Tool, await_here, tool_of
from ..types import Limits
from ._tool_list import tool_list

P = ParamSpec("P")
T = TypeVar("T")
Made = TypeVar("Made")

DEFAULT_LIMITS = Limits(timeout_ms=60_000, fuel=60_000 * 40_000_000, tool_timeout_ms=60_000, tool_calls=1_000)
"""The default limits of adapters. A script's tools may call models, which can take longer than a sandbox's default
timeout of ten seconds. The ratio of fuel to time is the default one, so that a script times out before its fuel is
exhausted."""

MAX_CHARACTERS = 20_000
"""Default maximum length of a report for a model, in characters."""

_DISPATCHER = "host_function"
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "args": {"type": "array"}, "kwargs": {"type": "object"}},
    "required": ["name", "args", "kwargs"],
    "additionalProperties": False,
}

# The prelude executes in `__main__`, like the scripts. It defines no names there, and only adds the `_host` module to
# `sys.modules`.
_PRELUDE = f'''
def _prepare(dispatch):
    import dataclasses, datetime, decimal, pathlib, sys, types

    host = types.ModuleType("_host")
    bound = {{}}

    class Ended(SystemExit):
        """The exception that ends a script after its final answer."""

    def plain(value, lenient):
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        if isinstance(value, dict):
            return {{key if isinstance(key, str) else str(key): plain(each, lenient) for key, each in value.items()}}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(each, lenient) for each in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return plain(dataclasses.asdict(value), lenient)
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, (decimal.Decimal, pathlib.PurePath)):
            return str(value)
        if hasattr(value, "tolist"):
            return plain(value.tolist(), lenient)
        if lenient:
            return repr(value)
        raise TypeError(f"cannot pass a value of type {{type(value).__name__}} to a host function: JSON cannot represent it")

    def function(name, ends):
        def call(*args, **kwargs):
            try:
                result = dispatch(name=name, args=plain(args, ends), kwargs=plain(kwargs, ends))
            except Exception as error:
                # Removes the frames below, which are not the model's code.
                raise error.with_traceback(None) from None
            if ends:
                raise Ended(0)
            return result

        call.__name__ = call.__qualname__ = name
        return call

    def bind(scope, names, ending):
        for name in [name for name in bound if name not in names]:
            if scope.get(name) is bound.pop(name):
                del scope[name]
        for name in names:
            scope[name] = bound[name] = function(name, name in ending)

    host.bind = bind
    sys.modules["_host"] = host

_prepare(tools.{_DISPATCHER})
del _prepare
'''


def not_installed(framework: str, error: ImportError) -> ImportError:
    """Returns the error for a framework that cannot be imported or is too old."""
    return ImportError(f"{__package__}: {error}; install it with: pip install --upgrade {framework}", name=error.name)


def threads_of(sandbox: _ThreadedSandbox) -> _Threads:
    """Creates the threads that run a sandbox's scripts."""
    threads = _Threads()
    if not is_here() or sandbox._described[1] == "component":
        threads.limit()
    return threads


class Interpreter:
    """A sandbox with one session, in which scripts find the host's `functions` as globals.

    `functions` may change at any time: calls to a removed function fail immediately, and the next script can call an
    added function. A call to one of `ends` ends the script after the function has run on the host. If `replace` is
    true, a new session replaces a session that has ended.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        ends: Mapping[str, Callable[..., Any]] | None = None,
        keep: bool = True,
        replace: bool = True,
        plain: Callable[[Any], Any] | None = None,
        limits: Limits | None = None,
        language: str = "python",
        **options: Any,
    ) -> None:
        """`keep=False` runs every script in a new session. `plain` converts a function's result to a value that
        JSON can represent. The other options are those of `Sandbox`.
        """
        self._functions = functions
        self._ends = {} if ends is None else ends
        self._keep = _check.of("keep", bool, keep)
        self._replace = replace
        self._plain = _plain if plain is None else plain
        self._context = contextvars.copy_context()
        self._threads: _Threads | None = None
        self._lock = threading.Lock()
        # Held while a script runs, because its host functions use the context variables and event loop of its caller.
        # Without functions, the session itself runs one script at a time.
        self._running: AbstractContextManager[Any] = nullcontext()
        self._session: Session | None = None
        self._bound: frozenset[str] = frozenset()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self.variables: dict[str, Any] = {}
        """The initial variables of every new session."""
        tools = _check.sequence("tools", options.pop("tools", ()), lambda _, tool: tool)
        if functions is not None or ends is not None:
            self._functions = {} if functions is None else functions
            self._running = threading.Lock()
            described = "Calls a function of the host by its name."
            tools.append(Tool(self._dispatch, name=_DISPATCHER, description=described, schema=_SCHEMA))
        if limits is None:
            # A daemon's own limits can be lower, and a request cannot raise them.
            limits = Limits() if options.get("backend") == "daemon" else DEFAULT_LIMITS
        # The options are checked now. The sandbox, which takes time to open, opens with the first script.
        self._sandbox = _ThreadedSandbox(language, limits=limits, tools=tools, **options)
        self._is_open = False

    def _dispatch(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = self._ends.get(name) or (self._functions or {}).get(name)
        if function is None:
            raise NameError(f"the function `{name}` is no longer available")
        # This thread does not inherit the caller's context variables, in which frameworks store settings.
        result = self._context.copy().run(function, *args, **kwargs)
        return self._awaited(result, self._loop) if inspect.isawaitable(result) else self._plain(result)

    async def _awaited(self, result: Awaitable[Any], loop: asyncio.AbstractEventLoop | None) -> Any:
        """Awaits a result on the loop of the script's caller, if the caller has one."""

        async def whole() -> Any:
            return await result

        if loop is None or not loop.is_running():
            return self._plain(await result)
        return self._plain(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(whole(), loop)))

    def _new(self) -> Session:
        if self._is_closed:
            raise SessionError("the interpreter was closed; create a new one")
        if not self._is_open:
            self._sandbox.open(await_here)
            self._is_open = True
        session = self._sandbox.session()
        if self._functions is not None:
            session.execute(_PRELUDE, name="prelude.py").raise_for_outcome()
        for name, value in self.variables.items():
            session.variables[name] = value
        return session

    def _bind(self, session: Session, bound: frozenset[str]) -> frozenset[str]:
        """Defines the functions as globals of the session, unless they are already defined."""
        wanted = frozenset(self._functions or ()) | frozenset(self._ends)
        if wanted == bound:
            return bound
        for name in wanted:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"{name!r} is not a valid Python function name")
        code = f"__import__('_host').bind(globals(), {sorted(wanted)!r}, {sorted(self._ends)!r})"
        session.execute(code, name="bind.py").raise_for_outcome()
        return wanted

    def open(self) -> Session:
        """Returns the session, ready for a script. Opens a new session if there is none."""
        with self._lock:
            if not self._keep:
                session = self._new()
                self._bind(session, frozenset())
                return session
            if self._session is not None and self._session.ended is not None:
                if not self._replace:
                    raise SessionError(f"the session has ended: {self._session.ended}")
                self._session = None
            if self._session is None:
                self._session = self._new()
                self._bound = frozenset()
            self._bound = self._bind(self._session, self._bound)
            return self._session

    def set_variables(self, variables: Mapping[str, Any]) -> None:
        """Sets global variables of this session, and of a session that replaces it. Raises `TypeError` for a value that
        JSON cannot represent."""
        for name, value in variables.items():
            _check.as_json(f"variables[{name!r}]", value)
        if not variables:
            return
        session = self.open()
        for name, value in variables.items():
            session.variables[name] = value
            self.variables[name] = value

    def run(
        self,
        code: str,
        variables: Mapping[str, Any] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        token: Any = None,
    ) -> Run:
        """Runs a script with the given variables and files."""
        code = _check.of("code", str, code)
        for name, value in (variables or {}).items():
            _check.as_json(f"variables[{name!r}]", value)
        with self._running:
            session = self.open()
            self._context, self._loop = contextvars.copy_context(), loop
            try:
                for name, value in (variables or {}).items():
                    session.variables[name] = value
                for path, contents in (files or {}).items():
                    session.files.write(path, contents)
                return Run(session._session.execute(_input(code, None, None, None, None, None, None, None, token)))
            finally:
                if not self._keep and session.ended is None:
                    session.close()

    async def run_async(self, code: str, variables: Mapping[str, Any] | None = None) -> Run:
        """Like `run`, but asynchronous: `async` functions run on the caller's loop. A cancelled task ends the script.
        """
        if self._threads is None:
            self._threads = threads_of(self._sandbox)
        loop = asyncio.get_running_loop()
        return await self._threads.run_cancellable(lambda token: self.run(code, variables, loop=loop, token=token))

    @property
    def ended(self) -> str | None:
        """The reason for the end of the session, if it has ended."""
        return None if self._session is None else self._session.ended

    def close(self) -> None:
        """Ends the session and releases the sandbox. Closing it again has no effect."""
        self._is_closed = True
        with self._lock:
            session, self._session = self._session, None
        if session is not None and session.ended is None:
            session.close()
        self._sandbox.close()
        if self._threads is not None:
            self._threads.close()


def _plain(value: Any) -> Any:
    """Converts a result, such as a model of a framework, to values that JSON can represent."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def shorten(text: str, max_characters: int = MAX_CHARACTERS) -> str:
    """Cuts the middle out of text that is too long for a model."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters omitted]\n{text[len(text) - half :]}"


def failure(run: Run) -> str:
    """Explains a script's failure to the model that corrects the script: the traceback or the outcome, advice, and a
    rollback of the session."""
    outcome = run.outcome
    lines = [(outcome.traceback or "").strip() or str(outcome)]
    lines += [advice.summary for advice in run.guidance.advice]
    if run.rolled_back_to is not None:
        lines.append("The script was stopped, and its changes to variables and files are undone.")
    return "\n".join(lines)


def report(run: Run, max_characters: int = MAX_CHARACTERS) -> str:
    """Returns a report for a model: a script's output, the value of its last expression, and the cause of a failure."""
    parts = [run.stdout.rstrip("\n")]
    if run.ok:
        parts += [run.stderr.rstrip("\n"), run.value_repr or ""]
    else:
        parts.append(failure(run))
    return shorten("\n".join(part for part in parts if part), max_characters)


class CodeTool:
    """A tool that runs a model's code in its own sandbox, and returns a report for the model.

    Variables, functions and files persist between calls unless `keep=False`. All conversations that use this tool share
    its session, so create a tool for each conversation. `name` and `description` describe the tool to the model.
    Reports are shortened to `max_characters`. `limits` and the other options, including `language="javascript"` and
    `tools=[…]`, are those of `Sandbox`. By default, the timeout of a call is 60 seconds.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        keep: bool = True,
        max_characters: int = MAX_CHARACTERS,
        limits: Limits | None = None,
        language: str = "python",
        **options: Any,
    ) -> None:
        language = _check.of("language", str, language)
        shown = {"python": "Python", "javascript": "JavaScript"}.get(language, language)
        kept = "Variables, functions and files persist between calls." if keep else "Every call uses a new interpreter."
        self.name = _check.optional("name", str, name) or f"run_{language if language.isidentifier() else 'code'}"
        """The tool's name for models."""
        listed = tool_list(language, _check.sequence("tools", options.get("tools", ()), tool_of))
        self.description = _check.optional("description", str, description) or (
            f"Runs {shown} code in a sandbox without network access. The result is what the code prints and the value of its last "
            f"expression. {kept}" + (listed and f"\n{listed}")
        )
        """The tool's description for models."""
        self._max_characters = _check.of("max_characters", int, max_characters)
        self._interpreter = Interpreter(keep=keep, language=language, limits=limits, **options)

    def run_sync(self, code: str) -> tuple[str, bool]:
        """Runs code, and returns a report and `True` if the code succeeded."""
        return self._report(self._interpreter.run(code))

    async def run(self, code: str) -> tuple[str, bool]:
        """Like `run_sync`, for asynchronous code."""
        return self._report(await self._interpreter.run_async(code))

    def _report(self, run: Run) -> tuple[str, bool]:
        return report(run, self._max_characters) or "(no output)", run.ok


def _taking(make: Callable[P, Made]) -> Callable[[Callable[[Made], T]], Callable[P, T]]:
    """Returns a decorator. The decorated function has the parameters of `make`, and passes the result of `make` to the
    original function."""

    def decorate(function: Callable[[Made], T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(make(*args, **kwargs))

        for name in ("__module__", "__name__", "__qualname__"):
            setattr(call, name, getattr(function, name))
        call.__doc__ = f"{inspect.getdoc(function)}\n\n{inspect.getdoc(make)}"
        signature = inspect.signature(make)
        setattr(call, "__signature__", signature.replace(return_annotation=inspect.signature(function).return_annotation))
        return call

    return decorate


adapter = _taking(CodeTool)
"""Creates `run_code_tool` from a function that converts a `CodeTool` to a framework's tool. All adapters thus have the
same options."""
