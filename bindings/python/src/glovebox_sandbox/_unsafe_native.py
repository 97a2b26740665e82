"""An ordinary Python as a backend, without a sandbox: scripts have all rights of the current user."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, cast

from . import _daemon_backend, tools
from ._backend import Policy
from ._rpc import Connection
from .errors import UnavailableError, UnsupportedError

REPL = Path(__file__).with_name("_unsafe_repl.py")
"""The program that runs in the other process."""

WHY = (
    'backend="native" with unsafe_native=True runs scripts in an ordinary Python: they can read and write your files, use the network and '
    "start programs"
)

_OLDEST = (3, 8)
_VERSION_S = 10


def python() -> str:
    """Finds a Python that is recent enough."""
    for path in (sys.executable, "python3", "python"):
        if path and (version := _version(path)) is not None and version >= _OLDEST:
            return path
    raise UnavailableError("unsafe_native: Python 3.8 or later was not found; install it, or remove unsafe_native")


@functools.cache
def _version(path: str) -> tuple[int, int] | None:
    """Returns the version that `PATH --version` prints; `None` if the program fails."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"Python (\d+)\.(\d+)", said.stdout or said.stderr)
    return None if found is None else (int(found[1]), int(found[2]))


def open_backend(name: str, policy: Policy, wait: tools.Await) -> _daemon_backend.Remote:
    """Starts a Python process in a new directory. Nothing else isolates the process."""
    _daemon_backend.refuse(policy)
    if name != "python":
        raise UnsupportedError(f"unsafe_native: `{name}` is not supported; only Python runs without a sandbox")
    if policy.files:
        raise UnsupportedError("files: not supported without a sandbox, because scripts run in a host directory; remove it")
    directory = tempfile.TemporaryDirectory(prefix="glovebox-native-")
    process = subprocess.Popen(
        # Passed as text: for a file, Python would import from the file's directory first, and that directory has its
        # own `types` module.
        [python(), "-u", "-c", REPL.read_text(encoding="utf-8")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=directory.name,
        env={**os.environ, **policy.env},
        start_new_session=os.name == "posix",
    )

    def close() -> None:
        process.kill()
        process.wait()
        directory.cleanup()

    reader, writer = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stdin)
    connection = Connection(reader, writer, _daemon_backend.answering(policy, wait), close)  # type: ignore[arg-type]
    return _daemon_backend.Remote(connection, name, policy)
