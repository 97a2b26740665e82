"""What calls of a provider raise."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GloveboxError
from ..types import FileFailure, SandboxError, TooLarge


class RefusedError(GloveboxError):
    """The provider refused what was asked: nothing was executed."""

    def __init__(self, failure: SandboxError) -> None:
        super().__init__(f"{failure.tag}: {_described(failure.value)}")
        self.tag = failure.tag
        """Which of the contract's errors it is: `invalid-policy`, `source-too-large`, …"""
        self.failure = failure
        """The error as the contract has it."""


class InstanceLostError(GloveboxError):
    """The instance that a call was made in has trapped, and is gone with all that it held: its sessions have ended.

    The sandbox goes on in a new instance, which the next call makes. Scripts that are over a limit do not cause this.
    """

    def __init__(self, sessions: Sequence[str]) -> None:
        lost = f"the session {sessions[0]} was" if len(sessions) == 1 else f"the sessions {', '.join(sessions)} were"
        lost = lost if sessions else "no session was"
        super().__init__(f"the sandbox's instance has trapped, and {lost} lost with it")
        self.sessions = tuple(sessions)
        """The ids of the sessions that were lost."""


def _described(value: str | TooLarge | FileFailure) -> str:
    match value:
        case str():
            return value
        case TooLarge():
            return f"{value.bytes} bytes, of at most {value.limit}"
        case FileFailure():
            return f"{value.path}: {value.message}"
