"""Runs untrusted Python and JavaScript in WebAssembly, with limits on fuel, time, memory, output and files.

    >>> sandbox = Sandbox("glovebox-python-closed.wasm")
    >>> sandbox.execute("print(6 * 7)").stdout.bytes
    b'42\\n'
"""

from . import types
from .errors import GloveboxError, InstanceLostError, RefusedError
from .sandbox import Provider, Sandbox, Session
from .tools import Tool

__all__ = ["GloveboxError", "InstanceLostError", "Provider", "RefusedError", "Sandbox", "Session", "Tool", "types"]
