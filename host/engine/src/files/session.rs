//! A session's files as they are now.

use std::{fmt, io::Read, io::Write, path::Path};

use glovebox_core::files::change;
use glovebox_vfs::{InodeId, RootId, Vfs};

use super::{CopyReport, FileEntry, FilePage, Files, FilesError, IfExists, ListLimits, archive, carry};
use crate::{Session, SharedWorkspace, events};

/// The files of a session, or of a workspace that several share, as they are between two executions. Get them from
/// [`Session::files`] and [`SharedWorkspace::files`].
///
/// Every operation waits for its turn, as an execution does. Reading takes a [`Files`] and reads from that, so that a
/// long copy or archive blocks nobody. A change is made while the session waits, all of it or nothing. What is
/// changed here is not among the files that the next execution reports, and where the workspace stands for a host
/// directory it is brought there as after a successful execution.
///
/// Only the workspace, `/app` in the guest, is seen here, none of the other mounts. Paths are relative to it.
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
    /// The session's files.
    #[must_use]
    pub fn files(&self) -> SessionFiles {
        SessionFiles { owner: Owner::Session(self.clone()) }
    }
}

impl SharedWorkspace {
    /// The files that the sessions have in common, whether or not there is a session.
    #[must_use]
    pub fn files(&self) -> SessionFiles {
        SessionFiles { owner: Owner::Shared(self.clone()) }
    }
}

impl SessionFiles {
    /// The files as they are now, to be looked at for as long as wanted.
    ///
    /// # Errors
    /// [`FilesError::Session`] when the session has ended.
    pub fn snapshot(&self) -> Result<Files, FilesError> {
        match &self.owner {
            Owner::Session(session) => Ok(session.snapshot_files()?),
            Owner::Shared(shared) => Ok(shared.snapshot()?),
        }
    }

    /// As [`Files::list`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn list(&self, pattern: &str) -> Result<Vec<FileEntry>, FilesError> {
        self.told("list", pattern);
        self.snapshot()?.list(pattern)
    }

    /// As [`Files::list_page`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn list_page(&self, pattern: &str, after: Option<&str>, limits: ListLimits) -> Result<FilePage, FilesError> {
        self.told("list", pattern);
        self.snapshot()?.list_page(pattern, after, limits)
    }

    /// As [`Files::list_below`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn list_below(&self, dir: &str, max_depth: usize, limits: ListLimits) -> Result<FilePage, FilesError> {
        self.told("list", dir);
        self.snapshot()?.list_below(dir, max_depth, limits)
    }

    /// As [`Files::stat`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn stat(&self, path: &str) -> Result<FileEntry, FilesError> {
        self.snapshot()?.stat(path)
    }

    /// As [`Files::read`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FilesError> {
        self.told("read", path);
        self.snapshot()?.read(path)
    }

    /// As [`Files::read_at`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn read_at(&self, path: &str, offset: u64, len_bytes: u64) -> Result<Vec<u8>, FilesError> {
        self.told("read", path);
        self.snapshot()?.read_at(path, offset, len_bytes)
    }

    /// Writes a file, and makes the directories above it. A link at its end is written through, inside the workspace.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Exists`], for an empty file too; [`FilesError::Refused`] at a quota, or for a
    /// directory; [`FilesError::Session`].
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>, if_exists: IfExists) -> Result<(), FilesError> {
        self.told("write", path);
        self.change(|vfs, root, _| Ok(change::write(vfs, root, path, bytes.as_ref(), if_exists)?))
    }

    /// Makes a directory, and those above it.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Exists`] where there is something of this name; [`FilesError::Refused`] at a quota, or below what
    /// is no directory; [`FilesError::Session`].
    pub fn make_dir(&self, path: &str) -> Result<(), FilesError> {
        self.told("make", path);
        self.change(|vfs, root, _| Ok(change::make_dir(vfs, root, path)?))
    }

    /// Removes a file, a link or an empty directory. What the guest has open it can go on using.
    ///
    /// # Errors
    /// [`FilesError::Path`], for the workspace itself too; [`FilesError::Refused`] when nothing is there, or the
    /// directory is not empty; [`FilesError::Session`].
    pub fn delete(&self, path: &str) -> Result<(), FilesError> {
        self.told("delete", path);
        self.change(|vfs, root, _| Ok(change::delete(vfs, root, path)?))
    }

    /// As [`delete`](Self::delete), with all that is below a directory.
    ///
    /// # Errors
    /// As there.
    pub fn delete_all(&self, path: &str) -> Result<(), FilesError> {
        self.told("delete", path);
        self.change(|vfs, root, _| Ok(change::delete_all(vfs, root, path)?))
    }

    /// Gives a file, directory or link another name. The directory that it comes to must exist.
    ///
    /// # Errors
    /// [`FilesError::Path`]; [`FilesError::Exists`]; [`FilesError::Refused`]; [`FilesError::Session`].
    pub fn rename(&self, from: &str, to: &str, if_exists: IfExists) -> Result<(), FilesError> {
        self.told("rename", from);
        self.change(|vfs, root, _| Ok(change::rename(vfs, root, from, to, if_exists)?))
    }

    /// Copies a file of the host, or a directory with all that is below it: `host` becomes `to` (`""` for a directory's
    /// contents in the workspace itself). Directories are made and entered; none of them may be a link.
    ///
    /// Links of the host are copied as links and never followed; one with an absolute target is left out and counted.
    /// Times are not stored.
    ///
    /// # Errors
    /// [`FilesError::Exists`]; [`FilesError::Refused`] at a quota; [`FilesError::HostLink`], [`FilesError::HostPath`],
    /// [`FilesError::HostRead`]; [`FilesError::Session`].
    pub fn copy_in(&self, host: impl AsRef<Path>, to: &str, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        self.told("write", to);
        self.change(|vfs, _, top| carry::into(vfs, top, host.as_ref(), to, if_exists))
    }

    /// As [`Files::copy_out`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn copy_out(&self, from: &str, host: impl AsRef<Path>, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        self.told("read", from);
        self.snapshot()?.copy_out(from, host, if_exists)
    }

    /// As [`Files::export_tar`].
    ///
    /// # Errors
    /// As there, and [`FilesError::Session`].
    pub fn export_tar(&self, writer: impl Write) -> Result<CopyReport, FilesError> {
        self.told("read", "");
        self.snapshot()?.export_tar(writer)
    }

    /// Unpacks a tar archive (GNU, POSIX or older; not compressed) into the workspace. The session waits until the
    /// reader has ended: give it one that does not stall.
    ///
    /// Names stay inside, no link is gone through, and a name comes once. Links with an absolute target are left out and
    /// counted. Owners and modes are not stored; times are. What stands in an archive's headers is believed no further
    /// than the quotas go.
    ///
    /// # Errors
    /// [`FilesError::Archive`] for what is damaged or not taken: devices, sparse files, names that lead out, hard links
    /// to what the archive did not bring, headers over 64 KiB; [`FilesError::Exists`]; [`FilesError::Refused`] at a
    /// quota; [`FilesError::Io`]; [`FilesError::Session`].
    pub fn import_tar(&self, reader: impl Read, if_exists: IfExists) -> Result<CopyReport, FilesError> {
        self.told("write", "");
        self.change(|vfs, _, top| archive::import(vfs, top, reader, if_exists))
    }

    fn session_id(&self) -> Option<&str> {
        match &self.owner {
            Owner::Session(session) => Some(session.id()),
            Owner::Shared(_) => None,
        }
    }

    /// Logs what is asked.
    fn told(&self, operation: &str, path: &str) {
        events::file(self.session_id(), operation, path);
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vfs, RootId, InodeId) -> Result<T, FilesError>,
    ) -> Result<T, FilesError> {
        let whole = |vfs: &mut Vfs, root| {
            let top = change::top(vfs, root)?;
            change::whole(vfs, |vfs| change(vfs, root, top))
        };
        match &self.owner {
            Owner::Session(session) => session.with_files(whole),
            Owner::Shared(shared) => shared.with_files(whole),
        }
    }
}
