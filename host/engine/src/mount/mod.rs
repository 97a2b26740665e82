//! Mounted host directories, and journaled commits of guests' writes.
//!
//! A [`HostDirectory`] is opened once and serves a guest's mount through [`glovebox_vfs::MountSource`]: listings, file
//! states and chunks of files are read on demand. All paths are resolved one component at a time, relative to that
//! handle, without following links. Neither a guest's link nor a race on the host can escape the directory.
//!
//! A guest's writes stay in the guest's file system until a commit carries out all or none of them:
//!
//! 1. Writes new contents to files in a private directory inside the mount, `.glovebox-commit-…`.
//! 2. Compares each affected host file with the state that the guest saw. A difference is a [`MountError::Conflict`],
//!    and the private directory is removed.
//! 3. Writes and syncs a journal of all steps. From here on, the commit survives a crash.
//! 4. Carries out the steps, each of which is one rename or removal. A failure during this phase undoes all steps.
//! 5. Syncs the directories, removes the journal, then removes the private directory.
//!
//! After a crash, [`HostDirectory::open_for_writing`] or the next commit finishes a commit that has a journal, or
//! undoes it if the host has changed files in the meantime. Without a journal, only the private directory is removed.
//!
//! # Decisions
//!
//! * *Glovebox's own directories*: no mount is, contains or is inside a [`GuardedDirectory`], such as the cache, whose
//!   prepared images run as native code. Directories are compared by device and inode along their ancestors, so aliases
//!   do not bypass the check. The check runs when the mount is opened, and again before an execution or a commit if
//!   more directories have been registered since. A walk never enters one of these directories.
//! * *Syncing*: new files, the journal and every changed directory are synced, so a reported commit survives a power
//!   failure if the disk honours syncs. With more than 32 new files and directories, a commit on Linux syncs the whole
//!   file system once (`syncfs`) instead of each entry (`fsync`).
//! * *Modes*: new files are 0666 and new directories 0777, minus the process's umask. A replacement has the permission
//!   bits of the old file, and its owner if the system permits that, but not set-user-ID or set-group-ID. Extended
//!   attributes are lost, and hard links are separated.
//! * *Times* come from the host's clock. Under a guest's fixed clock, all versions of a file would have the same time,
//!   and tools that compare times would miss changes.
//! * *Links* are written only if they are relative, have every `..` at the front, and have no more `..` than the depth
//!   of the link. No chain of such links can escape the directory.
//! * *Names* that begin with `.glovebox-commit-`, in any case and at any depth, are hidden from guests and
//!   never written.
//! * *Isolation*: other processes can see a partial commit during step 4. Commits exclude each other with an advisory
//!   lock on the directory. Other programs do not take the lock, so a race remains between the last check of a file and
//!   its replacement.

pub(crate) mod commit;
mod directory;
mod error;
mod folder;
mod journal;
mod recover;
mod site;
mod stage;

#[cfg(test)]
mod tests;

pub(crate) use directory::DirectoryScope;
pub use directory::{DEFAULT_LOCK_WAIT, HostDirectory, SkippedEntries, check_directory};
pub use error::{Collision, MountError};
pub use glovebox_runtimes::guard::{GuardedDirectory, Relation};
pub use recover::Recovery;
pub(crate) use stage::can_escape as link_can_escape;

/// The name prefix of the private directories of commits.
pub const RESERVED_PREFIX: &str = ".glovebox-commit-";

/// Maximum number of new entries, and of changed directories, to sync one by one. Syncing a single entry does not wait
/// for other files. With more entries, one sync of the whole file system is cheaper, and bounds the wait that a guest
/// can cause.
const SYNC_EACH_COUNT: usize = 32;

/// Returns `true` if a name is reserved. Ignores case, because some file systems do.
fn is_reserved_name(name: &str) -> bool {
    name.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX))
}

/// Returns `true` if any name in a path is reserved. All levels are checked, because a subdirectory may later be
/// mounted itself.
pub(crate) fn is_reserved_path(path: &str) -> bool {
    path.split('/').any(is_reserved_name)
}
