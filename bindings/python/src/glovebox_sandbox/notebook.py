"""The cell magic `%%glovebox`, for notebooks with an IPython kernel.

`%load_ext glovebox_sandbox.notebook` loads it. The cell runs in a sandbox without the notebook's own variables.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any, NoReturn

from ._report import explain
from .run import Run
from .sandbox import Sandbox, Session
from .types import Limits

DEFAULT_TIMEOUT_MS = 10_000
"""Default time after which a cell is cancelled, in milliseconds."""

MAX_TIMEOUT_MS = 3_600_000
"""Maximum timeout that a cell can request, in milliseconds."""

# The fuel limit is the engine's default fuel per millisecond, times the maximum timeout. A cell thus times out before
# its fuel is exhausted.
_LIMITS = Limits(timeout_ms=MAX_TIMEOUT_MS, fuel=40_000_000 * MAX_TIMEOUT_MS)


class UsageError(Exception):
    """An error for wrong arguments of a magic."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def _milliseconds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= MAX_TIMEOUT_MS:
        raise argparse.ArgumentTypeError(f"must be between 1 and {MAX_TIMEOUT_MS}, not {value}")
    return value


_milliseconds.__name__ = "number"


def _identifier(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"`{text}` is not a valid variable name")
    return text


def _parser() -> _Parser:
    parser = _Parser(
        prog="%%glovebox", description="Runs the cell in a sandbox.", add_help=False, allow_abbrev=False
    )
    parser.add_argument(
        "--language", default="python", metavar="NAME", help="python (the default), javascript, or the name of a runtime or image"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--session", default="main", metavar="NAME", help="the session that the cell runs in (main)")
    where.add_argument("--fresh", action="store_true", help="run in a new session, which is dropped afterwards")
    parser.add_argument(
        "--timeout-ms", type=_milliseconds, default=DEFAULT_TIMEOUT_MS, metavar="N", help=f"cancel the cell after N milliseconds ({DEFAULT_TIMEOUT_MS})"
    )
    parser.add_argument("--out", type=_identifier, metavar="NAME", help="store the `Run` in this variable")
    return parser


class CellMagic:
    """The magic of one shell, with its sandboxes and sessions."""

    def __init__(self, shell: Any) -> None:
        """`shell` is IPython's `InteractiveShell`."""
        self._shell = shell
        self._parser = _parser()
        self._boxes: dict[str, Sandbox] = {}
        self._sessions: dict[tuple[str, str], Session] = {}

    def run(self, line: str, cell: str) -> None:
        """Runs a cell: prints its output, shows its displays and its value, and explains a failure."""
        options = self._options(line)
        if options.fresh:
            with self._box(options.language).session() as session:
                run = self._execute(session, cell, options.timeout_ms)
        else:
            run = self._execute(self._session(options.language, options.session), cell, options.timeout_ms)
        if options.out is not None:
            self._shell.push({options.out: run})
        shown = [each.bundle() for each in run.displays]
        if run.value_repr is not None and not any(each.is_result for each in run.displays):
            shown.append({"text/plain": run.value_repr})
        if shown:
            from IPython.display import display

            display(*shown, raw=True)
        if explanation := explain(run):
            print(explanation, file=sys.stderr)

    def help(self) -> str:
        """The options of the magic, as text."""
        return self._parser.format_help()

    def close(self) -> None:
        """Ends the sessions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._boxes.clear()

    def _options(self, line: str) -> argparse.Namespace:
        from IPython.core.error import UsageError as ShellUsageError

        try:
            return self._parser.parse_args(shlex.split(line))
        except UsageError as error:
            raise ShellUsageError(str(error)) from None
        except ValueError as error:
            raise ShellUsageError(f"{error}\n{self._parser.format_usage().rstrip()}") from None

    def _box(self, language: str) -> Sandbox:
        if language not in self._boxes:
            self._boxes[language] = Sandbox(language, limits=_LIMITS)
        return self._boxes[language]

    def _session(self, language: str, name: str) -> Session:
        session = self._sessions.get((language, name))
        if session is None or session.ended is not None:
            session = self._box(language).session()
            self._sessions[language, name] = session
        return session

    @staticmethod
    def _execute(session: Session, cell: str, timeout_ms: int) -> Run:
        def out(text: str) -> None:
            sys.stdout.write(text)
            sys.stdout.flush()

        def err(text: str) -> None:
            sys.stderr.write(text)
            sys.stderr.flush()

        return session.execute(cell, name="<cell>", timeout_ms=timeout_ms, on_stdout=out, on_stderr=err)


_loaded: dict[int, CellMagic] = {}


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext`."""
    try:
        import IPython  # noqa: F401
    except ImportError as error:
        raise ImportError("the magic needs IPython; install it with: pip install 'glovebox-sandbox[notebook]'") from error
    magic = CellMagic(shell)

    def glovebox(line: str, cell: str) -> None:
        magic.run(line, cell)

    glovebox.__doc__ = magic.help()
    shell.register_magic_function(glovebox, magic_kind="cell")
    _loaded[id(shell)] = magic


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext`."""
    magic = _loaded.pop(id(shell), None)
    if magic is not None:
        magic.close()
    shell.magics_manager.magics["cell"].pop("glovebox", None)
