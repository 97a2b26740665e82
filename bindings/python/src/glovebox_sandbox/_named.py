"""The named sessions of a notebook, and the magics that manage them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from .errors import GloveboxError
from .sandbox import Sandbox, Session

FIRST = "main"
"""The name of a notebook's first session."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_SUFFIX = ".glovebox"


class MagicError(GloveboxError):
    """An error for an unknown magic or wrong arguments. The message contains the usage."""


def split(code: str) -> tuple[list[str], str]:
    """Splits a cell into its leading magics and its code. In the code, empty lines replace the magics."""
    lines = code.splitlines(keepends=True)
    magics: list[str] = []
    for index, line in enumerate(lines):
        if line.startswith("%"):
            magics.append(line.strip())
            lines[index] = "\n"
        elif line.strip():
            break
    return magics, "".join(lines) if magics else code


class NamedSessions:
    """The sessions of one sandbox, one of which is current."""

    def __init__(self, box: Sandbox, saves: Path | None) -> None:
        """`saves` is the directory for saved sessions. Without it, sessions cannot be saved or loaded."""
        self.box = box
        self._saves = saves
        self._sessions: dict[str, Session] = {}
        self._current = FIRST

    @property
    def current(self) -> Session:
        """The session in which cells run. A new session replaces a session that has ended."""
        session = self._sessions.get(self._current)
        if session is None or session.ended is not None:
            session = self._sessions[self._current] = self.box.session()
        return session

    @property
    def ended(self) -> str | None:
        """The reason for the end of the current session, if it has ended."""
        session = self._sessions.get(self._current)
        return None if session is None else session.ended

    def close(self) -> None:
        """Ends all sessions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def magic(self, line: str) -> str:
        """Runs a magic, and returns its output."""
        name, *arguments = line[1:].split() or [""]
        known = {usage.split()[0][1:]: (usage, do) for usage, (do, _) in self._magics().items()}
        if name not in known:
            raise MagicError(f"unknown magic `%{name}`; use one of:\n{self.usage()}")
        usage, do = known[name]
        if len(arguments) != len(usage.split()) - 1:
            raise MagicError(f"usage: {usage}")
        return do(*arguments)

    def usage(self) -> str:
        """The magics and their descriptions."""
        return "\n".join(f"  {usage:<14} {does}" for usage, (_, does) in self._magics().items())

    def _magics(self) -> dict[str, tuple[Callable[..., str], str]]:
        return {
            "%undo": (self._undo, "undo the last cell's changes to variables and files"),
            "%fork NAME": (self._fork, "copy this session"),
            "%switch NAME": (self._switch, "run the next cells in another session, which is created if necessary"),
            "%sessions": (self._list, "list the sessions"),
            "%save FILE": (self._save, "save this session"),
            "%load FILE": (self._load, "resume a saved session under the file's name, and switch to it"),
        }

    def _undo(self) -> str:
        self.current.undo()
        return f"restored `{self._current}` to its state after {_cells(self.current)}"

    def _fork(self, name: str) -> str:
        _check_name(name)
        if name in self._sessions:
            raise MagicError(f"session `{name}` already exists; switch to it with %switch {name}")
        self._sessions[name] = self.current.fork()
        return f"`{name}` is a fork of `{self._current}`; switch to it with %switch {name}"

    def _switch(self, name: str) -> str:
        _check_name(name)
        is_new = name not in self._sessions
        before, self._current = self._current, name
        try:
            session = self.current
        except GloveboxError:
            self._current = before
            raise
        return f"cells run in the new session `{name}`" if is_new else f"cells run in `{name}`, after {_cells(session)}"

    def _list(self) -> str:
        self.current  # noqa: B018: opens the first session
        lines = []
        for name, session in sorted(self._sessions.items()):
            state = f"ended: {session.ended}" if session.ended is not None else _cells(session)
            lines.append(f"{'*' if name == self._current else ' '} {name}  {state}")
        return "\n".join(lines)

    def _save(self, file: str) -> str:
        path = self._file(file)
        state = self.current.hibernate()
        # Writes a temporary file and renames it, so that readers never see an incomplete file.
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".saving-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(state)
            os.replace(scratch, path)
        except BaseException:
            os.unlink(scratch)
            raise
        return f"saved `{self._current}` as {path.name}, {len(state)} bytes"

    def _load(self, file: str) -> str:
        path = self._file(file)
        if not path.is_file():
            raise MagicError(f"there is no saved session `{path.name}`; save one with %save")
        session = self.box.resume(path.read_bytes())
        name = path.name.removesuffix(_SUFFIX)
        replaced = self._sessions.get(name)
        self._sessions[name] = session
        self._current = name
        if replaced is not None:
            replaced.close()
        return f"cells run in `{name}`, after {_cells(session)}"

    def _file(self, file: str) -> Path:
        if self._saves is None:
            raise MagicError("saving is disabled; install the kernel with --saves DIR, the directory for saved sessions")
        name = file.removesuffix(_SUFFIX)
        _check_name(name)
        return self._saves / f"{name}{_SUFFIX}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise MagicError(f"`{name}` is not a valid name; use up to 64 letters, digits, `_`, `-` and `.`, not starting with `.` or `-`")


def _cells(session: Session) -> str:
    count = session.info.executions
    return f"{count} execution" if count == 1 else f"{count} executions"
