"""Files and Python commands for frameworks whose agents expect a sandbox with a file system and a command line."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shlex
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import _check
from .._input import _input
from ..aio import _ThreadedSandbox, _Threads
from ..errors import GloveboxError
from ..run import Run
from ..sandbox import Sandbox
from ..types import Limits
from ._common import DEFAULT_LIMITS, threads_of

ROOT = "/app"
"""The workspace's directory in the sandbox, and the working directory of commands."""

DESCRIPTION = (
    "The sandbox has no shell and no programs except Python. Supported commands: `python3 -c CODE`, `python3 FILE`, "
    "`python3 -m MODULE`, and `python3 - <<'EOF'` with the code on the following lines, each with arguments and after "
    "`cd DIRECTORY &&`. Each command is a new interpreter. Files are kept in /app, the working directory."
)
"""The description of the commands for a model."""

_CD = re.compile(r"\s*cd\s+(?:--\s+)?('[^']*'|[^\s'\";&|<>()$`]+)\s*(?:&&|\|\|\s*exit\s*\n|;|\n)(.*)", re.DOTALL)
_HEREDOC = re.compile(r"([^\n]*?)<<\s*(['\"]?)(\w+)\2[ \t]*\n(.*\n)?\3\s*", re.DOTALL)

_OPERATION = '''
def operation(name, path, to):
    import errno, os, stat

    def entry(path):
        try:
            info = os.stat(path)
        except OSError:
            info = os.lstat(path)
        is_file = stat.S_ISREG(info.st_mode)
        kind = "directory" if stat.S_ISDIR(info.st_mode) else "file" if is_file else "other"
        return [path, kind, info.st_size if is_file else None, info.st_mtime]

    try:
        if name == "stat":
            return entry(os.stat(path) and path)
        if name == "is_link":
            os.lstat(path)
            return os.path.islink(path)
        if name == "list":
            return [entry(os.path.join(path, each)) for each in sorted(os.listdir(path))]
        if name == "walk":
            found = [] if entry(os.stat(path) and path)[1] == "directory" else [path]
            found += [os.path.join(top, each) for top, _, names in os.walk(path) for each in names]
            return [entry(each) for each in sorted(found)]
        if name == "make":
            os.makedirs(path, exist_ok=True)
        if name == "remove":
            if os.path.isdir(path) and not os.path.islink(path):
                __import__("shutil").rmtree(path)
            else:
                os.unlink(path)
        if name == "move":
            os.replace(path, to)
        if name == "write" and not os.path.exists(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path))
        if name in ("read", "write"):
            open(path, "rb" if name == "read" else "ab").close()
        return os.path.realpath(path)
    except OSError as error:
        return {"error": errno.errorcode.get(error.errno, "EIO")}
'''


class Entry(NamedTuple):
    """A file or directory. The entry of a link describes its target, if the target exists."""

    path: str
    kind: str
    """`file`, `directory` or `other`."""
    size: int | None
    modified: float


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    is_timeout: bool = False
    truncated: bool = False

    @property
    def text(self) -> tuple[str, str]:
        """Standard output and standard error as text."""
        return self.stdout.decode(errors="replace"), self.stderr.decode(errors="replace")


class Workspace:
    """A host directory at `/app`. Each command runs there in a new interpreter."""

    def __init__(
        self, *, workspace: str | os.PathLike[str] | None = None, limits: Limits | None = None, **options: Any
    ) -> None:
        """Without `workspace`, the directory is temporary. The other options are those of `Sandbox`."""
        if "files" in options:
            raise TypeError("files is not supported with commands: put the files into the workspace")
        self._temporary = tempfile.TemporaryDirectory(prefix="glovebox-") if workspace is None else None
        self.directory = self._temporary.name if self._temporary is not None else _check.path("workspace", workspace)
        limits = DEFAULT_LIMITS if limits is None else limits
        self._env = _check.mapping("env", options.pop("env", None), lambda name, value: _check.of(name, str, value))
        self._options = {"workspace": self.directory, "limits": limits, **options}
        self.id = uuid.uuid4().hex
        self._checked = _ThreadedSandbox(env=self._env, **self._options)
        self._threads: _Threads | None = None
        self._lock = threading.Lock()

    def run(
        self,
        command: str | Sequence[str],
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        token: Any = None,
    ) -> Result:
        """Runs a command line or a list of arguments. `timeout` is in seconds; `limits.timeout_ms` applies too."""
        name = "<string>"
        try:
            (option, *args), stdin, cwd = _parse(command, stdin, _within(cwd or ROOT))
            first = cwd
            if option == "-c":
                code = args.pop(0)
            elif option == "-m":
                code = f"import runpy\nrunpy.run_module({args.pop(0)!r}, run_name='__main__', alter_sys=True)"
            elif option == "-":
                code, stdin = stdin, ""
            else:
                name = posixpath.normpath(posixpath.join(cwd, option))
                code, first = self.read(name).decode(), posixpath.dirname(name)
        except (ValueError, IndexError) as error:
            return Result(127, b"", f"{error}\n{DESCRIPTION}\n".encode())
        except OSError as error:
            return Result(2, b"", f"{error}\n".encode())
        return self.run_code(code, name=name, args=args, stdin=stdin, env=env, cwd=cwd, first=first, timeout=timeout, token=token)

    def run_code(
        self,
        code: str,
        *,
        name: str = "<string>",
        args: Sequence[str] = (),
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        first: str | None = None,
        timeout: float | None = None,
        token: Any = None,
    ) -> Result:
        """Runs Python code. Imports search the directory `first`, by default `cwd`, before all other directories."""
        cwd = _within(cwd or ROOT)
        first = first or cwd
        if cwd != ROOT or first != ROOT:
            code = f"import os, sys\nos.chdir({cwd!r})\nsys.path[0] = {first!r}\ndel os, sys\nexec(compile({code!r}, {name!r}, 'exec'))"
        timeout_ms = None if timeout is None else max(1, int(timeout * 1000))
        with self._lock, Sandbox(args=args, env={**self._env, **(env or {})}, **self._options) as box:
            try:
                run = Run(box._backend.execute(_input(code, name, None, stdin, None, timeout_ms, None, None, token)))
            except GloveboxError as error:
                return Result(1, b"", f"{error}\n".encode())
        outcome = run.outcome
        is_timeout = outcome.kind == "cancelled" or outcome.resource == "time"
        cause = b"" if outcome.kind in ("completed", "exited", "raised") else f"{outcome}\n".encode()
        return Result(
            124 if is_timeout else outcome.exit_code,
            run.stdout_bytes,
            run.stderr_bytes + cause,
            is_timeout,
            run.stdout_truncated or run.stderr_truncated,
        )

    async def run_async(self, call: str, *args: Any, **options: Any) -> Any:
        """Calls a method on a thread. A cancelled task ends the script of `run` and `run_code`."""
        if self._threads is None:
            self._threads = threads_of(self._checked)
        method = getattr(self, call)
        if call not in ("run", "run_code"):
            return await self._threads.run(method, *args, **options)
        return await self._threads.run_cancellable(lambda token: method(*args, token=token, **options))

    def _operate(self, name: str, path: str, to: str = "", contents: bytes | None = None) -> Any:
        path, to = _within(path), _within(to)
        code = f"{_OPERATION}\noperation({name!r}, {path!r}, {to!r})"
        with self._lock, Sandbox(env=self._env, **self._options) as box, box.session() as session:
            value = session.execute(code, name="files.py").raise_for_outcome().value
            if isinstance(value, dict):
                number = getattr(errno, value["error"], errno.EIO)
                raise OSError(number, os.strerror(number), path)
            if name not in ("read", "write"):
                return value
            inside = posixpath.relpath(_within(value), ROOT)
            return session.files.read(inside) if contents is None else session.files.write(inside, contents)

    def read(self, path: str) -> bytes:
        """Returns a file's contents. Raises `OSError` on failure, like all file operations."""
        contents: bytes = self._operate("read", path)
        return contents

    def write(self, path: str, contents: bytes) -> None:
        """Writes or replaces a file. Creates missing parent directories."""
        self._operate("write", path, contents=contents)

    def stat(self, path: str) -> Entry:
        """Returns the entry of a file or directory."""
        return Entry(*self._operate("stat", path))

    def has_directory(self, path: str) -> bool:
        """Returns `True` if the path is an existing directory."""
        try:
            return self.stat(path).kind == "directory"
        except OSError:
            return False

    def is_link(self, path: str) -> bool:
        """Returns `True` if the path is a link, also one without a target."""
        is_link: bool = self._operate("is_link", path)
        return is_link

    def entries(self, path: str = ROOT) -> list[Entry]:
        """Lists a directory."""
        return [Entry(*each) for each in self._operate("list", path)]

    def walk(self, path: str = ROOT) -> list[Entry]:
        """Lists the files in a directory and its subdirectories."""
        return [Entry(*each) for each in self._operate("walk", path)]

    def read_all(self, path: str = ROOT) -> dict[str, bytes]:
        """Returns the contents of the files in a directory and its subdirectories."""
        entries = self.walk(path)
        with self._lock, Sandbox(**self._options) as box, box.session() as session:
            files = session.files
            return {each.path: files.read(posixpath.relpath(each.path, ROOT)) for each in entries if each.kind == "file"}

    def make_directory(self, path: str) -> None:
        """Creates a directory and missing parent directories."""
        self._operate("make", path)

    def remove(self, path: str) -> None:
        """Removes a file, a link, or a directory with its contents."""
        if _within(path) == ROOT:
            raise ValueError(f"cannot remove {path!r}: it is the workspace itself; remove its entries by name")
        self._operate("remove", path)

    def move(self, path: str, to: str) -> None:
        """Renames a file or directory."""
        self._operate("move", path, to)

    def real_path(self, path: str) -> str:
        """Resolves the links in a path."""
        real: str = self._operate("resolve", path)
        return real

    def close(self) -> None:
        """Removes a temporary directory. Closing the workspace again has no effect."""
        if self._temporary is not None:
            self._temporary.cleanup()
        if self._threads is not None:
            self._threads.close()


class WorkspaceOwner:
    """Base class of the adapters that have one workspace."""

    def __init__(self, *, limits: Limits | None = None, **options: Any) -> None:
        """`limits` and the other options are those of `Sandbox`, except `files`. Without `workspace`, the files are in a
        temporary directory. By default, the timeout of a command or script is 60 seconds.
        """
        super().__init__()
        self._workspace = Workspace(limits=limits, **options)

    def close(self) -> None:
        """Removes the temporary directory."""
        self._workspace.close()


def _within(path: str) -> str:
    """Returns the absolute path. Links are followed only in the sandbox, which confines them."""
    whole = posixpath.normpath(posixpath.join(ROOT, path))
    if whole != ROOT and not whole.startswith(f"{ROOT}/"):
        raise PermissionError(errno.EACCES, f"the path is outside {ROOT}", path)
    return whole


def _parse(command: str | Sequence[str], stdin: str, cwd: str) -> tuple[list[str], str, str]:
    """Parses a command. Returns the arguments of Python, its standard input and its working directory."""
    if not isinstance(command, str):
        args = [*command]
        if len(args) == 3 and posixpath.basename(args[0]) in ("sh", "bash") and args[1] in ("-c", "-lc"):
            return _parse(args[2], stdin, cwd)
    else:
        if found := _CD.fullmatch(command):
            cwd, command = _within(posixpath.join(cwd, found[1].strip("'"))), found[2]
        if found := _HEREDOC.fullmatch(command.strip()):
            command, stdin = found[1], found[4] or ""
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.commenters = ""
        args = [*lexer]
        if any(each and not set(each) - set("();<>|&") for each in args):
            raise ValueError("sh: pipes, redirections and command lists are not supported; run one command")
    if not args or not re.fullmatch(r"python(3(\.\d+)?)?", posixpath.basename(args[0])):
        raise ValueError(f"sh: {args[0] if args else ''}: not found")
    return args[1:] or ["-"], stdin, cwd
