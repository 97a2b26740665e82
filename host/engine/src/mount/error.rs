//! Errors from host directories.

use glovebox_vfs::escaped;
use std::io;
use std::path::{Path, PathBuf};

use glovebox_runtimes::guard::{GuardedDirectory, Overlap, Relation};

/// A difference between a host file and the state that the guest saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Collision {
    /// The entry's type, inode, size or times have changed.
    #[error("has changed on the host since the guest read it")]
    Changed,
    /// The guest created an entry at a path that now exists on the host.
    #[error("has been created on the host since the guest read the directory")]
    Appeared,
    /// The guest changed an entry that no longer exists on the host.
    #[error("has been removed on the host since the guest read it")]
    Vanished,
    /// A directory that the guest removed is not empty. Its entries are hidden from guests (pipes, sockets, names that
    /// are not UTF-8), or the host added them.
    #[error("still contains entries that the guest did not remove")]
    NotEmpty,
}

/// The reason why a host directory could not be opened, read or committed to.
///
/// The errors identify a directory by the path that the caller passed, and a file by its path relative to the
/// directory. The host directory is unchanged unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The directory does not exist.
    #[error("directory `{path}` does not exist; create it or use another directory", path = escaped(.path))]
    Missing {
        /// The directory, as the caller passed it.
        path: PathBuf,
    },
    /// The path is not a directory.
    #[error("`{path}` is not a directory; use a directory, such as its parent", path = escaped(.path))]
    NotADirectory {
        /// The path, as the caller passed it.
        path: PathBuf,
    },
    /// The directory is, contains or is inside one of Glovebox's own directories, such as the cache, whose prepared
    /// images run as native code.
    #[error(
        "`{path}` {relation} {guarded}, `{ours}`: scripts must not access Glovebox's own directories; use another directory, or {remedy}",
        path = escaped(.path), ours = escaped(.ours), remedy = .guarded.remedy()
    )]
    Guarded {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The relation of the directory to the guarded directory.
        relation: Relation,
        /// The purpose of the guarded directory.
        guarded: GuardedDirectory,
        /// The path of the guarded directory.
        ours: PathBuf,
    },
    /// The operating system denies access.
    #[error("no {action} permission for directory `{path}`; change its mode or owner, or use another directory", path = escaped(.path))]
    Denied {
        /// The denied action: `read` or `write`.
        action: &'static str,
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The error from the operating system.
        #[source]
        source: io::Error,
    },
    /// The directory was mounted read-only.
    #[error("`{path}` is mounted read-only; mount it read-write to commit changes", path = escaped(.path))]
    ReadOnly {
        /// The directory, as the caller passed it.
        path: PathBuf,
    },
    /// The directory was still locked by another commit after the maximum wait.
    #[error("another commit has locked `{path}` for more than {waited_ms} ms; try again when it is done", path = escaped(.path))]
    Busy {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The wait, in milliseconds.
        waited_ms: u64,
    },
    /// Guest and host changed the same entry. The commit wrote nothing.
    #[error("`{path}` {collision}; nothing was written; run the script again to work on the host's version", path = escaped(.path))]
    Conflict {
        /// The file, relative to the directory.
        path: String,
        /// The host's change.
        collision: Collision,
    },
    /// The path contains a name that is reserved for the private directories of commits.
    #[error("`{path}` uses a reserved name; choose a name without the prefix `{prefix}`", prefix = super::RESERVED_PREFIX, path = escaped(.path))]
    ReservedName {
        /// The path, relative to the directory.
        path: String,
    },
    /// The path is not a relative path below the directory.
    #[error("`{path}` is not a path below the directory; use a relative path without `..`, a NUL byte or a trailing `/`", path = escaped(.path))]
    InvalidPath {
        /// The invalid path.
        path: String,
    },
    /// The guest created a symbolic link that could point outside the directory.
    #[error(
        "link `{path}` to `{target}` could point outside the directory; use a relative target inside it, with any `..` components at the start", path = escaped(.path), target = escaped(.target)
    )]
    LinkLeaves {
        /// The path of the link, relative to the directory.
        path: String,
        /// The target of the link.
        target: String,
    },
    /// A different file system is mounted inside the directory, so a commit cannot be atomic.
    #[error("`{path}` and the mounted directory are on different file systems; mount `{path}` separately", path = escaped(.path))]
    OtherFileSystem {
        /// The path, relative to the directory.
        path: String,
    },
    /// The path is nested too deeply for a commit.
    #[error("`{path}` is nested more than {limit} directories deep; reduce the nesting", path = escaped(.path))]
    TooDeep {
        /// The path, relative to the directory.
        path: String,
        /// The maximum depth.
        limit: usize,
    },
    /// The commit would exceed the workspace's quotas. Each hard link and each renamed host file is counted as a new
    /// file.
    #[error(
        "the commit would write {files} files and {bytes} bytes, counting each hard link and each renamed host file; \
         `limits.workspace_inodes` is {max_files} and `limits.workspace_bytes` is {max_bytes}; nothing was written; raise \
         the exceeded limit"
    )]
    TooLarge {
        /// The number of files to write.
        files: u64,
        /// Maximum number of files, from `limits.workspace_inodes`.
        max_files: u64,
        /// The number of bytes to write.
        bytes: u64,
        /// Maximum number of bytes, from `limits.workspace_bytes`.
        max_bytes: u64,
    },
    /// The commit has more changes than fit in a journal.
    #[error("the commit's journal needs {bytes} bytes, more than the limit of {limit}; write fewer files")]
    TooManyChanges {
        /// The size of the journal in bytes.
        bytes: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// A crash interrupted a commit, and the directory was opened only for reading.
    #[error("`{path}` contains the unfinished commit `{staging}`; open the directory for writing once to finish the commit", path = escaped(.path), staging = escaped(.staging))]
    Unfinished {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The commit's private directory.
        staging: String,
    },
    /// The journal is damaged or belongs to another directory. Recovery carried out none of its steps.
    #[error("the journal in `{staging}` of `{path}` {reason}; inspect the directory, then remove `{staging}`", path = escaped(.path), staging = escaped(.staging))]
    BadJournal {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The commit's private directory.
        staging: String,
        /// The reason why the journal was rejected.
        reason: &'static str,
    },
    /// The host changed files during a commit, or after a crash interrupted the commit, so that the commit can be
    /// neither finished nor undone. Some of the commit's changes may remain.
    #[error(
        "a commit was interrupted, and `{redo}` and `{undo}` were then modified on the host; restore their previous contents, or repair the files by hand and remove `{staging}`", redo = escaped(.redo), undo = escaped(.undo), staging = escaped(.staging)
    )]
    Torn {
        /// The path that prevents finishing the commit.
        redo: String,
        /// The path that prevents undoing the commit.
        undo: String,
        /// The commit's private directory, which contains the old and the new files.
        staging: String,
    },
    /// The contents of a file that the guest wrote are unavailable. Usually, the guest had read only part of a host
    /// file before the host removed the file.
    #[error("could not read the contents that the script wrote to `{path}`; nothing was written; run the script again", path = escaped(.path))]
    Contents {
        /// The file, relative to the directory.
        path: String,
        /// The error from the guest's file system.
        #[source]
        source: glovebox_vfs::VfsError,
    },
    /// The plan contains a step that this version does not support. The commit wrote nothing.
    #[error("this version does not support the commit step `{step}`; nothing was written; update Glovebox", step = escaped(.step))]
    UnknownStep {
        /// The debug output of the step.
        step: String,
    },
    /// The commit is complete, but the guest's file system could not record it. The guest's next commit would be
    /// refused.
    #[error("the commit is complete, but the guest's file system could not record it; use a new sandbox")]
    NotNoted {
        /// The error from the guest's file system.
        #[source]
        source: glovebox_vfs::VfsError,
    },
    /// A system call failed. If the call failed while a commit was being undone, the commit's journal remains, and the
    /// next commit or `HostDirectory::open_for_writing` continues the undo.
    #[error("cannot {action} `{path}`", path = escaped(.path))]
    Io {
        /// The failed action, such as `open`.
        action: &'static str,
        /// The path, relative to the directory, or the directory itself.
        path: String,
        /// The error from the operating system.
        #[source]
        source: io::Error,
    },
}

impl MountError {
    pub(super) fn guarded(path: &Path, overlap: Overlap) -> Self {
        let Overlap { relation, guarded, path: ours } = overlap;
        Self::Guarded { path: path.to_owned(), relation, guarded, ours }
    }

    /// Returns a closure for `map_err` that reports a failed operation on `path`.
    pub(super) fn io(action: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    pub(super) fn conflict(path: impl Into<String>, collision: Collision) -> Self {
        Self::Conflict { path: path.into(), collision }
    }

    /// Returns `true` if the entry to change no longer exists.
    pub(super) fn is_vanished(&self) -> bool {
        matches!(self, Self::Conflict { collision: Collision::Vanished, .. })
    }

    /// Returns the path of a conflict or a failed system call, for use in an error that names two paths. Returns the
    /// whole message of any other error.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Conflict { path, .. } | Self::Io { path, .. } => path.clone(),
            other => other.to_string(),
        }
    }
}
