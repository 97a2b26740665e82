//! The journal: the planned steps of a commit, stored so that they survive a crash.
//!
//! ```text
//! glovebox-commit 1 <bytes of the body> <sha256 of the body>\n
//! {"root":12,"staging":34,"steps":[…]}
//! ```
//!
//! The file is renamed to its final name only after it is complete and on disk. The journal contains the inodes of the
//! mounted directory and of the commit's private directory. A copy of the journal, for example from an archive, is
//! therefore rejected.
//!
//! This module also undoes the steps of a commit that cannot be finished. Each undo function can be interrupted at any
//! point and called again, like the functions in `site`.

use std::io::{self, Read as _, Write as _};

use glovebox_runtimes::Digest;
use serde::{Deserialize, Serialize};

use super::{
    commit,
    error::{Collision, MountError},
    folder::{EntryAt, EntryIdentity, EntryKind, Folder},
    site::{CommitSite, expect, move_free},
};

/// The name of the journal in the private directory.
pub(super) const NAME: &str = "journal";
/// The name of the journal while it is being written.
const PARTIAL_NAME: &str = "journal.partial";
/// The name of the marker file that exists while a commit is being undone.
pub(super) const UNDO_NAME: &str = "undo";

const MAGIC: &str = "glovebox-commit 1";
/// Maximum size of a journal: enough for about 200,000 changes, and small enough to read into memory.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// Maximum size of the header. The magic text, a length of at most 20 digits, a digest and a newline take 104 bytes.
const MAX_HEADER_BYTES: usize = 128;

/// A change to one name. The private directory contains the new entry as [`new_slot`] until the entry is moved. It
/// contains the replaced or removed entry as [`old_slot`] until the commit ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum JournalStep {
    /// Moves a file, a link or a whole new tree to an unused name.
    Create {
        path: String,
        new: EntryIdentity,
        /// The fingerprint of the tree's entries.
        tree: Option<String>,
    },
    /// Moves a file or link over an existing file or link, which was saved as [`old_slot`] earlier.
    Replace { path: String, old: EntryIdentity, new: EntryIdentity },
    /// Moves a file or link to the private directory.
    Remove { path: String, old: EntryIdentity },
    /// Removes a directory, which earlier steps have emptied.
    RemoveFolder { path: String, old: EntryIdentity },
}

impl JournalStep {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Replace { path, .. }
            | Self::Remove { path, .. }
            | Self::RemoveFolder { path, .. } => path,
        }
    }

    fn is_sound(&self) -> bool {
        let path_is_sound = commit::split_last(self.path()).is_ok() && !super::is_reserved_path(self.path());
        path_is_sound
            && match self {
                Self::Create { new, tree, .. } => (new.kind == EntryKind::Folder) == tree.is_some(),
                Self::Replace { old, new, .. } => old.kind != EntryKind::Folder && new.kind != EntryKind::Folder,
                Self::Remove { old, .. } => old.kind != EntryKind::Folder,
                Self::RemoveFolder { old, .. } => old.kind == EntryKind::Folder,
            }
    }
}

pub(super) fn new_slot(index: usize) -> String {
    format!("new-{index}")
}

pub(super) fn old_slot(index: usize) -> String {
    format!("old-{index}")
}

/// All steps of a commit, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    /// The inode of the mounted directory.
    pub(super) root: u64,
    /// The inode of the commit's private directory.
    pub(super) staging: u64,
    pub(super) steps: Vec<JournalStep>,
}

#[derive(Debug)]
pub(super) enum JournalRead {
    /// There is no journal: the commit had not changed anything yet, or had already ended.
    None,
    Complete(Journal),
    /// The journal is invalid, for this reason.
    Bad(&'static str),
}

impl Journal {
    fn encode(&self) -> Result<Vec<u8>, MountError> {
        let body = serde_json::to_vec(self).map_err(|error| MountError::io("encode", NAME)(error.into()))?;
        let header = format!("{MAGIC} {} {}\n", body.len(), Digest::of(&body));
        let mut bytes = header.into_bytes();
        bytes.extend_from_slice(&body);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > MAX_BYTES {
            return Err(MountError::TooManyChanges { bytes: length, limit: MAX_BYTES });
        }
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let header_end = bytes.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n').ok_or("has no header")?;
        let (header, rest) = bytes.split_at(header_end);
        let body = rest.get(1..).unwrap_or_default();
        let header = std::str::from_utf8(header).map_err(|_| "has no header")?;
        // Compare the whole header: each body has only one valid header.
        if header != format!("{MAGIC} {} {}", body.len(), Digest::of(body)) {
            return Err("is damaged or has another version");
        }
        let journal: Self = serde_json::from_slice(body).map_err(|_| "does not contain a list of changes")?;
        if journal.steps.iter().all(JournalStep::is_sound) { Ok(journal) } else { Err("contains invalid steps") }
    }

    /// Writes the journal atomically and waits until it is on disk.
    pub(super) fn write(&self, staging: &Folder) -> Result<(), MountError> {
        let bytes = self.encode()?;
        let failed = || MountError::io("write", NAME);
        let mut file = staging.create_file(PARTIAL_NAME, 0o600).map_err(failed())?;
        file.write_all(&bytes).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        staging.move_to_free(PARTIAL_NAME, staging, NAME).map_err(failed())?;
        staging.sync().map_err(failed())
    }

    /// Reads and checks the journal in `staging`. `root` is the inode of the mounted directory.
    pub(super) fn read(staging: &Folder, root: u64) -> Result<JournalRead, MountError> {
        let failed = || MountError::io("read", NAME);
        if staging.find(NAME).map_err(failed())? == EntryAt::Nothing {
            return Ok(JournalRead::None);
        }
        let Ok((file, _)) = staging.open_file(NAME) else {
            return Ok(JournalRead::Bad("is not a readable file"));
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed())?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
            return Ok(JournalRead::Bad("exceeds the maximum size"));
        }
        let (_, inode) = staging.device_and_inode().map_err(failed())?;
        Ok(match Self::decode(&bytes) {
            Ok(journal) if journal.root == root && journal.staging == inode => JournalRead::Complete(journal),
            Ok(_) => JournalRead::Bad("was written for another directory; this directory may be a copy"),
            Err(reason) => JournalRead::Bad(reason),
        })
    }
}

impl CommitSite<'_> {
    /// Fails if one of the completed steps cannot be undone. Changes nothing.
    pub(super) fn check_undo(&mut self, steps: &[JournalStep]) -> Result<(), MountError> {
        for (index, step) in steps.iter().enumerate() {
            match step {
                JournalStep::Create { path, new, tree } => {
                    self.find_created(index, path, new, tree.as_deref())?;
                }
                JournalStep::Replace { path, new, .. } => {
                    if self.is_replaced(index)? {
                        let (parent, name) = self.parent(path)?;
                        expect(parent, name, path, new)?;
                    }
                }
                JournalStep::Remove { path, .. } => {
                    if self.find_slot(&old_slot(index))? != EntryAt::Nothing
                        && self.find_loosely(path)? != EntryAt::Nothing
                        && !steps.iter().any(|later| later.path() == path && later != step)
                    {
                        return Err(MountError::conflict(path, Collision::Appeared));
                    }
                }
                JournalStep::RemoveFolder { .. } => {}
            }
        }
        Ok(())
    }

    /// Returns `true` if the entry of a `Create` step is at its path. Returns `false` if the step was not carried out,
    /// or if the host removed the entry. Fails if the host changed the entry.
    fn find_created(
        &mut self,
        index: usize,
        path: &str,
        new: &EntryIdentity,
        tree: Option<&str>,
    ) -> Result<bool, MountError> {
        if self.find_slot(&new_slot(index))? != EntryAt::Nothing {
            return Ok(false);
        }
        let (parent, name) = self.parent(path)?;
        match expect(parent, name, path, new) {
            // The host removed the entry, so there is nothing to undo.
            Err(error) if error.is_vanished() => return Ok(false),
            result => result?,
        }
        match tree {
            Some(tree) if commit::fingerprint(parent, name)? != tree => {
                Err(MountError::conflict(path, Collision::Changed))
            }
            _ => Ok(true),
        }
    }

    /// Returns `true` if a replacement was made and has not been reverted yet.
    fn is_replaced(&mut self, index: usize) -> Result<bool, MountError> {
        Ok(self.find_slot(&new_slot(index))? == EntryAt::Nothing
            && self.find_slot(&old_slot(index))? != EntryAt::Nothing)
    }

    /// Reverts a step if it was carried out.
    pub(super) fn undo(&mut self, index: usize, step: &JournalStep) -> Result<(), MountError> {
        let staging = self.staging;
        match step {
            JournalStep::Create { path, new, tree } => {
                if self.find_created(index, path, new, tree.as_deref())? {
                    let (parent, name) = self.parent(path)?;
                    parent.move_to_free(name, staging, &new_slot(index)).map_err(MountError::io("revert", path))?;
                    self.walker.forget();
                }
                Ok(())
            }
            JournalStep::Replace { path, new, .. } => {
                if self.is_replaced(index)? {
                    let (parent, name) = self.parent(path)?;
                    expect(parent, name, path, new)?;
                    staging.replace(&old_slot(index), parent, name).map_err(MountError::io("restore", path))?;
                }
                Ok(())
            }
            JournalStep::Remove { path, .. } => {
                let slot = old_slot(index);
                if self.find_slot(&slot)? != EntryAt::Nothing {
                    let (parent, name) = self.parent(path)?;
                    move_free(staging, &slot, parent, name, path)?;
                }
                Ok(())
            }
            JournalStep::RemoveFolder { path, old } => {
                let (parent, name) = self.parent(path)?;
                let failed = || MountError::io("restore", path);
                match parent.create_folder(name, 0o700) {
                    Ok(()) => parent.child(name).and_then(|folder| folder.set_own_mode(old.mode)).map_err(failed()),
                    // The directory was never removed, or has already been restored.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    Err(error) => Err(failed()(error)),
                }
            }
        }
    }

    /// Reverts all steps because of `reason`, then syncs.
    pub(super) fn roll_back(&mut self, steps: &[JournalStep], reason: &MountError) -> Result<(), MountError> {
        let failed = || MountError::io("write", UNDO_NAME);
        match self.staging.create_file(UNDO_NAME, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => {
                // From here on, recovery after a crash must continue the undo.
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
