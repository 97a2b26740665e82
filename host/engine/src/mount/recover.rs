//! Recovery of commits that were interrupted by a crash.

use glovebox_vfs::escaped;
use std::path::Path;

use super::error::MountError;
use super::folder::Folder;
use super::journal::{Journal, Read, UNDO_NAME};
use super::site::Site;
use super::sweep;

/// The interrupted commits that recovery found, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Commits that had a journal and were finished.
    pub finished_count: u64,
    /// Commits that were undone: the host had changed a file meanwhile, or undoing had begun before the crash.
    pub undone_count: u64,
    /// Commits that had not changed anything yet; their private files were removed.
    pub discarded_count: u64,
}

impl Recovery {
    /// Returns whether there was nothing to recover.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Finishes or undoes every interrupted commit in the directory. The caller holds the lock.
pub(super) fn run(root: &Folder, path: &Path) -> Result<Recovery, MountError> {
    let mut recovery = Recovery::default();
    for name in sweep::find(root)? {
        let staging = root.child(&name).map_err(MountError::io("open", &name))?;
        match read_journal(root, &staging)? {
            Read::None => recovery.discarded_count += 1,
            Read::Complete(journal) => {
                if settle(&journal, &mut Site::new(root, &staging, &name))? {
                    recovery.finished_count += 1;
                } else {
                    recovery.undone_count += 1;
                }
            }
            Read::Bad(reason) => {
                return Err(MountError::BadJournal { path: path.to_owned(), staging: name, reason });
            }
        }
        sweep::remove(root, &name)?;
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

fn read_journal(root: &Folder, staging: &Folder) -> Result<Read, MountError> {
    let (_, inode) = root.device_and_inode().map_err(MountError::io("inspect", "."))?;
    Journal::read(staging, inode)
}

/// Returns the private directory of an unfinished commit that has a journal.
pub(super) fn unfinished(root: &Folder) -> Result<Option<String>, MountError> {
    for name in sweep::find(root)? {
        let staging = root.child(&name).map_err(MountError::io("open", &name))?;
        if !matches!(read_journal(root, &staging)?, Read::None) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Finishes the commit and returns `true`, or undoes it and returns `false` if it cannot be finished.
fn settle(journal: &Journal, site: &mut Site<'_>) -> Result<bool, MountError> {
    let steps = &journal.steps;
    let undoing = site.staging.find(UNDO_NAME).map_err(MountError::io("inspect", UNDO_NAME))?;
    if undoing != super::folder::Found::Nothing {
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
