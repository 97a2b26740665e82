"""The errors of the package. A script's failure is an outcome, not an error; `Run.raise_for_outcome` turns it into an
error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Run


class GloveboxError(Exception):
    """The base of all errors of this package."""


class PolicyError(GloveboxError, ValueError):
    """The request is invalid: a limit, a mount, a tool, a runtime's name, or a source over its limit. Nothing was
    executed."""


class UnavailableError(GloveboxError):
    """The sandbox, or an instance of it, is currently unavailable on this machine. The message suggests a remedy."""


class UnsupportedError(GloveboxError):
    """The backend does not support the operation or the option. The message names an alternative, such as another
    backend."""


class SessionError(GloveboxError):
    """A session has ended, is busy or cannot be resumed, its chosen ID is in use, or a checkpoint or variable does not
    exist. Nothing was changed."""


class FilesError(GloveboxError, OSError):
    """An operation on a workspace's files was refused. The workspace is unchanged."""


class CommitError(GloveboxError):
    """A script ran, but its files could not be committed to the host directory. The message says whether the directory
    is unchanged."""

    def __init__(self, message: str, execution: Any) -> None:
        from .run import Run

        super().__init__(message)
        self.run: Run = Run(execution)
        """The run whose files were not committed."""


class SuspensionError(GloveboxError):
    """A script cannot be suspended now, or a suspended script cannot be resumed.

    A resumption fails if the bytes are damaged or need another interpreter, or if the script behaves differently than
    before. It also fails if a script from a session is resumed outside a session, or vice versa.
    """


class ToolDenied(Exception):
    """Raised by a tool's function when a person or a policy refuses the call. The script receives `tools.ToolDenied` with
    the same message. This package never raises it."""


class ScriptError(GloveboxError):
    """A script did not succeed. Only `Run.raise_for_outcome` raises this error."""

    def __init__(self, run: Run) -> None:
        super().__init__(str(run.outcome))
        self.run = run
        """The failed run."""
