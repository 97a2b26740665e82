"""The errors of calls to a provider."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GloveboxError
from ..types import FileFailure, SandboxError, TooLarge


class RefusedError(GloveboxError):
    """The provider returned an error. Nothing was executed, with two exceptions. The tag `variable` means that code in
    the guest failed, and a started execution can also fail after its script has run.
    """

    def __init__(self, failure: SandboxError) -> None:
        super().__init__(f"{failure.tag}: {_described(failure.value)}")
        self.tag = failure.tag
        """The case of the contract's `sandbox-error`: `invalid-policy`, `source-too-large`, …"""
        self.failure = failure
        """The error in the contract's form."""


class InstanceLostError(GloveboxError):
    """The instance that executed a call has trapped, and its sessions have ended.

    The sandbox continues in a new instance, which the next call creates. Scripts that exceed a limit do not cause this
    error.
    """

    def __init__(self, sessions: Sequence[str]) -> None:
        lost = f"the session {sessions[0]} was" if len(sessions) == 1 else f"the sessions {', '.join(sessions)} were"
        lost = lost if sessions else "no session was"
        super().__init__(f"the sandbox's instance has trapped, and {lost} lost with it")
        self.sessions = tuple(sessions)
        """The IDs of the lost sessions."""


def _described(value: str | TooLarge | FileFailure) -> str:
    match value:
        case str():
            return value
        case TooLarge():
            return f"{value.bytes} bytes; the maximum is {value.limit}"
        case FileFailure():
            return f"{value.path}: {value.message}"
