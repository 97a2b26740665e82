//! Errors of host directories.

use glovebox_vfs::escaped;
use std::io;
use std::path::{Path, PathBuf};

use glovebox_runtimes::guard::{Guarded, Overlap, Relation};

/// A difference between a host file and the state that the guest saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collision {
    /// Kind, inode, size or times have changed.
    Changed,
    /// The guest created an entry at a path that exists on the host now.
    Appeared,
    /// The guest changed an entry that no longer exists on the host.
    Vanished,
    /// A directory that the guest removed still has entries. They are hidden from guests (pipes, sockets, names that
    /// are not UTF-8), or the host added them meanwhile.
    NotEmpty,
}

impl std::fmt::Display for Collision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Changed => "has changed on the host since the guest saw it",
            Self::Appeared => "has been created on the host since the guest looked",
            Self::Vanished => "has been removed on the host since the guest saw it",
            Self::NotEmpty => "still holds entries that the guest did not remove",
        })
    }
}

/// An error when opening, reading or committing to a host directory.
///
/// Paths of directories are those that the caller passed; paths of files are relative to the directory. Unless a
/// variant says otherwise, the host directory is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The directory does not exist.
    #[error("directory `{path}` does not exist; create it or name another", path = escaped(.path))]
    Missing {
        /// The directory, as the caller passed it.
        path: PathBuf,
    },
    /// The path is not a directory.
    #[error("`{path}` is not a directory; name the directory that holds it", path = escaped(.path))]
    NotADirectory {
        /// The path, as the caller passed it.
        path: PathBuf,
    },
    /// The directory contains, is or is inside one of Glovebox's own directories, such as the cache, whose prepared
    /// images run as native code.
    #[error(
        "`{path}` {relation} {guarded}, `{ours}`: scripts must not reach it; name another directory, or {way_out}",
        path = escaped(.path), ours = escaped(.ours), way_out = .guarded.way_out()
    )]
    Guarded {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// Relation of the directory to the guarded one.
        relation: Relation,
        /// Purpose of the guarded directory.
        guarded: Guarded,
        /// Path of the guarded directory.
        ours: PathBuf,
    },
    /// The operating system denies access.
    #[error("no permission to {action} in `{path}`; change its mode or owner, or name another directory", path = escaped(.path))]
    Denied {
        /// The denied action.
        action: &'static str,
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The directory was mounted read-only.
    #[error("`{path}` is mounted read-only; mount it for writing to commit to it", path = escaped(.path))]
    ReadOnly {
        /// The directory, as the caller passed it.
        path: PathBuf,
    },
    /// A different process was still committing to the directory after the maximum wait.
    #[error("another commit has locked `{path}` for more than {waited_ms} ms; retry when it is done", path = escaped(.path))]
    Busy {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The wait, in milliseconds.
        waited_ms: u64,
    },
    /// Guest and host changed the same entry. The commit wrote nothing.
    #[error("`{path}` {collision}; nothing was written, run again to work on the host's version", path = escaped(.path))]
    Conflict {
        /// The file, relative to the directory.
        path: String,
        /// The host's change.
        collision: Collision,
    },
    /// The path contains a name that is reserved for commits.
    #[error("`{path}` uses a reserved name; choose one that does not begin with `{prefix}`", prefix = super::RESERVED_PREFIX, path = escaped(.path))]
    ReservedName {
        /// The path, relative to the directory.
        path: String,
    },
    /// The path is not a relative path below the directory.
    #[error("`{path}` is not a path below the directory; use names without `..`, `/` at either end or zero bytes", path = escaped(.path))]
    InvalidPath {
        /// The invalid path.
        path: String,
    },
    /// The guest created a symbolic link that could lead out of the directory.
    #[error(
        "link `{path}` to `{target}` could leave the directory; use a relative target inside it, with `..` only at the start", path = escaped(.path), target = escaped(.target)
    )]
    LinkLeaves {
        /// The link, relative to the directory.
        path: String,
        /// The link's target.
        target: String,
    },
    /// A different file system is mounted inside the directory, so a commit cannot be atomic.
    #[error("`{path}` is on another file system than the mounted directory; mount it separately", path = escaped(.path))]
    OtherFileSystem {
        /// The path, relative to the directory.
        path: String,
    },
    /// The path is nested deeper than a commit can walk.
    #[error("`{path}` is nested more than {limit} directories deep; reduce the nesting", path = escaped(.path))]
    TooDeep {
        /// The path, relative to the directory.
        path: String,
        /// The maximum depth.
        limit: usize,
    },
    /// The commit would write more than the workspace's quotas allow. Each hard link and each renamed host file counts
    /// as a new file.
    #[error(
        "the commit would write {files} files and {bytes} bytes, counting each hard link and each renamed host file; \
         `limits.workspace_inodes` is {max_files} and `limits.workspace_bytes` is {max_bytes}; nothing was written, raise \
         the limit"
    )]
    TooLarge {
        /// Number of files to write.
        files: u64,
        /// Maximum number of files, from `limits.workspace_inodes`.
        max_files: u64,
        /// Number of bytes to write.
        bytes: u64,
        /// Maximum number of bytes, from `limits.workspace_bytes`.
        max_bytes: u64,
    },
    /// The commit has more changes than a journal can hold.
    #[error("the commit's journal needs {bytes} bytes, more than the limit of {limit}; write fewer files")]
    TooManyChanges {
        /// Size of the journal in bytes.
        bytes: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// A crash interrupted a commit, and the directory was opened for reading only.
    #[error("`{path}` holds the unfinished commit `{staging}`; open it for writing once to finish it", path = escaped(.path), staging = escaped(.staging))]
    Unfinished {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The commit's private directory.
        staging: String,
    },
    /// The journal is damaged, or was written for another directory. None of its steps were carried out.
    #[error("the journal in `{staging}` of `{path}` {reason}; inspect the directory, then remove `{staging}`", path = escaped(.path), staging = escaped(.staging))]
    BadJournal {
        /// The directory, as the caller passed it.
        path: PathBuf,
        /// The commit's private directory.
        staging: String,
        /// The reason why the journal was rejected.
        reason: &'static str,
    },
    /// A crash interrupted a commit, and the host then changed files so that neither the old nor the new state can be
    /// reached. No further change was made.
    #[error(
        "a commit was interrupted, and then `{redo}` and `{undo}` changed on the host; restore them, or repair the files by hand and remove `{staging}`", redo = escaped(.redo), undo = escaped(.undo), staging = escaped(.staging)
    )]
    Torn {
        /// The path that prevents finishing the commit.
        redo: String,
        /// The path that prevents undoing it.
        undo: String,
        /// The commit's private directory, which has the old and new files.
        staging: String,
    },
    /// The contents of a file that the guest wrote are unavailable. The usual cause: the guest had read only a part of
    /// a host file, and the host removed it.
    #[error("could not read the guest's contents of `{path}`; nothing was written, run again", path = escaped(.path))]
    Contents {
        /// The file, relative to the directory.
        path: String,
        /// The error of the guest's file system.
        #[source]
        source: glovebox_vfs::VfsError,
    },
    /// The plan has a step that this version does not know. The commit wrote nothing.
    #[error("cannot carry out `{step}`; nothing was written, update the engine", step = escaped(.step))]
    UnknownStep {
        /// The debug format of the step.
        step: String,
    },
    /// The commit is durable, but the guest's file system could not record it. Its next commit would be refused.
    #[error("the commit is done, but the guest's file system could not record it; continue with a new sandbox")]
    NotNoted {
        /// The error of the guest's file system.
        #[source]
        source: glovebox_vfs::VfsError,
    },
    /// An operation of the operating system failed.
    #[error("could not {action} `{path}`", path = escaped(.path))]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path, relative to the directory, or the directory itself.
        path: String,
        /// The error of the operating system.
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

    /// Returns whether the entry to change no longer exists.
    pub(super) fn is_vanished(&self) -> bool {
        matches!(self, Self::Conflict { collision: Collision::Vanished, .. })
    }

    /// Returns the path of the error, for an error that names two paths.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Conflict { path, .. } | Self::Io { path, .. } => path.clone(),
            other => other.to_string(),
        }
    }
}
