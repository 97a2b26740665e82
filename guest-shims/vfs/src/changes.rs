//! Changed paths, computed from a journal instead of a scan.
//!
//! The journal contains the old value of each directory entry that changed, and the inodes of files that were written.
//! The old tree is the current tree with the old values restored. The cost is therefore proportional to the number of
//! changes, and no copy of the old tree exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    entries::Entry,
    inode::{FileKind, InodeId, Name, RootId, join},
    limits::{TOMBSTONE_BYTES, length},
    mount::SourceStat,
    vfs::Vfs,
};

/// The changed files and symlinks of a root, as paths from the root. Each list is in ascending order.
///
/// A path is in at most one list. A file that was created and removed is in none; a file that was removed and
/// recreated, or replaced, is modified. A rename is a deletion and a creation; renaming a directory deletes and creates
/// every path below it. A file with several names is listed under each name. Writing the same bytes is a change.
/// Setting only times is not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Paths that previously had no file.
    pub created: Vec<String>,
    /// Paths whose file was replaced or written.
    pub modified: Vec<String>,
    /// Paths that no longer have a file.
    pub deleted: Vec<String>,
}

impl Changes {
    /// Returns `true` if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.modified.is_empty() && self.deleted.is_empty()
    }
}

/// The current or previous inode at a path.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) inode: InodeId,
    pub(crate) kind: FileKind,
    /// The source's metadata for this path. `None` if the path does not refer to the source's file.
    pub(crate) base: Option<Arc<SourceStat>>,
}

impl From<&PreviousTarget> for Node {
    fn from(was: &PreviousTarget) -> Self {
        Self { inode: was.inode, kind: was.kind, base: was.base.clone() }
    }
}

/// The current and the previous target of a path.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) before: Option<Node>,
    pub(crate) after: Option<Node>,
}

/// All changed paths, at most one for each current or previous name.
pub(crate) type Differences = BTreeMap<String, Difference>;

impl Vfs {
    /// Starts a new period of [`changes`](Self::changes) in all roots.
    pub fn mark(&mut self) {
        let state = Arc::make_mut(&mut self.state);
        for root in &mut state.roots {
            let usage = &mut state.usage;
            usage.tombstone_bytes = usage.tombstone_bytes.saturating_sub(root.marked.bytes());
            root.marked = Arc::default();
        }
    }

    /// Returns a root's changes since the last [`mark`](Self::mark), or since the root was added. The cost is
    /// proportional to the number of changes. An unknown root has no changes.
    pub fn changes(&self, root: RootId) -> Changes {
        let mut changes = Changes::default();
        let Ok(root) = self.root(root) else {
            return changes;
        };
        for (path, difference) in self.differences(&root.marked) {
            let is_file = |node: Option<Node>| node.is_some_and(|n| n.kind != FileKind::Directory);
            match (is_file(difference.before), is_file(difference.after)) {
                (false, true) => changes.created.push(path),
                (true, true) => changes.modified.push(path),
                (true, false) => changes.deleted.push(path),
                (false, false) => {}
            }
        }
        changes
    }

    /// Returns the paths whose target was created, removed, replaced or written.
    pub(crate) fn differences(&self, journal: &Journal) -> Differences {
        let mut found = self.paths_in_question(journal);
        found.retain(|_, difference| match (&difference.before, &difference.after) {
            (Some(before), Some(after)) => before.inode != after.inode || journal.written.contains(&after.inode),
            _ => true,
        });
        found
    }

    /// Returns the paths that were written or whose target may have changed, and everything below them.
    ///
    /// A path can differ only if one of its names changed. It is therefore enough to start at the topmost changed
    /// names, and to walk their current and previous targets from there.
    pub(crate) fn paths_in_question(&self, journal: &Journal) -> Differences {
        let mut found = Differences::new();
        for (&dir, names) in &journal.dirs {
            let Some(path) = self.unchanged_path(journal, dir) else {
                continue;
            };
            let entries = self.inode(dir).ok().and_then(|inode| inode.entries());
            for (name, was) in names {
                let path = join(&path, name);
                if let Some(entry) = entries.and_then(|entries| entries.get(name))
                    && let Some(node) = self.node(entry)
                {
                    self.walk_after(&mut found, path.clone(), node);
                }
                if let Some(was) = was {
                    self.walk_before(&mut found, journal, path, was.into());
                }
            }
        }
        for &file in &journal.written {
            let Ok(inode) = self.inode(file) else {
                continue;
            };
            for link in &inode.links {
                // The walk has already visited all paths below a changed name.
                if !journal.has(link.dir, &link.name)
                    && let Some(dir) = self.unchanged_path(journal, link.dir)
                    && let Some(entry) = self.entry(link.dir, &link.name)
                {
                    let node = self.node(entry);
                    let difference = Difference { before: node.clone(), after: node };
                    found.insert(join(&dir, &link.name), difference);
                }
            }
        }
        found
    }

    fn entry(&self, dir: InodeId, name: &str) -> Option<&Entry> {
        self.inode(dir).ok()?.entries()?.get(name)
    }

    fn node(&self, entry: &Entry) -> Option<Node> {
        Some(Node { inode: entry.inode, kind: self.inode(entry.inode).ok()?.kind(), base: entry.base.clone() })
    }

    /// Returns the path of an existing directory, or `None` if any part of the path has changed. A returned path is
    /// therefore also the directory's previous path.
    pub(crate) fn unchanged_path(&self, journal: &Journal, dir: InodeId) -> Option<String> {
        let mut at = dir;
        while let Some(link) = self.inode(at).ok()?.links.first() {
            if journal.has(link.dir, &link.name) || journal.has_moved(at) {
                return None;
            }
            at = link.dir;
        }
        self.path_of_dir(dir)
    }

    fn walk_after(&self, found: &mut Differences, path: String, node: Node) {
        let mut left = vec![(path, node)];
        while let Some((path, node)) = left.pop() {
            let entries = self.inode(node.inode).ok().and_then(|inode| inode.entries());
            for (name, entry) in entries.into_iter().flat_map(|entries| entries.iter()) {
                if let Some(node) = self.node(entry) {
                    left.push((join(&path, name), node));
                }
            }
            let difference = found.entry(path).or_insert(Difference { before: None, after: None });
            difference.after = Some(node);
        }
    }

    /// Walks the old tree: each directory's current entries with the journal's names restored.
    fn walk_before(&self, found: &mut Differences, journal: &Journal, path: String, node: Node) {
        let mut left = vec![(path, node)];
        while let Some((path, node)) = left.pop() {
            let changed = journal.dirs.get(&node.inode);
            let entries = self.inode(node.inode).ok().and_then(|inode| inode.entries());
            for (name, entry) in entries.into_iter().flat_map(|entries| entries.iter()) {
                if !changed.is_some_and(|names| names.contains_key(name))
                    && let Some(node) = self.node(entry)
                {
                    left.push((join(&path, name), node));
                }
            }
            for (name, was) in changed.into_iter().flatten() {
                if let Some(was) = was {
                    left.push((join(&path, name), was.into()));
                }
            }
            let difference = found.entry(path).or_insert(Difference { before: None, after: None });
            difference.before = Some(node);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PreviousTarget {
    pub(crate) inode: InodeId,
    pub(crate) kind: FileKind,
    pub(crate) base: Option<Arc<SourceStat>>,
}

/// The changed names of one directory and their previous targets, which are `None` for new names.
pub(crate) type ChangedNames = BTreeMap<Name, Option<PreviousTarget>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) dirs: BTreeMap<InodeId, ChangedNames>,
    /// Directories that no longer have their old name. The ID of a removed directory is never removed from this set.
    moved: BTreeSet<InodeId>,
    /// Files that were written and still exist.
    pub(crate) written: BTreeSet<InodeId>,
    /// The charge for the recorded names that had a target.
    bytes: u64,
}

/// Returns the charge for recording a name.
pub(crate) fn charge(name: &str) -> u64 {
    TOMBSTONE_BYTES.saturating_add(length(name))
}

impl Journal {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if the target of a name has changed.
    pub(crate) fn has(&self, dir: InodeId, name: &str) -> bool {
        self.dirs.get(&dir).is_some_and(|names| names.contains_key(name))
    }

    /// Returns `true` if a directory's name has changed.
    pub(crate) fn has_moved(&self, dir: InodeId) -> bool {
        self.moved.contains(&dir)
    }

    /// Creates a journal of these names, without written files.
    pub(crate) fn of(dirs: BTreeMap<InodeId, ChangedNames>) -> Self {
        let mut journal = Self { dirs, ..Self::default() };
        for (name, was) in journal.dirs.values().flatten() {
            let Some(was) = was else { continue };
            journal.bytes = journal.bytes.saturating_add(charge(name));
            // The directory no longer has this name; otherwise the name would not be in the journal.
            if was.kind == FileKind::Directory {
                journal.moved.insert(was.inode);
            }
        }
        journal
    }

    /// Records that a name is about to refer to `new` instead of `was`. If the name returns to its old value, its
    /// record is removed and returned, so that repeated creation and removal does not grow the journal.
    pub(crate) fn record(
        &mut self,
        dir: InodeId,
        name: &Name,
        was: Option<PreviousTarget>,
        new: Option<InodeId>,
    ) -> Option<PreviousTarget> {
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
