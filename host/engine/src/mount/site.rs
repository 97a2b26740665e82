//! Carries out the steps of a journal. The `journal` module reverts them.
//!
//! The contents of the private directory show whether a step was carried out. Each function here can therefore be
//! interrupted at any point and called again.

use std::{
    collections::{BTreeSet, HashSet},
    io,
};

use cap_std::fs::PermissionsExt as _;
use rustix::io::Errno;

use super::{
    SYNC_EACH_COUNT,
    commit::{Walker, split, split_last},
    error::{Collision, MountError},
    folder::{EntryAt, EntryIdentity, EntryKind, Folder},
    journal::{JournalStep, new_slot, old_slot},
};

/// A mounted directory, and the private staging directory that it contains during a commit.
pub(super) struct CommitSite<'a> {
    pub(super) root: &'a Folder,
    pub(super) staging: &'a Folder,
    pub(super) staging_name: &'a str,
    pub(super) walker: Walker<'a>,
}

/// Returns the path of `path`'s parent directory.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl<'a> CommitSite<'a> {
    pub(super) fn new(root: &'a Folder, staging: &'a Folder, staging_name: &'a str) -> Self {
        Self { root, staging, staging_name, walker: Walker::new(root) }
    }

    /// Opens the parent directory of `path`. Fails with a conflict if the host has removed, moved or replaced it.
    pub(super) fn parent<'p>(&mut self, path: &'p str) -> Result<(&Folder, &'p str), MountError> {
        let (names, last) = split_last(path)?;
        match self.walker.enter(&names) {
            Ok(folder) => Ok((folder, last)),
            Err(error) => Err(match (error.kind(), Errno::from_io_error(&error)) {
                (io::ErrorKind::NotFound, _) => MountError::conflict(path, Collision::Vanished),
                // The host replaced a directory with a file or a link.
                (io::ErrorKind::NotADirectory, _) | (_, Some(Errno::LOOP)) => {
                    MountError::conflict(path, Collision::Changed)
                }
                _ => MountError::io("open the directory of", path)(error),
            }),
        }
    }

    pub(super) fn find(&mut self, path: &str) -> Result<EntryAt, MountError> {
        match self.parent(path) {
            Ok((parent, name)) => parent.find(name).map_err(MountError::io("inspect", path)),
            Err(error) if error.is_vanished() => Ok(EntryAt::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Like [`find`](Self::find), but treats the entry as absent if a file or link has replaced a parent directory, for
    /// example in a later step.
    pub(super) fn find_loosely(&mut self, path: &str) -> Result<EntryAt, MountError> {
        match self.find(path) {
            Err(MountError::Conflict { .. }) => Ok(EntryAt::Nothing),
            result => result,
        }
    }

    pub(super) fn find_slot(&self, slot: &str) -> Result<EntryAt, MountError> {
        self.staging.find(slot).map_err(MountError::io("inspect", slot))
    }

    fn is_done(&mut self, index: usize, step: &JournalStep) -> Result<bool, MountError> {
        Ok(match step {
            JournalStep::Create { .. } | JournalStep::Replace { .. } => {
                self.find_slot(&new_slot(index))? == EntryAt::Nothing
            }
            JournalStep::Remove { path, old } => match self.find_slot(&old_slot(index))? {
                EntryAt::Nothing => false,
                moved => match differs(moved, &old.without_change_time()) {
                    None => true,
                    // The commit was interrupted between moving the host's changed entry away and moving it back.
                    Some(collision) => return Err(MountError::conflict(path, collision)),
                },
            },
            // A later step may have created a different entry at this path.
            JournalStep::RemoveFolder { path, old } => differs(self.find_loosely(path)?, old).is_some(),
        })
    }

    /// Fails if one of the remaining steps cannot be carried out. Changes nothing.
    pub(super) fn check(&mut self, steps: &[JournalStep]) -> Result<(), MountError> {
        let (device, _) = self.root.device_and_inode().map_err(MountError::io("inspect", "."))?;
        let mut leaving = HashSet::new();
        let mut checked_folder = None;
        for (index, step) in steps.iter().enumerate() {
            if self.is_done(index, step)? {
                continue;
            }
            let path = step.path();
            let found = self.find(path)?;
            if checked_folder != Some(folder_of(path)) {
                checked_folder = Some(folder_of(path));
                let (parent, _) = self.parent(path)?;
                let failed = || MountError::io("change the directory of", path);
                if parent.device_and_inode().map_err(failed())?.0 != device {
                    return Err(MountError::OtherFileSystem { path: path.to_owned() });
                }
                parent.check_access(true).map_err(failed())?;
            }
            let collision = match step {
                JournalStep::Create { .. } if found == EntryAt::Nothing || leaving.contains(path) => None,
                JournalStep::Create { .. } => Some(Collision::Appeared),
                JournalStep::Replace { old, .. } => differs(found, old),
                JournalStep::Remove { old, .. } => {
                    leaving.insert(path);
                    // The host removed the entry too, so there is nothing to do.
                    differs(found, old).filter(|collision| *collision != Collision::Vanished)
                }
                JournalStep::RemoveFolder { old, .. } => {
                    leaving.insert(path);
                    match differs(found, old) {
                        None if !self.holds_only(path, &leaving)? => Some(Collision::NotEmpty),
                        collision => collision,
                    }
                }
            };
            if let Some(collision) = collision {
                return Err(MountError::conflict(path, collision));
            }
        }
        Ok(())
    }

    /// Saves the entries that will be replaced, and records their new identities. A second hard link changes a file's
    /// change time and, on some file systems, its inode.
    ///
    /// Must be called after [`check`](Self::check): a refused commit must not have touched any file. Otherwise, the
    /// next commit would treat the saved files as changed.
    pub(super) fn save_replaced(&mut self, steps: &mut [JournalStep]) -> Result<(), MountError> {
        let staging = self.staging;
        let mut saved = false;
        for (index, step) in steps.iter_mut().enumerate() {
            let JournalStep::Replace { path, old, .. } = step else { continue };
            let (parent, name) = self.parent(path)?;
            let failed = || MountError::io("save the old contents of", path.as_str());
            let linked = save_entry(parent, name, staging, &old_slot(index), old.kind).map_err(failed())?;
            let now = parent.find(name).map_err(failed())?.into_identity();
            let expected = if linked { old.without_change_time() } else { *old };
            let now = now.filter(|now| EntryIdentity { inode: old.inode, ..*now }.is_unchanged(&expected));
            *old = now.ok_or_else(|| MountError::conflict(path.as_str(), Collision::Changed))?;
            // If other names of this file are part of the same commit, the commit updates the file's change time.
            if old.names > if linked { 2 } else { 1 } {
                *old = old.without_change_time();
            }
            saved = true;
        }
        for step in steps.iter_mut() {
            if let JournalStep::Remove { old, .. } = step
                && old.names > 1
            {
                *old = old.without_change_time();
            }
        }
        if saved { staging.sync().map_err(MountError::io("sync", self.staging_name)) } else { Ok(()) }
    }

    /// Returns `true` if all entries of the directory are about to be removed.
    fn holds_only(&mut self, path: &str, leaving: &HashSet<&str>) -> Result<bool, MountError> {
        let failed = || MountError::io("list", path);
        let folder = self.walker.enter(&split(path)?).map_err(failed())?;
        for name in folder.names().map_err(failed())? {
            let leaves =
                name.map_err(failed())?.is_some_and(|name| leaving.contains(format!("{path}/{name}").as_str()));
            if !leaves {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Carries out a step, unless it has already been carried out.
    pub(super) fn advance(&mut self, index: usize, step: &JournalStep) -> Result<(), MountError> {
        if self.is_done(index, step)? {
            return Ok(());
        }
        let staging = self.staging;
        match step {
            JournalStep::Create { path, .. } => {
                let (parent, name) = self.parent(path)?;
                move_free(staging, &new_slot(index), parent, name, path)
            }
            JournalStep::Replace { path, old, .. } => {
                let (parent, name) = self.parent(path)?;
                expect(parent, name, path, old)?;
                staging.replace(&new_slot(index), parent, name).map_err(MountError::io("replace", path))
            }
            JournalStep::Remove { path, old } => {
                let (parent, name) = match self.parent(path) {
                    Err(error) if error.is_vanished() => return Ok(()),
                    result => result?,
                };
                match expect(parent, name, path, old) {
                    Err(error) if error.is_vanished() => return Ok(()),
                    result => result?,
                }
                let slot = old_slot(index);
                parent.move_to_free(name, staging, &slot).map_err(MountError::io("remove", path))?;
                // Check the entry after moving it, when it can no longer be swapped.
                match expect(staging, &slot, path, &old.without_change_time()) {
                    Ok(()) => Ok(()),
                    Err(conflict) => {
                        move_free(staging, &slot, parent, name, path)?;
                        Err(conflict)
                    }
                }
            }
            JournalStep::RemoveFolder { path, old } => {
                let (parent, name) = self.parent(path)?;
                expect(parent, name, path, old)?;
                let removed = parent.remove_folder(name);
                // The walker may still have the removed directory open, and its path may soon belong to a different
                // entry.
                self.walker.forget();
                removed.map_err(|error| match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty => MountError::conflict(path, Collision::NotEmpty),
                    _ => MountError::io("remove", path)(error),
                })
            }
        }
    }

    /// Carries out all steps and syncs. If a step fails, undoes all steps and returns the reason.
    ///
    /// Fails if undoing fails too. The journal then remains for the next recovery.
    pub(super) fn carry_out(&mut self, steps: &[JournalStep]) -> Result<Option<MountError>, MountError> {
        let result = steps
            .iter()
            .enumerate()
            .try_for_each(|(index, step)| self.advance(index, step))
            .and_then(|()| self.sync_parents(steps));
        match result {
            Ok(()) => Ok(None),
            Err(reason) => {
                self.roll_back(steps, &reason)?;
                Ok(Some(reason))
            }
        }
    }

    pub(super) fn sync_parents(&mut self, steps: &[JournalStep]) -> Result<(), MountError> {
        let folders: BTreeSet<&str> = steps.iter().map(|step| folder_of(step.path())).collect();
        let failed = |path: &str| MountError::io("sync", path.to_owned());
        if folders.len() > SYNC_EACH_COUNT && self.root.sync_file_system().map_err(failed("."))? {
            return Ok(());
        }
        for path in folders {
            match self.walker.enter(&split(path)?) {
                Ok(folder) => folder.sync().map_err(failed(path))?,
                // A later step removed this directory, and the parent of the removed directory is synced instead.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(failed(path)(error)),
            }
        }
        Ok(())
    }
}

fn differs(found: EntryAt, old: &EntryIdentity) -> Option<Collision> {
    match found {
        EntryAt::Nothing => Some(Collision::Vanished),
        EntryAt::Known(ident) if ident.is_unchanged(old) => None,
        EntryAt::Known(_) | EntryAt::Special => Some(Collision::Changed),
    }
}

pub(super) fn expect(folder: &Folder, name: &str, path: &str, ident: &EntryIdentity) -> Result<(), MountError> {
    let found = folder.find(name).map_err(MountError::io("inspect", path))?;
    match differs(found, ident) {
        None => Ok(()),
        Some(collision) => Err(MountError::conflict(path, collision)),
    }
}

/// Moves an entry from a slot to the guest's path. Fails with a conflict if the path exists.
pub(super) fn move_free(
    staging: &Folder,
    slot: &str,
    parent: &Folder,
    name: &str,
    path: &str,
) -> Result<(), MountError> {
    staging.move_to_free(slot, parent, name).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => MountError::conflict(path, Collision::Appeared),
        _ => MountError::io("create", path)(error),
    })
}

/// Saves the file or link `name` as `slot`, so that its replacement can be undone. Returns `true` if `slot` is a hard
/// link to the file, and `false` if it is a copy.
fn save_entry(parent: &Folder, name: &str, staging: &Folder, slot: &str, kind: EntryKind) -> io::Result<bool> {
    if kind == EntryKind::Link {
        let target = parent.read_link(name)?;
        let target = target.to_str().ok_or(io::ErrorKind::InvalidData)?;
        staging.create_link(slot, target)?;
        return Ok(false);
    }
    let Err(_not_linked) = parent.link_file(name, staging, slot) else {
        return Ok(true);
    };
    // The file system does not support hard links, or the system forbids links to files of other owners: save a copy.
    let (mut from, ident) = parent.open_file(name)?;
    let mut copy = staging.create_file(slot, 0o600)?;
    io::copy(&mut from, &mut copy)?;
    copy.set_permissions(cap_std::fs::Permissions::from_mode(ident.mode))?;
    copy.sync_all()?;
    Ok(false)
}
