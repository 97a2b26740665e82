//! The current files of a session.

use std::{
    fmt,
    io::{Read, Write},
    path::Path,
};

use glovebox_core::files::change;
use glovebox_vfs::{InodeId, RootId, Vfs};

use super::{CopyReport, FileEntry, FilePage, Files, FilesError, IfExists, ListLimits, archive, copy};
use crate::{Session, SharedWorkspace, exec::events};

/// The files of a session or of a shared workspace, between executions. Returned by [`Session::files`] and
/// [`SharedWorkspace::files`].
///
/// Every operation waits for its turn, like an execution. Reads use a [`Files`] snapshot, so a long copy or archive
/// does not block the session. Changes block the session. In the workspace, each change is all or nothing.
///
/// The next execution does not report the embedder's changes as its own. If the workspace is a host directory, changes
/// are committed to it like those of a successful execution. If the commit fails, the operation fails with
/// [`FilesError::Session`], but the session keeps the change.
///
/// Only the workspace (`/app` in the guest) is accessible, not other mounts. Paths are relative to the workspace.
///
/// ```no_run
/// # use glovebox::{Engine, EngineConfig, IfExists, Sandbox};
/// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
/// let session = sandbox.session()?;
/// session.files().write("data/in.csv", b"a,b\n1,2\n", IfExists::Fail)?;
/// session.execute("text = open('data/in.csv').read().upper(); open('out.txt', 'w').write(text)")?;
/// assert_eq!(session.files().read("out.txt")?, b"A,B\n1,2\n");
/// for entry in session.files().list("**/*.csv")? {
///     println!("{} {}", entry.path, entry.size_bytes);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SessionFiles {
    owner: Owner,
}

#[derive(Clone)]
enum Owner {
    Session(Session),
    Shared(SharedWorkspace),
}

impl fmt::Debug for SessionFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionFiles").field("session_id", &self.session_id()).finish_non_exhaustive()
    }
}

impl Session {
    /// Returns the session's files.
    #[must_use]
    pub fn files(&self) -> SessionFiles {
        SessionFiles { owner: Owner::Session(self.clone()) }
    }
}

impl SharedWorkspace {
    /// Returns the shared files. Does not require a session.
    #[must_use]
    pub fn files(&self) -> SessionFiles {
        SessionFiles { owner: Owner::Shared(self.clone()) }
    }
}

impl SessionFiles {
    /// Returns a snapshot of the current files. The snapshot stays readable after the files change and after the
    /// session ends.
    ///
    /// # Errors
    /// [`FilesError::Session`] if the session has ended or stays busy.
    pub fn snapshot(&self) -> Result<Files, FilesError> {
        match &self.owner {
            Owner::Session(session) => Ok(session.snapshot_files()?),
            Owner::Shared(shared) => Ok(shared.snapshot()?),
        }
    }

    /// Like [`Files::list`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::list`], or with [`FilesError::Session`].
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, FilesError> {
        self.logged_snapshot("list", pattern)?.list(pattern)
    }

    /// Like [`Files::list_page`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::list_page`], or with [`FilesError::Session`].
    pub fn list_page(&self, pattern: &str, after: Option<&str>, limits: ListLimits) -> Result<FilePage, FilesError> {
        self.logged_snapshot("list", pattern)?.list_page(pattern, after, limits)
    }

    /// Like [`Files::list_below`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::list_below`], or with [`FilesError::Session`].
    pub fn list_below(&self, dir: &str, max_depth: usize, limits: ListLimits) -> Result<FilePage, FilesError> {
        self.logged_snapshot("list", dir)?.list_below(dir, max_depth, limits)
    }

    /// Like [`Files::stat`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::stat`], or with [`FilesError::Session`].
    pub fn stat(&self, path: &str) -> Result<FileEntry, FilesError> {
        self.snapshot()?.stat(path)
    }

    /// Like [`Files::read`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::read`], or with [`FilesError::Session`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        self.logged_snapshot("read", path)?.read(path)
    }

    /// Like [`Files::read_at`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::read_at`], or with [`FilesError::Session`].
    pub fn read_at(&self, path: &str, offset: u64, len_bytes: u64) -> Result<Vec<u8>, FilesError> {
        self.logged_snapshot("read", path)?.read_at(path, offset, len_bytes)
    }

    /// Writes a file and creates its missing ancestor directories. Follows a link at the end of the path, inside the
    /// workspace.
    ///
    /// # Errors
    /// [`FilesError::Workspace`] if the path is invalid or a directory, if a quota is exhausted, or if a file, even an
    /// empty one, exists and must not be replaced. [`FilesError::Session`] if the session has ended or stays busy.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>, if_exists: IfExists) -> Result<(), FilesError> {
        self.change("write", path, |vfs, root, _| Ok(change::write(vfs, root, path, bytes.as_ref(), if_exists)?))
    }

    /// Creates a directory and its missing ancestors.
    ///
    /// # Errors
    /// [`FilesError::Workspace`] if the path is invalid or exists, an ancestor is not a directory, or a quota is
    /// exhausted. [`FilesError::Session`] if the session has ended or stays busy.
    pub fn make_dir(&self, path: &str) -> Result<(), FilesError> {
        self.change("make", path, |vfs, root, _| Ok(change::make_dir(vfs, root, path)?))
    }

    /// Removes a file, a link or an empty directory. The guest can continue to use a removed file that it has open.
    ///
    /// # Errors
    /// [`FilesError::Workspace`] if the path is invalid, does not exist, is the workspace itself, or is a directory
    /// that is not empty. [`FilesError::Session`] if the session has ended or stays busy.
    pub fn delete(&self, path: &str) -> Result<(), FilesError> {
        self.change("delete", path, |vfs, root, _| Ok(change::delete(vfs, root, path)?))
    }

    /// Like [`delete`](Self::delete), but also removes directories with their contents.
    ///
    /// # Errors
    /// Fails like [`delete`](Self::delete), except for directories that are not empty.
    pub fn delete_all(&self, path: &str) -> Result<(), FilesError> {
        self.change("delete", path, |vfs, root, _| Ok(change::delete_all(vfs, root, path)?))
    }

    /// Renames a file, directory or link. The target's parent directory must exist.
    ///
    /// # Errors
    /// [`FilesError::Workspace`] if a path is invalid, if `from` or the parent of `to` does not exist, or if `to`
    /// exists and must not or cannot be replaced. [`FilesError::Session`] if the session has ended or stays busy.
    pub fn rename(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), FilesError> {
        self.change("rename", from, |vfs, root, _| Ok(change::rename(vfs, root, from, to, if_exists)?))
    }

    /// Copies a file or a directory tree from `host` to `to` (`""` copies a directory's contents to the top of the
    /// workspace). Creates missing directories. None of the directories in `to` may be a link.
    ///
    /// Links on the host are copied as links and never followed. Links with an absolute target are skipped and counted.
    /// Times are not copied.
    ///
    /// # Errors
    /// [`FilesError::Workspace`] if `to` is invalid, if a file exists and must not be replaced, or if a quota is
    /// exhausted. [`FilesError::HostMissing`] if `host` does not exist. [`FilesError::HostLink`],
    /// [`FilesError::HostPath`], [`FilesError::HostRead`], [`FilesError::Host`] or [`FilesError::Io`] if `host` cannot
    /// be read. [`FilesError::Session`] if the session has ended or stays busy.
    pub fn copy_in(&self, host: impl AsRef<Path>, to: &str, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        self.change("write", to, |vfs, _, top| copy::from_host(vfs, top, host.as_ref(), to, if_exists))
    }

    /// Like [`Files::copy_out`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::copy_out`], or with [`FilesError::Session`].
    pub fn copy_out(&self, from: &str, host: impl AsRef<Path>, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        self.logged_snapshot("read", from)?.copy_out(from, host, if_exists)
    }

    /// Like [`Files::export_tar`], but on the current files.
    ///
    /// # Errors
    /// Fails like [`Files::export_tar`], or with [`FilesError::Session`].
    pub fn export_tar(&self, writer: impl Write) -> Result<CopyReport, FilesError> {
        self.logged_snapshot("read", "")?.export_tar(writer)
    }

    /// Unpacks a tar archive (GNU, POSIX or older; uncompressed) into the workspace. The session is blocked until the
    /// reader ends, so the reader must not stall.
    ///
    /// Names cannot escape the workspace and links are not followed. Each file or link may occur only once. Links with
    /// an absolute target are skipped and counted. Times are restored, but owners and modes are not. Sizes in headers
    /// are untrusted and limited by the quotas.
    ///
    /// # Errors
    /// [`FilesError::Archive`] for damaged archives, too many entries, and unsupported entries: devices, pipes, sparse
    /// files, names that are not UTF-8, names and hard links outside the workspace, and extended headers over 64 KiB.
    /// [`FilesError::Workspace`] if a file exists and must not be replaced, if a hard link's file does not precede the
    /// link, or if a quota is exhausted. [`FilesError::Io`] if the reader fails. [`FilesError::Session`] if the session
    /// has ended or stays busy.
    pub fn import_tar(&self, reader: impl Read, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        self.change("write", "", |vfs, _, top| archive::import(vfs, top, reader, if_exists))
    }

    fn session_id(&self) -> Option<&str> {
        match &self.owner {
            Owner::Session(session) => Some(session.id()),
            Owner::Shared(_) => None,
        }
    }

    fn logged_snapshot(&self, operation: &str, path: &str) -> Result<Files, FilesError> {
        events::file(self.session_id(), operation, path);
        self.snapshot()
    }

    /// Logs an operation and performs it atomically.
    fn change<T>(
        &self,
        operation: &str,
        path: &str,
        change: impl FnOnce(&mut Vfs, RootId, InodeId) -> Result<T, FilesError>,
    ) -> Result<T, FilesError> {
        events::file(self.session_id(), operation, path);
        let whole = |vfs: &mut Vfs, root| {
            let top = change::top(vfs, root)?;
            change::atomically(vfs, |vfs| change(vfs, root, top))
        };
        match &self.owner {
            Owner::Session(session) => session.with_files(whole),
            Owner::Shared(shared) => shared.with_files(whole),
        }
    }
}
