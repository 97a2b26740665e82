//! What an earlier commit left behind when its process died.

use glovebox_vfs::escaped;
use std::path::Path;

use super::error::MountError;
use super::folder::Folder;
use super::journal::{Journal, Read, UNDO_NAME};
use super::site::Site;
use super::sweep;

/// What recovery found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Commits that had their journal and have been finished.
    pub finished_count: u64,
    /// Commits taken back, because the host had changed a file meanwhile or because that had
    /// begun before the crash.
    pub undone_count: u64,
    /// Commits that had not begun to change anything; their private files have been removed.
    pub discarded_count: u64,
}

impl Recovery {
    /// Whether recovery had anything to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Settles everything left in the directory. The caller holds the lock.
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
            "settled commits that had been cut short"
        );
    }
    Ok(recovery)
}

fn read_journal(root: &Folder, staging: &Folder) -> Result<Read, MountError> {
    let (_, inode) = root.device_and_inode().map_err(MountError::io("look at", "."))?;
    Journal::read(staging, inode)
}

/// The name of a commit that had its journal and was not finished, if there is one.
pub(super) fn unfinished(root: &Folder) -> Result<Option<String>, MountError> {
    for name in sweep::find(root)? {
        let staging = root.child(&name).map_err(MountError::io("open", &name))?;
        if !matches!(read_journal(root, &staging)?, Read::None) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Finishes the commit, or undoes it if it can no longer be finished. Returns which.
fn settle(journal: &Journal, site: &mut Site<'_>) -> Result<bool, MountError> {
    let steps = &journal.steps;
    let undoing = site.staging.find(UNDO_NAME).map_err(MountError::io("look at", UNDO_NAME))?;
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
