"""Runs untrusted Python and JavaScript in WebAssembly, in well under a millisecond, with enforced limits.

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

from . import types
from ._backend import Mount
from .aio import AsyncSandbox, AsyncSession
from .displays import Display
from .errors import (
    CommitError,
    FilesError,
    GloveboxError,
    PolicyError,
    ScriptError,
    SessionError,
    UnavailableError,
    UnsupportedError,
)
from .network import Network, Secret
from .run import Diagnostic, Opaque, Outcome, Run, RunFiles, ToolCall
from .sandbox import Sandbox, Session
from .tools import Tool
from .types import Limits

__version__ = "0.1.0"

__all__ = [
    "AsyncSandbox",
    "AsyncSession",
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
    "Tool",
    "ToolCall",
    "UnavailableError",
    "UnsupportedError",
    "types",
]
