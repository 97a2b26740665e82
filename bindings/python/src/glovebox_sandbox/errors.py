"""What this package raises. What a script does wrong is no error but an outcome; `Run.raise_for_outcome` makes an error of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Run


class GloveboxError(Exception):
    """Any error of this package."""


class PolicyError(GloveboxError, ValueError):
    """What was asked for cannot be: a limit, a mount, a tool, a runtime's name, a source over its limit. Nothing was executed."""


class UnavailableError(GloveboxError):
    """The sandbox or an instance of it is not to be had on this machine now. The message says what to do."""


class UnsupportedError(GloveboxError):
    """The backend cannot do this. The message says which can, or what to do instead."""


class SessionError(GloveboxError):
    """A session has ended, is busy, has no such checkpoint or variable, or cannot be resumed. Nothing was changed."""


class FilesError(GloveboxError, OSError):
    """An operation on a workspace's files was refused. The workspace is as it was."""


class CommitError(GloveboxError):
    """A script ran, but its files could not be brought to the host's directory; nothing there has changed."""

    def __init__(self, message: str, execution: Any) -> None:
        from .run import Run

        super().__init__(message)
        self.run: Run = Run(execution)
        """What the script did all the same."""


class ScriptError(GloveboxError):
    """A script did not succeed: raised by `Run.raise_for_outcome` and by nothing else."""

    def __init__(self, run: Run) -> None:
        super().__init__(str(run.outcome))
        self.run = run
        """What it did."""
