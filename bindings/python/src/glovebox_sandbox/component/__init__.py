"""The complete contract `glovebox:sandbox`, implemented by a provider component that runs in `wasmtime`.

`glovebox_sandbox.Sandbox(backend="component")` uses this module. Use it directly for features that only the contract has: a
policy for each execution, descriptions of providers, and the contract's error names.

    >>> sandbox = Sandbox("glovebox-python-closed.wasm")
    >>> sandbox.execute("print(6 * 7)").stdout.bytes
    b'42\\n'
"""

from ._answers import Tool
from .errors import InstanceLostError, RefusedError
from .provider import Provider, Sandbox, Session

__all__ = ["InstanceLostError", "Provider", "RefusedError", "Sandbox", "Session", "Tool"]
