"""A Pydantic AI tool that runs code, and a workspace with files and Python commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._common import CodeTool, adapter, not_installed
from ._workspace import DESCRIPTION, ROOT, Entry, WorkspaceOwner

try:
    from pydantic_ai import Tool
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.workspaces import (
        CommandResult,
        FileEntry,
        SupportsCommands,
        SupportsFilesystem,
        SupportsRealpath,
        WorkspaceBackend,
        WorkspaceOutputLimitError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
except ImportError as error:
    raise not_installed("pydantic-ai-slim", error) from error

INSTRUCTIONS = DESCRIPTION
"""Instructions that tell the model which commands a `GloveboxWorkspace` runs. Include this text in the agent's
`instructions`."""


@adapter
def run_code_tool(code_tool: CodeTool) -> Tool[Any]:
    """Creates a tool for `Agent(tools=[…])`.

    A failed script raises `ToolFailed`: the model sees the cause, and the agent continues.
    """

    async def run_code(code: str) -> str:
        text, is_ok = await code_tool.run(code)
        if not is_ok:
            raise ToolFailed(text)
        return text

    return Tool(run_code, takes_ctx=False, name=code_tool.name, description=code_tool.description)


class GloveboxWorkspace(WorkspaceOwner, WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """A workspace for an agent's tools: `agent.run(…, workspace=GloveboxWorkspace())`.

    Each command runs in a new interpreter; files persist. Commands can only run Python, because there is no shell.
    """

    _ref: WorkspaceRef | None = None
    _is_closed = False

    @property
    def ref(self) -> WorkspaceRef | None:
        """The identity of this object, `None` before the first operation. No other object can attach to the workspace."""
        return self._ref

    def _require_open(self) -> None:
        if self._is_closed:
            raise WorkspaceUnavailableError("the workspace was closed; create a new one")
        self._ref = self._ref or WorkspaceRef(provider="glovebox", id=self._workspace.id)

    async def _call(self, method: str, *args: Any, **options: Any) -> Any:
        self._require_open()
        try:
            result = await self._workspace.run_async(method, *args, **options)
        except Exception:
            # An operation can fail because `close` removed its directory.
            self._require_open()
            raise
        self._require_open()
        return result

    async def working_dir(self) -> str:
        """Returns the working directory of commands, `/app`. Like all operations, raises `WorkspaceUnavailableError`
        if the workspace was closed.
        """
        self._require_open()
        return ROOT

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Runs a command that starts Python. Any other command fails with exit code 127."""
        if isinstance(command, str) != shell:
            raise TypeError("use shell=True for a string, and shell=False for a list of arguments")
        result = await self._call("run", command, env=env, timeout=timeout)
        stdout, stderr = result.text
        if result.is_timeout:
            raise WorkspaceTimeoutError("the command exceeded its timeout", stdout=stdout, stderr=stderr)
        if result.truncated:
            limit = max(len(result.stdout), len(result.stderr))
            message = f"the output exceeds the limit of {limit} bytes"
            raise WorkspaceOutputLimitError(message, limit=limit, stdout=stdout, stderr=stderr)
        return CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        """Returns a file's contents."""
        contents: bytes = await self._call("read", path)
        return contents

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes or replaces a file. Creates missing parent directories."""
        await self._call("write", path, data)

    async def stat(self, path: str) -> FileEntry:
        """Returns the entry of a file or directory."""
        return _entry(await self._call("stat", path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Lists a directory."""
        return [_entry(each) for each in await self._call("entries", path)]

    async def make_dir(self, path: str) -> None:
        """Creates a directory and missing parent directories."""
        await self._call("make_directory", path)

    async def remove(self, path: str) -> None:
        """Removes a file, a link, or a directory with its contents."""
        if f"{ROOT}/".startswith(f"{path.rstrip('/')}/"):
            message = f"cannot remove {path!r}: it is or contains the working directory; remove its entries by name"
            raise ValueError(message)
        await self._call("remove", path)

    async def exists(self, path: str) -> bool:
        """Returns `True` if the file or directory exists."""
        try:
            await self.stat(path)
        except OSError:
            return False
        return True

    async def realpath(self, path: str) -> str:
        """Resolves the links in a path."""
        real: str = await self._call("real_path", path)
        return real

    def close(self) -> None:
        """Removes the temporary directory."""
        self._is_closed = True
        super().close()


def _entry(entry: Entry) -> FileEntry:
    name = entry.path.rpartition("/")[2]
    return FileEntry(name=name, path=entry.path, is_dir=entry.kind == "directory", size=entry.size)
