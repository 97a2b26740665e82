//! Host directories that are mounted in guests.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use cap_std::{
    ambient_authority,
    fs::{Dir, FileExt as _},
};
use glovebox_runtimes::guard::{self, Lineage, Relation};
use glovebox_vfs::{MountSource, SourceEntry, SourceError, SourceStat};

use super::{
    commit::{self, Walker},
    error::MountError,
    folder::{EntryAt, Folder},
    is_reserved_name, is_reserved_path,
    recover::{self, Lock, Recovery},
};

/// The default time that a commit waits for other commits to the same directory. Committing a full default workspace
/// takes well under a second on a slow disk.
pub const DEFAULT_LOCK_WAIT: Duration = Duration::from_secs(10);

/// Counts of host directory entries that were hidden from guests so far. An entry is counted each time its directory is
/// listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedEntries {
    /// The number of entries with names that are not UTF-8.
    pub not_utf8_count: u64,
    /// The number of pipes, sockets and devices.
    pub special_count: u64,
}

/// A host directory, opened once. All operations are relative to this handle.
///
/// Threads can share the handle. Reading takes no lock. A guest reads the current state of each file, and a commit
/// compares the files with the state that the guest read.
#[derive(Debug)]
pub struct HostDirectory {
    root: Folder,
    path: PathBuf,
    scope: DirectoryScope,
    lineage: Lineage,
    /// The generation of the guard when the lineage was last checked.
    checked: AtomicU64,
    /// Maximum time to wait for other commits. `None` if the directory is open only for reading.
    writing: Option<Duration>,
    recovered: Recovery,
    not_utf8_count: AtomicU64,
    special_count: AtomicU64,
}

impl HostDirectory {
    /// Opens a directory for reading.
    ///
    /// # Errors
    ///
    /// [`MountError::Missing`], [`MountError::NotADirectory`] or [`MountError::Denied`] if the path cannot be read.
    /// [`MountError::Guarded`] if the directory is, contains or is inside one of Glovebox's own directories.
    /// [`MountError::Unfinished`] if a crash interrupted a commit, so that the directory may have neither its old nor
    /// its new state. [`MountError::Busy`] if a running commit takes too long.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MountError> {
        Self::open_in_scope(path.as_ref(), DirectoryScope::Tree)
    }

    /// Like [`open`](Self::open), but for the given part of the directory.
    pub(crate) fn open_in_scope(path: &Path, scope: DirectoryScope) -> Result<Self, MountError> {
        let opened = open_root(path, false, scope)?;
        let root = &opened.root;
        if recover::unfinished(root)?.is_some() {
            // A commit may be in progress: wait until it is done.
            let _lock = Lock::take(root, path, DEFAULT_LOCK_WAIT)?;
            if let Some(staging) = recover::unfinished(root)? {
                return Err(MountError::Unfinished { path: path.to_owned(), staging });
            }
        }
        Ok(Self::new(opened, path, scope, None, Recovery::default()))
    }

    /// Opens a directory for reading and for commits. First finishes or undoes commits that a crash interrupted.
    /// `lock_wait` is the maximum time for which this call and each commit wait for other commits, for example
    /// [`DEFAULT_LOCK_WAIT`].
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open) other than [`MountError::Unfinished`]. Also fails if the directory is not
    /// writable.
    /// [`MountError::BadJournal`] or [`MountError::Torn`] if an interrupted commit can be neither finished nor undone.
    pub fn open_for_writing(path: impl AsRef<Path>, lock_wait: Duration) -> Result<Self, MountError> {
        Self::open_for_writing_in_scope(path.as_ref(), DirectoryScope::Tree, lock_wait)
    }

    /// Like [`open_for_writing`](Self::open_for_writing), but for the given part of the directory.
    pub(crate) fn open_for_writing_in_scope(
        path: &Path,
        scope: DirectoryScope,
        lock_wait: Duration,
    ) -> Result<Self, MountError> {
        let opened = open_root(path, true, scope)?;
        let root = &opened.root;
        let recovered = if recover::find_staging(root)?.is_empty() {
            Recovery::default()
        } else {
            let _lock = Lock::take(root, path, lock_wait)?;
            recover::run(root, path)?
        };
        Ok(Self::new(opened, path, scope, Some(lock_wait), recovered))
    }

    fn new(
        opened: OpenedRoot,
        path: &Path,
        scope: DirectoryScope,
        writing: Option<Duration>,
        recovered: Recovery,
    ) -> Self {
        let OpenedRoot { root, lineage, generation } = opened;
        Self {
            root,
            path: path.to_owned(),
            scope,
            lineage,
            checked: AtomicU64::new(generation),
            writing,
            recovered,
            not_utf8_count: AtomicU64::new(0),
            special_count: AtomicU64::new(0),
        }
    }

    /// Returns the path that the directory was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if the directory was opened for commits.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writing.is_some()
    }

    /// Returns the numbers of interrupted commits that were finished, undone or discarded when the directory was
    /// opened.
    #[must_use]
    pub fn recovered(&self) -> Recovery {
        self.recovered
    }

    /// Returns the numbers of entries hidden from guests so far.
    #[must_use]
    pub fn skipped(&self) -> SkippedEntries {
        SkippedEntries {
            not_utf8_count: self.not_utf8_count.load(Ordering::Relaxed),
            special_count: self.special_count.load(Ordering::Relaxed),
        }
    }

    /// Checks the directory against Glovebox's own directories again, including directories that were registered after
    /// the directory was opened. The check is cheap if no directories were registered.
    ///
    /// # Errors
    ///
    /// [`MountError::Guarded`] if the directory is, contains or is inside one of Glovebox's own directories.
    pub fn check_guarded(&self) -> Result<(), MountError> {
        let generation = guard::generation();
        if self.checked.load(Ordering::Acquire) != generation {
            check_lineage(&self.path, &self.lineage, self.scope)?;
            self.checked.store(generation, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Folder {
        &self.root
    }

    pub(super) fn lock_wait(&self) -> Duration {
        self.writing.unwrap_or_default()
    }

    /// Opens the parent directory of `path`. Calls `action` with the directory and the last name of `path`.
    fn in_parent_of<T>(
        &self,
        path: &str,
        action: impl FnOnce(&Folder, &str) -> io::Result<T>,
    ) -> Result<T, SourceError> {
        let (names, last) = commit::split_last(path).map_err(|e| source_error(path, &e))?;
        if is_reserved_path(path) {
            return Err(source_error(path, &io::Error::from(io::ErrorKind::NotFound)));
        }
        Walker::new(&self.root)
            .enter(&names)
            .and_then(|folder| action(folder, last))
            .map_err(|error| source_error(path, &error))
    }

    fn list_folder(&self, dir: &str, limit: usize) -> io::Result<Vec<SourceEntry>> {
        let names = commit::split(dir).map_err(io::Error::other)?;
        let mut walker = Walker::new(&self.root);
        let folder = walker.enter(&names)?;
        let mut entries = Vec::new();
        for name in folder.names()? {
            // An extra entry tells the caller that the listing is incomplete.
            if entries.len() > limit {
                break;
            }
            let Some(name) = name? else {
                self.not_utf8_count.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if is_reserved_name(&name) {
                continue;
            }
            match folder.find(&name)? {
                EntryAt::Known(ident) => entries.push(SourceEntry { name, stat: ident.source_stat() }),
                // The entry was removed after its name was read.
                EntryAt::Nothing => {}
                EntryAt::Special => {
                    self.special_count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(entries)
    }
}

/// Creates an error with a message for the log. The guest sees only EIO.
fn source_error(path: &str, error: &dyn std::error::Error) -> SourceError {
    SourceError::new(format!("`{path}`: {error}"))
}

impl MountSource for HostDirectory {
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        if is_reserved_path(dir) {
            return Err(source_error(dir, &io::Error::from(io::ErrorKind::NotFound)));
        }
        self.list_folder(dir, limit).map_err(|error| source_error(dir, &error))
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        if path.is_empty() {
            let own = self.root.own_identity().map_err(|error| source_error(path, &error))?;
            return Ok(Some(own.source_stat()));
        }
        let (names, last) = commit::split_last(path).map_err(|error| source_error(path, &error))?;
        if is_reserved_path(path) {
            return Ok(None);
        }
        let found = Walker::new(&self.root).enter(&names).and_then(|folder| folder.find(last));
        match found {
            Ok(found) => Ok(found.into_identity().map(|ident| ident.source_stat())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(source_error(path, &error)),
        }
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.in_parent_of(path, |folder, name| {
            let (file, ident) = folder.open_file(name)?;
            // The operating system rejects offsets beyond `i64::MAX`, so return early.
            if offset >= ident.size_bytes {
                return Ok(0);
            }
            loop {
                match file.read_at(into, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => return result,
                }
            }
        })
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        self.in_parent_of(path, |folder, name| {
            let target = folder.read_link(name)?.into_os_string().into_string();
            target.map_err(|_| io::ErrorKind::InvalidData.into())
        })
    }
}

/// Checks that a directory can be mounted, for callers that open it without [`HostDirectory`].
///
/// # Errors
///
/// Fails like [`HostDirectory::open`], except with [`MountError::Unfinished`].
pub fn check_directory(path: impl AsRef<Path>) -> Result<(), MountError> {
    open_root(path.as_ref(), false, DirectoryScope::Tree).map(drop)
}

/// The part of a directory that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryScope {
    /// The whole tree.
    Tree,
    /// Only files that the user specified. The directory may therefore contain one of Glovebox's own directories.
    Files,
}

fn check_lineage(path: &Path, lineage: &Lineage, scope: DirectoryScope) -> Result<(), MountError> {
    let refused = guard::overlaps(lineage)
        .find(|overlap| scope == DirectoryScope::Tree || overlap.relation != Relation::Contains);
    refused.map_or(Ok(()), |overlap| Err(MountError::guarded(path, overlap)))
}

/// An opened directory that passed all checks.
struct OpenedRoot {
    root: Folder,
    lineage: Lineage,
    /// The generation of the guard before the lineage was checked.
    generation: u64,
}

fn open_root(path: &Path, writing: bool, scope: DirectoryScope) -> Result<OpenedRoot, MountError> {
    let refused = |source: io::Error| {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => MountError::Missing { path },
            io::ErrorKind::NotADirectory => MountError::NotADirectory { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                let action = if writing { "write" } else { "read" };
                MountError::Denied { action, path, source }
            }
            _ => MountError::io("open", path.display().to_string())(source),
        }
    };
    let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(refused)?;
    let root = Folder::new(dir);
    // Read the generation before checking: directories that are registered in the meantime cause another check.
    let generation = guard::generation();
    let lineage = root
        .lineage()
        .map_err(|source| MountError::io("inspect the ancestors of", path.display().to_string())(source))?;
    check_lineage(path, &lineage, scope)?;
    root.check_access(writing).map_err(refused)?;
    Ok(OpenedRoot { root, lineage, generation })
}
