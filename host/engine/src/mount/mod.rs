//! Host directories that guests see, and the journalled commit of what guests wrote.
//!
//! A [`HostDirectory`] is opened once and serves a guest's mount through
//! [`glovebox_vfs::MountSource`]: lists, states and chunks of files, each read when asked for.
//! Everything is reached name by name beneath that one handle, never following a link, so
//! neither a link made by a guest nor a race on the host leaves the directory.
//!
//! What a guest writes stays in the guest's file system until [`HostDirectory::commit`] carries
//! it out, all of it or nothing:
//!
//! 1. New contents go to files in a private directory inside the mount, `.glovebox-commit-…`.
//! 2. Every host file concerned is compared with what the guest was shown; a difference is a
//!    [`MountError::Conflict`], and the private directory is removed.
//! 3. A journal of all steps is written and synced. From here on the commit will be finished.
//! 4. Each step is one rename or removal. A conflict that slipped in is met by undoing.
//! 5. The directories are synced, and the journal is removed, then the rest.
//!
//! After a crash, [`HostDirectory::open_for_writing`] finishes a commit that had its journal, or
//! undoes it where the host has changed files meanwhile; without a journal it removes the rest.
//!
//! # Decisions
//!
//! * *Glovebox's own directories* are refused: no mount is, contains or lies in the cache, whose prepared images are run as
//!   native code, a session store or packages of the user's, by whatever name. They are compared by device and inode along
//!   their ancestors, when the mount is opened, and again before each execution and commit if there are new ones.
//!   A directory that is found to be one of them while walking is not entered.
//! * *Synced*: new files, the journal, and every directory touched (`fsync`; for more than
//!   32 of them one `syncfs` on Linux). So a commit that was reported survives a
//!   power cut, as far as the disk honours syncs.
//! * *Modes*: new files are 0666, new directories 0777, less the process's umask; a file that is
//!   replaced keeps its permission bits, never its set-user-ID or set-group-ID bit, and its owner
//!   where the system lets us. Extended attributes are lost, hard links are parted.
//! * *Times* are the host's: a guest under a fixed clock would otherwise give every version of a
//!   file the same time, and tools that look at times would miss the change.
//! * *Links* are written only when relative, with every `..` at the front and no more of them
//!   than the link is deep: then no chain of such links leaves the directory.
//! * *Names* beginning with `.glovebox-commit-`, in any case and at any depth, are neither shown
//!   to guests nor written.
//! * Another process that looks while step 4 runs sees some of the steps. Commits exclude each
//!   other by an advisory lock on the directory; other programs do not take part in it, and the
//!   moment between the last look at a file and its replacement remains.

mod commit;
mod contents;
mod directory;
mod error;
mod folder;
mod journal;
mod lock;
mod recover;
mod site;
mod stage;
mod sweep;
mod tree;
mod undo;
mod walk;

#[cfg(test)]
mod tests;

pub use commit::CommitReport;
pub use contents::Contents;
pub(crate) use directory::Reach;
pub use directory::{DEFAULT_LOCK_WAIT, HostDirectory, Skipped, check_directory};
pub use error::{Collision, MountError};
pub use glovebox_runtimes::guard::{Guarded, Relation};
pub use recover::Recovery;
pub(crate) use stage::leaves as link_leaves;

/// The prefix of private directories' names.
pub const RESERVED_PREFIX: &str = ".glovebox-commit-";

/// Up to so many new files are synced one by one, which waits for nothing but them; beyond it one
/// call for the whole file system is cheaper, and a guest does not choose how long we wait.
const SYNC_EACH_COUNT: usize = 32;

/// Whether a name is one of ours. Case is ignored because some file systems ignore it.
fn is_reserved_name(name: &str) -> bool {
    name.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX))
}

/// Whether any name in a path is one of ours: a subdirectory may be mounted by itself later.
pub(crate) fn is_reserved_path(path: &str) -> bool {
    path.split('/').any(is_reserved_name)
}
