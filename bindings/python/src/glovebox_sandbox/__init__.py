"""Runs untrusted Python and JavaScript in WebAssembly with enforced limits. A fresh interpreter starts in well under a
millisecond.

>>> from glovebox_sandbox import Sandbox
>>> with Sandbox("python") as box:
...     run = box.execute("print(6 * 7)")
>>> run.ok, run.stdout
(True, '42\\n')

Most features in one example:

>>> from glovebox_sandbox import Limits
>>> def search(query: str) -> list[str]:
...     "Finds things."
...     return [query.upper()]
>>> with Sandbox("python", limits=Limits(memory_bytes=256 << 20), tools=[search]) as box:
...     run = box.execute("print(tools.search(query=input()))", stdin="tea", name="x.py", timeout_ms=60_000, on_stdout=print)
...     with box.session(context={"doc": "text"}) as session:
...         session.files.write("a.txt", b"first")
...         made = session.execute("x = len(context['doc']); open('out.csv', 'w').write('1,2'); x")
...         child = session.fork()
...         before = session.undo()
...         state = session.hibernate()
...     "x" in box.resume(state).variables
['TEA']
<BLANKLINE>
False
>>> made.value, made.files_created, child.variables["x"], child.files.read("a.txt")
(4, ['out.csv'], 4, b'first')
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import types
    from ._backend import Mount
    from .aio import AsyncSandbox, AsyncSession, AsyncWaitingRun
    from .displays import Display
    from .errors import (
        CommitError,
        FilesError,
        GloveboxError,
        PolicyError,
        ScriptError,
        SessionError,
        SuspensionError,
        ToolDenied,
        UnavailableError,
        UnsupportedError,
    )
    from .network import Network, Secret
    from .run import Diagnostic, Opaque, Outcome, Run, RunFiles, ToolCall
    from .sandbox import Sandbox, Session
    from .tools import Tool
    from .types import Limits
    from .waiting import WaitingCall, WaitingRun
else:
    # Importing all modules takes over 30 ms, so a module is imported when one of its names is first used.
    _MODULES = {
        "_backend": "Mount",
        "aio": "AsyncSandbox AsyncSession AsyncWaitingRun",
        "displays": "Display",
        "errors": "CommitError FilesError GloveboxError PolicyError ScriptError SessionError SuspensionError ToolDenied "
        "UnavailableError UnsupportedError",
        "network": "Network Secret",
        "run": "Diagnostic Opaque Outcome Run RunFiles ToolCall",
        "sandbox": "Sandbox Session",
        "tools": "Tool",
        "types": "Limits",
        "waiting": "WaitingCall WaitingRun",
    }

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f".{name}", __name__)
        for module, names in _MODULES.items():
            if name in names.split():
                value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


__version__ = "0.1.0"

__all__ = [
    "AsyncSandbox",
    "AsyncSession",
    "AsyncWaitingRun",
    "CommitError",
    "Diagnostic",
    "Display",
    "FilesError",
    "GloveboxError",
    "Limits",
    "Mount",
    "Network",
    "Opaque",
    "Outcome",
    "PolicyError",
    "Run",
    "RunFiles",
    "Sandbox",
    "ScriptError",
    "Secret",
    "Session",
    "SessionError",
    "SuspensionError",
    "Tool",
    "ToolCall",
    "ToolDenied",
    "UnavailableError",
    "UnsupportedError",
    "WaitingCall",
    "WaitingRun",
    "types",
]
