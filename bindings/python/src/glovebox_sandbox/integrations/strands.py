"""The sandbox of a Strands agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from ._common import not_installed
from ._workspace import DESCRIPTION, Result, WorkspaceOwner

try:
    from strands.sandbox import LANGUAGE_PATTERN, ExecutionResult, FileInfo, Sandbox, StreamChunk
    from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
    from strands.types.tools import AgentTool
    from strands.vended_tools.file_editor import make_file_editor
    from strands.vended_tools.python_repl import make_python_repl
except ImportError as error:
    raise not_installed("strands-agents", error) from error


class GloveboxSandbox(WorkspaceOwner, Sandbox):
    """A sandbox that runs an agent's Python code and stores its files: `Agent(sandbox=GloveboxSandbox())`.

    The agent gets the tools `python_repl` and `file_editor`. Each script runs in a new interpreter; files persist.
    Commands can only run Python, because there is no shell.
    """

    def get_tools(self) -> list[AgentTool]:
        """Returns the tools that the agent gets, unless it has tools with the same names."""
        return [make_python_repl(sandbox=self), make_file_editor(sandbox=self)]

    async def execute_streaming(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Runs a command that starts Python. Any other command fails with exit code 127."""
        result = await self._workspace.run_async("run", command, timeout=timeout, cwd=cwd, env=env)
        for chunk in _chunks(result, timeout):
            yield chunk

    async def execute_code_streaming(
        self,
        code: str,
        language: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Runs Python code. The output arrives when the script has ended."""
        if not LANGUAGE_PATTERN.fullmatch(language):
            raise ValueError(f"language contains invalid characters: {language}")
        if not language.startswith("python"):
            result = Result(127, b"", f"{language}: not found\n{DESCRIPTION}\n".encode())
        else:
            result = await self._workspace.run_async("run_code", code, timeout=timeout, cwd=cwd, env=env)
        for chunk in _chunks(result, timeout):
            yield chunk

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Returns a file's contents."""
        contents: bytes = await self._workspace.run_async("read", path)
        return contents

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Writes or replaces a file. Creates missing parent directories."""
        await self._workspace.run_async("write", path, content)

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        """Removes a file."""
        if (await self._workspace.run_async("stat", path)).kind == "directory":
            raise IsADirectoryError(f"{path} is a directory")
        await self._workspace.run_async("remove", path)

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        """Lists a directory."""
        try:
            entries = await self._workspace.run_async("entries", path)
        except (FileNotFoundError, NotADirectoryError):
            raise SandboxPathNotFoundError(path) from None
        return [FileInfo(each.path.rpartition("/")[2], each.kind == "directory", each.size) for each in entries]

def _chunks(result: Result, timeout: float | None) -> list[StreamChunk | ExecutionResult]:
    stdout, stderr = result.text
    if result.is_timeout:
        raise SandboxTimeoutError(timeout, stdout, stderr)
    chunks = [StreamChunk(text, kind) for text, kind in ((stdout, "stdout"), (stderr, "stderr")) if text]
    return [*chunks, ExecutionResult(result.exit_code, stdout, stderr)]
