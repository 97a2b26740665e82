//! Recovers commits that a crash interrupted. Also contains the private directories of commits, and the lock that
//! excludes concurrent commits and recoveries in a directory, across processes.

use std::{
    fs::{File, TryLockError},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    path::Path,
    time::{Duration, Instant},
};

use glovebox_vfs::escaped;

use super::{
    RESERVED_PREFIX,
    error::MountError,
    folder::{EntryAt, EntryKind, Folder},
    journal::{self, Journal, JournalRead, UNDO_NAME},
    site::CommitSite,
};

/// Counts of interrupted commits that recovery found, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Commits that had a journal and were finished.
    pub finished_count: u64,
    /// Commits that were undone, because the host had changed a file, or because a crash interrupted the undo.
    pub undone_count: u64,
    /// Commits without a journal, whose private files were removed. These commits had not changed anything yet, or had
    /// already ended.
    pub discarded_count: u64,
}

impl Recovery {
    /// Returns `true` if there was nothing to recover.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Finishes or undoes every interrupted commit in the directory. The caller must hold the lock.
pub(super) fn run(root: &Folder, path: &Path) -> Result<Recovery, MountError> {
    let mut recovery = Recovery::default();
    for name in find_staging(root)? {
        let staging = root.child(&name).map_err(MountError::io("open", &name))?;
        match read_journal(root, &staging)? {
            JournalRead::None => recovery.discarded_count += 1,
            JournalRead::Complete(journal) => {
                if settle(&journal, &mut CommitSite::new(root, &staging, &name))? {
                    recovery.finished_count += 1;
                } else {
                    recovery.undone_count += 1;
                }
            }
            JournalRead::Bad(reason) => {
                return Err(MountError::BadJournal { path: path.to_owned(), staging: name, reason });
            }
        }
        remove_staging(root, &name)?;
    }
    if !recovery.is_empty() {
        tracing::warn!(
            directory = %escaped(path),
            finished = recovery.finished_count,
            undone = recovery.undone_count,
            discarded = recovery.discarded_count,
            "recovered interrupted commits"
        );
    }
    Ok(recovery)
}

fn read_journal(root: &Folder, staging: &Folder) -> Result<JournalRead, MountError> {
    let (_, inode) = root.device_and_inode().map_err(MountError::io("inspect", "."))?;
    Journal::read(staging, inode)
}

/// Returns the name of a private directory that contains a journal, if there is one.
pub(super) fn unfinished(root: &Folder) -> Result<Option<String>, MountError> {
    for name in find_staging(root)? {
        let staging = root.child(&name).map_err(MountError::io("open", &name))?;
        if !matches!(read_journal(root, &staging)?, JournalRead::None) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Finishes the commit and returns `true`, or undoes it and returns `false` if it cannot be finished.
fn settle(journal: &Journal, site: &mut CommitSite<'_>) -> Result<bool, MountError> {
    let steps = &journal.steps;
    let undoing = site.staging.find(UNDO_NAME).map_err(MountError::io("inspect", UNDO_NAME))?;
    if undoing != EntryAt::Nothing {
        let reason = MountError::conflict(UNDO_NAME, super::Collision::Changed);
        site.roll_back(steps, &reason)?;
        return Ok(false);
    }
    match site.check(steps) {
        Ok(()) => site.carry_out(steps).map(|reason| reason.is_none()),
        Err(conflict @ MountError::Conflict { .. }) => {
            site.check_undo(steps).map_err(|error| match error {
                MountError::Conflict { path, .. } => {
                    MountError::Torn { redo: conflict.place(), undo: path, staging: site.staging_name.to_owned() }
                }
                error => error,
            })?;
            site.roll_back(steps, &conflict)?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The polling interval for the lock. The lock is usually held for several milliseconds, because a commit waits for
/// syncs.
const POLL: Duration = Duration::from_millis(5);

/// An advisory lock on a directory, held until dropped. The system releases the lock when the process dies.
///
/// The directory itself is locked, so there is no lock file among the user's files. Reading files does not take the
/// lock.
#[derive(Debug)]
pub(super) struct Lock {
    _held: File,
}

impl Lock {
    pub(super) fn take(folder: &Folder, path: &Path, wait: Duration) -> Result<Self, MountError> {
        let name = || path.display().to_string();
        let file = folder.readable().map_err(MountError::io("open", name()))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _held: file }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < wait => {
                    std::thread::sleep(POLL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(MountError::Busy {
                        path: path.to_owned(),
                        waited_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(MountError::io("lock", name())(error));
                }
            }
        }
    }
}

/// Creates a private directory. The caller holds the lock, so no other commit creates a private directory at the same
/// time.
pub(super) fn make_staging(root: &Folder) -> Result<(String, Folder), MountError> {
    // The standard library seeds the hasher randomly. The name does not have to be secret, only unused.
    let number = RandomState::new().build_hasher().finish();
    let name = format!("{RESERVED_PREFIX}{number:016x}");
    let made = root.create_folder(&name, 0o700).and_then(|()| root.child(&name));
    let folder = made.map_err(MountError::io("create", &name))?;
    Ok((name, folder))
}

/// Lists the private directories. Files and links with a reserved name are ignored.
pub(super) fn find_staging(root: &Folder) -> Result<Vec<String>, MountError> {
    let mut found = Vec::new();
    let failed = || MountError::io("list", ".");
    for name in root.names().map_err(failed())? {
        let Some(name) = name.map_err(failed())? else {
            continue;
        };
        if !name.starts_with(RESERVED_PREFIX) {
            continue;
        }
        if let EntryAt::Known(ident) = root.find(&name).map_err(failed())?
            && ident.kind == EntryKind::Folder
        {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a private directory and its contents. Moves nested directories to its top level one by one, which avoids
/// recursion and long paths.
pub(super) fn remove_staging(root: &Folder, name: &str) -> Result<(), MountError> {
    let failed = || MountError::io("remove", name);
    let staging = match root.child(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.map_err(failed())?,
    };
    // Remove and sync the journal first: a journal must never exist without the files that its steps need.
    match staging.remove_file(journal::NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result.and_then(|()| staging.sync()).map_err(failed())?,
    }
    let mut count = 0;
    loop {
        let mut folders = Vec::new();
        for entry in staging.names().map_err(failed())? {
            // Commits never use names that are not UTF-8. If the host added such a name, removing the directory fails.
            let Some(entry) = entry.map_err(failed())? else {
                continue;
            };
            match staging.find(&entry).map_err(failed())? {
                EntryAt::Known(ident) if ident.kind == EntryKind::Folder => folders.push(entry),
                EntryAt::Nothing => {}
                _ => staging.remove_file(&entry).map_err(failed())?,
            }
        }
        if folders.is_empty() {
            return root.remove_folder(name).map_err(failed());
        }
        for entry in folders {
            let folder = staging.child(&entry).map_err(failed())?;
            folder.empty_into(&staging, &mut count).map_err(failed())?;
            staging.remove_folder(&entry).map_err(failed())?;
        }
    }
}
