//! What has changed in a root since a point in time, recorded as it happens.
//!
//! The journal holds, for each directory entry that is not what it was, what it was, and which
//! files have been written. The tree of then is the tree of now with these put back, so that the
//! difference costs what changed and no copy of the old tree (nor of its bytes) is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::inode::{FileKind, InodeId, Name};
use crate::limits::{TOMBSTONE_BYTES, length};
use crate::mount::SourceStat;

/// What a name stood for.
#[derive(Clone, Debug)]
pub(crate) struct Was {
    pub(crate) inode: InodeId,
    pub(crate) kind: FileKind,
    pub(crate) base: Option<Arc<SourceStat>>,
}

/// The names of one directory that changed, with what they stood for, `None` for nothing.
pub(crate) type ChangedNames = BTreeMap<Name, Option<Was>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) dirs: BTreeMap<InodeId, ChangedNames>,
    /// Directories that no longer have the name they had; a removed directory's id stays.
    moved: BTreeSet<InodeId>,
    /// Files written. Those that are gone are not here.
    pub(crate) written: BTreeSet<InodeId>,
    /// The charge for names that something existing lost.
    bytes: u64,
}

/// What the memory of a name is charged.
pub(crate) fn charge(name: &str) -> u64 {
    TOMBSTONE_BYTES.saturating_add(length(name))
}

impl Journal {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether this name now stands for something else.
    pub(crate) fn has(&self, dir: InodeId, name: &str) -> bool {
        self.dirs.get(&dir).is_some_and(|names| names.contains_key(name))
    }

    /// Whether the directory has another name than it had.
    pub(crate) fn has_moved(&self, dir: InodeId) -> bool {
        self.moved.contains(&dir)
    }

    /// A journal of these names; nothing is written yet.
    pub(crate) fn of(dirs: BTreeMap<InodeId, ChangedNames>) -> Self {
        let mut journal = Self { dirs, ..Self::default() };
        for (name, was) in journal.dirs.values().flatten() {
            let Some(was) = was else { continue };
            journal.bytes = journal.bytes.saturating_add(charge(name));
            // What it stood for stands there no more, or there would be no record.
            if was.kind == FileKind::Directory {
                journal.moved.insert(was.inode);
            }
        }
        journal
    }

    /// A name is about to stand for `new` instead of `was`. What returns to what it was is
    /// forgotten, so the journal never grows by making and removing again; then the answer is
    /// what was remembered.
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
