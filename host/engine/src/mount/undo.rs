//! Reverts a journal's steps after a conflict with the host.
//!
//! Each function can be interrupted at any point and called again, as in `site`.

use std::io;

use super::error::{Collision, MountError};
use super::folder::{Found, Ident};
use super::journal::{Step, UNDO_NAME, new_slot, old_slot};
use super::site::{Site, expect, move_free};
use super::tree;

impl Site<'_> {
    /// Checks whether all completed steps can be undone, without changing anything.
    pub(super) fn check_undo(&mut self, steps: &[Step]) -> Result<(), MountError> {
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Create { path, new, tree } => {
                    self.find_created(index, path, new, tree.as_deref())?;
                }
                Step::Replace { path, new, .. } => {
                    if self.is_replaced(index)? {
                        let (parent, name) = self.parent(path)?;
                        expect(parent, name, path, new)?;
                    }
                }
                Step::Remove { path, .. } => {
                    if self.find_slot(&old_slot(index))? != Found::Nothing
                        && self.find_loosely(path)? != Found::Nothing
                        && !steps.iter().any(|later| later.path() == path && later != step)
                    {
                        return Err(MountError::conflict(path, Collision::Appeared));
                    }
                }
                Step::RemoveFolder { .. } => {}
            }
        }
        Ok(())
    }

    /// Returns whether a created entry is at its path, unchanged.
    fn find_created(&mut self, index: usize, path: &str, new: &Ident, tree: Option<&str>) -> Result<bool, MountError> {
        if self.find_slot(&new_slot(index))? != Found::Nothing {
            return Ok(false);
        }
        let (parent, name) = self.parent(path)?;
        match expect(parent, name, path, new) {
            // The host removed it, so there is nothing to undo.
            Err(error) if error.is_vanished() => return Ok(false),
            result => result?,
        }
        match tree {
            Some(tree) if tree::fingerprint(parent, name)? != tree => {
                Err(MountError::conflict(path, Collision::Changed))
            }
            _ => Ok(true),
        }
    }

    /// Returns whether a replacement was made and not reverted yet.
    fn is_replaced(&mut self, index: usize) -> Result<bool, MountError> {
        Ok(self.find_slot(&new_slot(index))? == Found::Nothing && self.find_slot(&old_slot(index))? != Found::Nothing)
    }

    /// Reverts one step, if it was done.
    pub(super) fn undo(&mut self, index: usize, step: &Step) -> Result<(), MountError> {
        let staging = self.staging;
        match step {
            Step::Create { path, new, tree } => {
                if self.find_created(index, path, new, tree.as_deref())? {
                    let (parent, name) = self.parent(path)?;
                    parent.move_to_free(name, staging, &new_slot(index)).map_err(MountError::io("take back", path))?;
                    self.walker.forget();
                }
                Ok(())
            }
            Step::Replace { path, new, .. } => {
                if self.is_replaced(index)? {
                    let (parent, name) = self.parent(path)?;
                    expect(parent, name, path, new)?;
                    staging.replace(&old_slot(index), parent, name).map_err(MountError::io("restore", path))?;
                }
                Ok(())
            }
            Step::Remove { path, .. } => {
                let slot = old_slot(index);
                if self.find_slot(&slot)? != Found::Nothing {
                    let (parent, name) = self.parent(path)?;
                    move_free(staging, &slot, parent, name, path)?;
                }
                Ok(())
            }
            Step::RemoveFolder { path, old } => {
                let (parent, name) = self.parent(path)?;
                let failed = || MountError::io("restore", path);
                match parent.create_folder(name, 0o700) {
                    Ok(()) => parent.child(name).and_then(|folder| folder.set_own_mode(old.mode)).map_err(failed()),
                    // The directory was never removed, or is restored already.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    Err(error) => Err(failed()(error)),
                }
            }
        }
    }

    /// Reverts all steps because of `reason`, and syncs.
    pub(super) fn roll_back(&mut self, steps: &[Step], reason: &MountError) -> Result<(), MountError> {
        let failed = || MountError::io("write", UNDO_NAME);
        match self.staging.create_file(UNDO_NAME, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => {
                // From here on recovery after a crash must continue to undo.
                result.map_err(failed())?;
                self.staging.sync().map_err(failed())?;
            }
        }
        self.walker.forget();
        for (index, step) in steps.iter().enumerate().rev() {
            self.undo(index, step).map_err(|error| match error {
                MountError::Conflict { path, .. } => {
                    MountError::Torn { redo: reason.place(), undo: path, staging: self.staging_name.to_owned() }
                }
                error => error,
            })?;
        }
        self.sync_parents(steps)
    }
}
