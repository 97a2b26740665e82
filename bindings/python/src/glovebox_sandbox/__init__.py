"""Runs untrusted Python and JavaScript in WebAssembly, in well under a millisecond, with limits that hold.

>>> from glovebox_sandbox import Sandbox
>>> with Sandbox("python") as box:
...     run = box.execute("print(6 * 7)")
>>> run.ok, run.stdout
(True, '42\\n')
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
    "Opaque",
    "Outcome",
    "PolicyError",
    "Run",
    "RunFiles",
    "Sandbox",
    "ScriptError",
    "Session",
    "SessionError",
    "Tool",
    "ToolCall",
    "UnavailableError",
    "UnsupportedError",
    "types",
]
