//! The changes in a root since a point in time, recorded as they happen.
//!
//! The journal holds the old value of each directory entry that changed, and which files have been written. The old
//! tree is the current tree with these values restored. The cost is therefore proportional to the changes, and no copy
//! of the old tree or its bytes is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::{FileKind, InodeId, Name};
use crate::limits::{TOMBSTONE_BYTES, length};
use crate::mount::SourceStat;

/// The previous target of a name.
#[derive(Clone, Debug)]
pub(crate) struct Was {
    pub(crate) inode: InodeId,
    pub(crate) kind: FileKind,
    pub(crate) base: Option<Arc<SourceStat>>,
}

/// The changed names of one directory with their previous targets; `None` for a new name.
pub(crate) type ChangedNames = BTreeMap<Name, Option<Was>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) dirs: BTreeMap<InodeId, ChangedNames>,
    /// Directories that no longer have their old name; the id of a removed directory stays.
    moved: BTreeSet<InodeId>,
    /// Files written. Those that no longer exist are not included.
    pub(crate) written: BTreeSet<InodeId>,
    /// The charge for names that existing inodes have lost.
    bytes: u64,
}

/// Returns the charge for remembering a name.
pub(crate) fn charge(name: &str) -> u64 {
    TOMBSTONE_BYTES.saturating_add(length(name))
}

impl Journal {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether this name has another target now.
    pub(crate) fn has(&self, dir: InodeId, name: &str) -> bool {
        self.dirs.get(&dir).is_some_and(|names| names.contains_key(name))
    }

    /// Returns whether the directory's name has changed.
    pub(crate) fn has_moved(&self, dir: InodeId) -> bool {
        self.moved.contains(&dir)
    }

    /// Creates a journal of these names, with no file written.
    pub(crate) fn of(dirs: BTreeMap<InodeId, ChangedNames>) -> Self {
        let mut journal = Self { dirs, ..Self::default() };
        for (name, was) in journal.dirs.values().flatten() {
            let Some(was) = was else { continue };
            journal.bytes = journal.bytes.saturating_add(charge(name));
            // The directory no longer has that name, because there would be no record otherwise.
            if was.kind == FileKind::Directory {
                journal.moved.insert(was.inode);
            }
        }
        journal
    }

    /// Records that a name is about to refer to `new` instead of `was`. A name that returns to its old value is
    /// forgotten, so that repeated creation and removal does not grow the journal. The recorded value is returned in
    /// this case.
    pub(crate) fn record(&mut self, dir: InodeId, name: &Name, was: Option<Was>, new: Option<InodeId>) -> Option<Was> {
        let mut restored = None;
        let names = self.dirs.entry(dir).or_default();
        if let Some(first) = names.get(name) {
            if first.as_ref().map(|was| was.inode) == new {
                restored = names.remove(name).flatten();
                if restored.is_some() {
                    self.bytes = self.bytes.saturating_sub(charge(name));
                }
                if let Some(inode) = new {
                    self.moved.remove(&inode);
                }
            }
        } else if was.as_ref().map(|was| was.inode) != new {
            if let Some(was) = &was {
                self.bytes = self.bytes.saturating_add(charge(name));
                if was.kind == FileKind::Directory {
                    self.moved.insert(was.inode);
                }
            }
            names.insert(name.clone(), was);
        }
        if names.is_empty() {
            self.dirs.remove(&dir);
        }
        restored
    }
}
