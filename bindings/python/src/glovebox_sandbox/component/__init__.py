"""The contract `glovebox:sandbox` as it is, over a provider component that `wasmtime` runs.

`glovebox_sandbox.Sandbox(backend="component")` is made of it. Use this module where you need all that the contract has: a policy for each
execution, what providers say of themselves, errors as the contract names them.

    >>> sandbox = Sandbox("glovebox-python-closed.wasm")
    >>> sandbox.execute("print(6 * 7)").stdout.bytes
    b'42\\n'
"""

from ._answers import Tool
from .errors import InstanceLostError, RefusedError
from .provider import Provider, Sandbox, Session

__all__ = ["InstanceLostError", "Provider", "RefusedError", "Sandbox", "Session", "Tool"]
