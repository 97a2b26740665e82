"""The sandbox client for sandbox agents of the OpenAI Agents SDK."""

from __future__ import annotations

import io
import posixpath
import tarfile
import uuid
from pathlib import Path
from typing import Any, Literal

from ..types import Limits
from ._common import not_installed
from ._workspace import DESCRIPTION, ROOT, Entry, Workspace

try:
    from agents.sandbox import ExecResult, ExecTimeoutError, Manifest, Permissions, resolve_snapshot
    from agents.sandbox import WorkspaceArchiveReadError, WorkspaceArchiveWriteError, WorkspaceReadNotFoundError
    from agents.sandbox.files import EntryKind, FileEntry
    from agents.sandbox.session import BaseSandboxClient, BaseSandboxSession, SandboxSession, SandboxSessionState
    from agents.sandbox.util.tar_utils import safe_extract_tarfile
except ImportError as error:
    raise not_installed("openai-agents", error) from error

INSTRUCTIONS = DESCRIPTION
"""Instructions that tell the model which commands work. Include this text in the `instructions` of a `SandboxAgent`."""


class GloveboxSandboxSessionState(SandboxSessionState):
    """The state of a session, without its files."""

    type: Literal["glovebox"] = "glovebox"


class GloveboxSandboxSession(BaseSandboxSession):
    """A session of a `GloveboxSandboxClient`. Each command runs in a new interpreter; files persist."""

    def __init__(self, state: GloveboxSandboxSessionState, workspace: Workspace) -> None:
        """Use `GloveboxSandboxClient.create` to create a session."""
        self.state = state
        self._workspace = workspace

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        args = [str(each) for each in command]
        if args[0] in ("chmod", "test") and len(args) == 3:
            # The SDK itself runs these commands. `chmod` has no effect, because the workspace has no permissions.
            # `test` checks for a directory.
            is_ok = args[0] == "chmod" or await self._workspace.run_async("has_directory", args[2])
            return ExecResult(stdout=b"", stderr=b"", exit_code=0 if is_ok else 1)
        env = await self.state.manifest.environment.resolve()
        result = await self._workspace.run_async("run", args, env=env, timeout=timeout)
        if result.is_timeout:
            raise ExecTimeoutError(command=args, timeout_s=timeout)
        return ExecResult(stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code)

    async def _operate(self, call: str, path: Path | str, *args: Any, user: object, write: bool = True) -> Any:
        if user is not None:
            raise ValueError("user is not supported, because the sandbox has no users; omit it")
        whole = self.normalize_path(path, for_write=write)
        try:
            return await self._workspace.run_async(call, whole.as_posix(), *args)
        except OSError as error:
            if write:
                raise WorkspaceArchiveWriteError(path=whole, cause=error, message=str(error)) from error
            if isinstance(error, FileNotFoundError):
                raise WorkspaceReadNotFoundError(path=whole, cause=error) from error
            raise WorkspaceArchiveReadError(path=whole, cause=error) from error

    async def read(self, path: Path, *, user: Any = None) -> io.IOBase:
        """Returns a file's contents."""
        return io.BytesIO(await self._operate("read", path, user=user, write=False))

    async def write(self, path: Path, data: io.IOBase, *, user: Any = None) -> None:
        """Writes or replaces a file. Creates missing parent directories."""
        contents: Any = getattr(data, "read")()
        await self._operate("write", path, contents.encode() if isinstance(contents, str) else contents, user=user)

    async def ls(self, path: Path | str, *, user: Any = None) -> list[FileEntry]:
        """Lists a directory."""
        return [_entry(each) for each in await self._operate("entries", path, user=user, write=False)]

    async def rm(self, path: Path | str, *, recursive: bool = False, user: Any = None) -> None:
        """Removes a file or link; with `recursive`, also a directory with its contents."""
        if not recursive:
            await self._refuse_directory(path, user)
        try:
            await self._operate("remove", path, user=user)
        except WorkspaceArchiveWriteError as error:
            if not recursive or not isinstance(error.cause, FileNotFoundError):
                raise

    async def mv(self, source: Path | str, destination: Path | str, *, user: Any = None) -> None:
        """Renames a file or link."""
        await self._refuse_directory(source, user)
        to = self.normalize_path(destination, for_write=True)
        await self._operate("move", source, to.as_posix(), user=user)

    async def mkdir(self, path: Path | str, *, parents: bool = False, user: Any = None) -> None:
        """Creates a directory; with `parents`, also missing parent directories."""
        if not parents:
            await self._operate("stat", posixpath.dirname(self.normalize_path(path).as_posix()), user=user)
        await self._operate("make_directory", path, user=user)

    async def same_file(self, left: Path | str, right: Path | str, *, follow_symlinks: bool = True, user: Any = None) -> bool:
        """Returns `True` if both paths lead to the same file."""
        try:
            for path in (left, right):
                await self._operate("stat", path, user=user, write=False)
                if not follow_symlinks and await self._operate("is_link", path, user=user, write=False):
                    return False
            real: list[str] = [await self._operate("real_path", path, user=user, write=False) for path in (left, right)]
            return real[0] == real[1]
        except WorkspaceReadNotFoundError:
            return False

    async def _refuse_directory(self, path: Path | str, user: object) -> None:
        entry = await self._operate("stat", path, user=user, write=False)
        if entry.kind == "directory" and not await self._operate("is_link", path, user=user, write=False):
            raise WorkspaceArchiveWriteError(path=Path(path), message=f"{path} is a directory")

    async def running(self) -> bool:
        """Returns `True`: a workspace needs no process."""
        return True

    async def persist_workspace(self) -> io.IOBase:
        """Returns the files as a tar archive."""
        skipped = self._persist_workspace_skip_relpaths()
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(self._workspace.directory, ".", filter=lambda each: None if Path(each.name) in skipped else each)
        archive.seek(0)
        return archive

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Extracts the files of a tar archive."""
        with tarfile.open(fileobj=data) as tar:
            root = Path(self._workspace.directory)
            safe_extract_tarfile(tar, root=root, allow_external_symlink_targets=False)

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        return False  # The SDK computes fingerprints with a shell script.


class GloveboxSandboxClient(BaseSandboxClient[Any]):
    """A client that creates the sandbox of a `SandboxAgent`:
    `RunConfig(sandbox=SandboxRunConfig(client=GloveboxSandboxClient()))`.

    Commands can only run Python, because there is no shell.
    """

    backend_id = "glovebox"
    supports_default_options = True

    def __init__(self, *, limits: Limits | None = None, **options: Any) -> None:
        """`limits` and the other options are those of `Sandbox`, except `files`. Without `workspace`, the files of each
        session are in a temporary directory. By default, the timeout of a command is 60 seconds.
        """
        Workspace(limits=limits, **options).close()  # Checks the options.
        self._options = {"limits": limits, **options}
        self._workspaces: dict[uuid.UUID, Workspace] = {}

    async def create(self, *, snapshot: Any = None, manifest: Manifest | None = None, options: Any = None) -> SandboxSession:
        """Creates a session. The root of the manifest is `/app`."""
        manifest = (Manifest() if manifest is None else manifest).model_copy(update={"root": ROOT}, deep=True)
        self._validate_manifest_for_create(manifest)
        id = uuid.uuid4()
        snapshot = resolve_snapshot(snapshot, str(id))
        return await self.resume(GloveboxSandboxSessionState(session_id=id, manifest=manifest, snapshot=snapshot))

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Resumes a session of this client with its files, or another session with the files of its snapshot."""
        if not isinstance(state, GloveboxSandboxSessionState):
            raise TypeError(f"state must be a GloveboxSandboxSessionState, not {type(state).__name__}")
        state.assert_path_grants_rebound()
        workspace = self._workspaces.get(state.session_id)
        session = GloveboxSandboxSession(state, workspace or Workspace(**self._options))
        session._set_start_state_preserved(workspace is not None)
        self._workspaces[state.session_id] = session._workspace
        return self._wrap_session(session)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Removes the session's temporary directory."""
        if workspace := self._workspaces.pop(session.state.session_id, None):
            workspace.close()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Restores a session's state from its serialized form."""
        return self._deserialize_session_state_payload(payload, GloveboxSandboxSessionState)


def _entry(entry: Entry) -> FileEntry:
    mode = Permissions(directory=entry.kind == "directory")
    kind = EntryKind(entry.kind)
    return FileEntry(path=entry.path, permissions=mode, owner="", group="", size=entry.size or 0, kind=kind)
