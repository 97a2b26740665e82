//! What can go wrong with a host directory.

use glovebox_vfs::escaped;
use std::io;
use std::path::{Path, PathBuf};

use glovebox_runtimes::guard::{Guarded, Overlap, Relation};

/// How a host file differs from what the guest was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collision {
    /// Size, times, inode or kind are no longer those the guest was shown.
    Changed,
    /// Something has appeared where the guest created something.
    Appeared,
    /// What the guest changed is gone.
    Vanished,
    /// A directory that the guest removed still holds something: what the guest was never shown
    /// (a pipe, a socket, a name that is not UTF-8) or what was put there meanwhile.
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

/// A host directory could not be opened, read, or written to.
///
/// Paths of directories are as the caller named them; paths of files inside are relative to the
/// directory. Unless a variant says otherwise, the host directory is exactly as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// There is nothing at the path.
    #[error("directory `{path}` does not exist; create it or name another", path = escaped(.path))]
    Missing {
        /// The directory, as named by the caller.
        path: PathBuf,
    },
    /// The path names something other than a directory.
    #[error("`{path}` is not a directory; name the directory that holds it", path = escaped(.path))]
    NotADirectory {
        /// The path, as named by the caller.
        path: PathBuf,
    },
    /// It contains, is or lies in a directory of Glovebox's own, such as the cache of prepared images, whose files are
    /// run as native code.
    #[error(
        "`{path}` {relation} {guarded}, `{ours}`, which no script may reach; name another directory, or {way_out}",
        path = escaped(.path), ours = escaped(.ours), way_out = .guarded.way_out()
    )]
    Guarded {
        /// The directory, as named by the caller.
        path: PathBuf,
        /// How it lies to ours.
        relation: Relation,
        /// What ours is for.
        guarded: Guarded,
        /// Where ours is.
        ours: PathBuf,
    },
    /// The operating system denies access.
    #[error("no permission to {action} in `{path}`; change its mode or owner, or name another directory", path = escaped(.path))]
    Denied {
        /// What was to be done.
        action: &'static str,
        /// The directory, as named by the caller.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: io::Error,
    },
    /// The directory was mounted for reading only.
    #[error("`{path}` is mounted read-only; mount it for writing to commit to it", path = escaped(.path))]
    ReadOnly {
        /// The directory, as named by the caller.
        path: PathBuf,
    },
    /// Another process is committing to the directory and did not finish in time.
    #[error("`{path}` is locked by another commit for more than {waited_ms} ms; try again when it is done", path = escaped(.path))]
    Busy {
        /// The directory, as named by the caller.
        path: PathBuf,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// The host changed what the guest changed too. Nothing was written.
    #[error("`{path}` {collision}; nothing was written, run again to work on the host's version", path = escaped(.path))]
    Conflict {
        /// The file, relative to the directory.
        path: String,
        /// What happened to it.
        collision: Collision,
    },
    /// The path uses a name that the commit keeps for itself.
    #[error("`{path}` uses a reserved name; choose one that does not begin with `{prefix}`", prefix = super::RESERVED_PREFIX, path = escaped(.path))]
    ReservedName {
        /// The path, relative to the directory.
        path: String,
    },
    /// A path that names nothing below the directory.
    #[error("`{path}` is not a path below the directory; use names without `..`, `/` at either end or zero bytes", path = escaped(.path))]
    InvalidPath {
        /// The path as it came.
        path: String,
    },
    /// The guest made a symbolic link that would lead the host out of the directory.
    #[error(
        "link `{path}` to `{target}` could leave the directory; only relative links whose `..` come first and stay inside are written", path = escaped(.path), target = escaped(.target)
    )]
    LinkLeaves {
        /// The link, relative to the directory.
        path: String,
        /// Where it points.
        target: String,
    },
    /// Another file system is mounted inside the directory, so that a commit cannot be atomic.
    #[error("`{path}` lies on another file system than the directory; mount that directory by itself", path = escaped(.path))]
    OtherFileSystem {
        /// The path, relative to the directory.
        path: String,
    },
    /// More levels of directories than a commit walks.
    #[error("`{path}` is nested more than {limit} directories deep; keep it flatter", path = escaped(.path))]
    TooDeep {
        /// The path, relative to the directory.
        path: String,
        /// The greatest depth.
        limit: usize,
    },
    /// It would write more than the workspace's quotas allow: each hard link and each renamed host file is written anew.
    #[error(
        "it would write {files} files and {bytes} bytes, counting each hard link and each renamed host file, where \
         `limits.workspace_inodes` is {max_files} and `limits.workspace_bytes` is {max_bytes}; nothing was written, raise \
         the limit"
    )]
    TooLarge {
        /// Files it would write.
        files: u64,
        /// Files it may write.
        max_files: u64,
        /// Bytes it would write.
        bytes: u64,
        /// Bytes it may write.
        max_bytes: u64,
    },
    /// More changes than one journal holds.
    #[error("the commit's journal would take {bytes} bytes where {limit} are allowed; write fewer files")]
    TooManyChanges {
        /// What the journal would take.
        bytes: u64,
        /// What it may take.
        limit: u64,
    },
    /// A commit was cut short by a crash, and the directory was opened for reading only.
    #[error("`{path}` holds the unfinished commit `{staging}`; open it for writing once to finish it", path = escaped(.path), staging = escaped(.staging))]
    Unfinished {
        /// The directory, as named by the caller.
        path: PathBuf,
        /// The commit's private directory.
        staging: String,
    },
    /// A journal that is damaged, or was not written here. None of it is carried out.
    #[error("`{path}` holds a journal in `{staging}` that {reason}; look at the directory, then remove `{staging}`", path = escaped(.path), staging = escaped(.staging))]
    BadJournal {
        /// The directory, as named by the caller.
        path: PathBuf,
        /// The commit's private directory.
        staging: String,
        /// Why it is not believed.
        reason: &'static str,
    },
    /// A crash cut a commit short, and the host then changed files on both sides of the cut, so
    /// that neither the old nor the new state can be reached. Nothing more was changed.
    #[error(
        "a commit was cut short and then `{redo}` and `{undo}` changed on the host; restore them, or settle the files by hand and remove `{staging}`", redo = escaped(.redo), undo = escaped(.undo), staging = escaped(.staging)
    )]
    Torn {
        /// What keeps the commit from being finished.
        redo: String,
        /// What keeps it from being undone.
        undo: String,
        /// The commit's private directory, which holds the old and new files.
        staging: String,
    },
    /// The guest's contents of a file are unavailable: usually a host file that it had only
    /// partly read is gone.
    #[error("could not read what the guest wrote to `{path}`; nothing was written, run again", path = escaped(.path))]
    Contents {
        /// The file, relative to the directory.
        path: String,
        /// The file system's answer.
        #[source]
        source: glovebox_vfs::VfsError,
    },
    /// The plan asks for something that this version cannot do. Nothing was written.
    #[error("cannot carry out `{step}`; nothing was written, update the engine", step = escaped(.step))]
    UnknownStep {
        /// The step.
        step: String,
    },
    /// The commit is done and durable, but the guest's file system could not record it: its
    /// next commit would be refused.
    #[error("the commit is done, but the guest's file system could not note it; go on with a new one")]
    NotNoted {
        /// The file system's answer.
        #[source]
        source: glovebox_vfs::VfsError,
    },
    /// The operating system failed.
    #[error("could not {action} `{path}`", path = escaped(.path))]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what: relative to the directory, or the directory itself.
        path: String,
        /// The operating system's answer.
        #[source]
        source: io::Error,
    },
}

impl MountError {
    pub(super) fn guarded(path: &Path, overlap: Overlap) -> Self {
        let Overlap { relation, guarded, path: ours } = overlap;
        Self::Guarded { path: path.to_owned(), relation, guarded, ours }
    }

    /// For `map_err`: an operation on `path` that failed.
    pub(super) fn io(action: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    pub(super) fn conflict(path: impl Into<String>, collision: Collision) -> Self {
        Self::Conflict { path: path.into(), collision }
    }

    /// Whether what was to be changed is no longer there.
    pub(super) fn is_vanished(&self) -> bool {
        matches!(self, Self::Conflict { collision: Collision::Vanished, .. })
    }

    /// Where it went wrong, for an error that names two places.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Conflict { path, .. } | Self::Io { path, .. } => path.clone(),
            other => other.to_string(),
        }
    }
}
