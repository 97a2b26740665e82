"""Converts a daemon's errors to this package's errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ._daemon_client import Problem
from .errors import (
    FilesError,
    GloveboxError,
    PolicyError,
    SessionError,
    SuspensionError,
    UnavailableError,
    UnsupportedError,
)

_CLASSES: dict[str, type[GloveboxError]] = {
    "not-found": SessionError,
    "exists": SessionError,
    "session-ended": SessionError,
    "session-busy": SessionError,
    "session-fenced": SessionError,
    "no-checkpoint": SessionError,
    "not-resumable": SessionError,
    "variable": SessionError,
    "execution-busy": UnavailableError,
    "quota-exceeded": UnavailableError,
    "rate-exceeded": UnavailableError,
    "unsupported": UnsupportedError,
    "file": FilesError,
}


IN_SESSION = "the execution was suspended in a session"
"""Part of the message of an error about an execution that can only be resumed in a session."""


@contextlib.contextmanager
def errors(*, of_files: bool = False, of_suspension: tuple[str, ...] = ()) -> Iterator[None]:
    """Converts a daemon's errors to this package's errors. Errors whose type is in `of_suspension` become
    `SuspensionError`."""
    try:
        yield
    except Problem as problem:
        if problem.type in of_suspension:
            # The daemon's message names a field of the request.
            hint = f"{IN_SESSION}; restore the session with `resume_suspended_session`, and call its `resume_suspended`"
            raise SuspensionError(hint if IN_SESSION in str(problem) else str(problem)) from problem
        rejected = FilesError if of_files else PolicyError
        kind = _CLASSES.get(problem.type, UnavailableError if problem.status >= 500 else rejected)
        raise kind(str(problem)) from problem
