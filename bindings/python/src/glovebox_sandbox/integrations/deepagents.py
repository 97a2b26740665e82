"""The backend of a deep agent: files and commands in a sandbox."""

from __future__ import annotations

import base64
from datetime import datetime, timezone
from typing import Any

from ..errors import GloveboxError
from ._common import not_installed
from ._workspace import DESCRIPTION, ROOT, Entry, Result, WorkspaceOwner

try:
    from deepagents.backends.protocol import (
        DeleteResult,
        EditResult,
        ExecuteResponse,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        SandboxBackendProtocol,
        WriteResult,
    )
    from deepagents.backends.sandbox import MAX_BINARY_BYTES
    from deepagents.backends.utils import (
        compile_grep_include_glob,
        grep_matches_from_files,
        perform_string_replacement,
        slice_read_response,
    )
except ImportError as error:
    raise not_installed("deepagents", error) from error

INSTRUCTIONS = DESCRIPTION
"""Instructions that tell the model which commands work. deepagents describes `execute` as a shell, so include this text
in the `system_prompt`."""

_FAILURES = (OSError, ValueError, GloveboxError)


class GloveboxBackend(WorkspaceOwner, SandboxBackendProtocol):
    """A backend that runs the Python commands of a deep agent, and stores its files:
    `CompositeBackend(default=GloveboxBackend(), routes={}, artifacts_root="/app")`.

    Each command runs in a new interpreter; files persist. Commands can only run Python, because there is no shell.
    """

    @property
    def id(self) -> str:
        """The backend's ID."""
        return self._workspace.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command that starts Python. Any other command fails with exit code 127."""
        return _response(self._workspace.run(command, timeout=timeout or None))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Like `execute`. A cancelled task ends its command."""
        return _response(await self._workspace.run_async("run", command, timeout=timeout or None))

    def ls(self, path: str) -> LsResult:
        """Lists a directory."""
        try:
            return LsResult(entries=[_info(each) for each in self._workspace.entries(path)])
        except _FAILURES as error:
            return LsResult(error=_error(path, error))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Returns lines of a text file, or a binary file of at most 500 KiB."""
        try:
            contents = self._workspace.read(file_path)
        except _FAILURES as error:
            return ReadResult(error=_error(file_path, error))
        data = _data(contents)
        if data["encoding"] == "utf-8":
            result = slice_read_response(data, offset, limit)
            if result.file_data is not None and result.next_offset is not None:
                # The standard tests for sandboxes join pages with newlines. The last page must end like the file.
                result.file_data["content"] = result.file_data["content"].removesuffix("\n")
            return result
        if len(contents) > MAX_BINARY_BYTES:
            return ReadResult(
                error=f"File '{file_path}': Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes"
            )
        return ReadResult(file_data=data)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes or replaces a file. Creates missing parent directories."""
        try:
            self._workspace.write(file_path, content.encode())
        except _FAILURES as error:
            return WriteResult(error=_error(file_path, error))
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces text in a file."""
        try:
            content = self._workspace.read(file_path).decode()
            if old_string not in content:
                # `read` shows lines that end with `\r\n` as if they ended with `\n`.
                windows = old_string.replace("\n", "\r\n")
                if windows in content:
                    old_string, new_string = windows, new_string.replace("\n", "\r\n")
            count = content.count(old_string) if old_string else 0
            if count > 1 and not replace_all:
                # The standard tests for sandboxes require the word "multiple".
                return EditResult(
                    error=f"Error: String '{old_string}' appears multiple times ({count}) in file. "
                    "Use replace_all=True to replace all instances, or provide a more specific string with surrounding context."
                )
            replaced = perform_string_replacement(content, old_string, new_string, replace_all)
            if isinstance(replaced, str):
                return EditResult(error=replaced)
            self._workspace.write(file_path, replaced[0].encode())
        except _FAILURES as error:
            return EditResult(error=_error(file_path, error))
        return EditResult(path=file_path, occurrences=replaced[1])

    def delete(self, file_path: str) -> DeleteResult:
        """Removes a file, a link, or a directory with its contents."""
        try:
            self._workspace.remove(file_path)
        except _FAILURES as error:
            return DeleteResult(error=_error(file_path, error))
        return DeleteResult(path=file_path)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Finds the lines that contain a string."""
        path = path or ROOT
        try:
            files = {name: _data(contents) for name, contents in self._workspace.read_all(path).items()}
        except _FAILURES as error:
            return GrepResult(error=_error(path, error))
        return grep_matches_from_files(files, pattern, path.rstrip("/"), glob, max_count=max_count)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Finds files by name, the most recently changed first."""
        path = path or ROOT
        try:
            matches = compile_grep_include_glob(pattern)
            found = [each for each in self._workspace.walk(path) if matches(each.path[len(path.rstrip("/")) + 1 :])]
        except _FAILURES as error:
            return GlobResult(error=_error(path, error))
        return GlobResult(matches=[_info(each) for each in sorted(found, key=lambda each: -each.modified)])

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files."""
        return [FileUploadResponse(path, self._transfer(path, contents)[1]) for path, contents in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files."""
        return [FileDownloadResponse(path, *self._transfer(path, None)) for path in paths]

    def _transfer(self, path: str, contents: bytes | None) -> tuple[bytes | None, str | None]:
        if not path.startswith("/"):
            return None, "invalid_path"
        try:
            if contents is None:
                return self._workspace.read(path), None
            self._workspace.write(path, contents)
        except FileNotFoundError:
            return None, "file_not_found"
        except IsADirectoryError:
            return None, "is_directory"
        except PermissionError:
            return None, "permission_denied"
        except _FAILURES as error:
            return None, str(error)
        return None, None

def _response(result: Result) -> ExecuteResponse:
    return ExecuteResponse(output="".join(result.text), exit_code=result.exit_code, truncated=result.truncated)


def _info(entry: Entry) -> FileInfo:
    modified = datetime.fromtimestamp(entry.modified, timezone.utc).isoformat()
    return FileInfo(path=entry.path, is_dir=entry.kind == "directory", size=entry.size or 0, modified_at=modified)


def _data(contents: bytes) -> FileData:
    try:
        return FileData(content=contents.decode(), encoding="utf-8")
    except UnicodeDecodeError:
        return FileData(content=base64.b64encode(contents).decode(), encoding="base64")


def _error(path: str, error: Exception) -> str:
    return f"File '{path}' not found" if isinstance(error, FileNotFoundError) else f"Error: {error}"
