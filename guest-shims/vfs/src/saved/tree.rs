//! Checks all invariants of decoded inodes, so that they form a file system.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    RestoreError,
    decode::{DecodedState, check_usage},
};
use crate::{
    changes::Journal,
    encoding::DecodeError,
    entries::Position,
    inode::{Body, Content, FileKind, Inode, InodeId, ListingState, SourcePath},
    limits::{MAX_LINKS, Usage, VfsLimits, length},
    vfs::{Access, Root, Vfs},
};

/// Decoded state that is being assembled into a file system.
pub(super) struct Tree<'a> {
    pub(super) read: &'a mut DecodedState,
    pub(super) vfs: &'a Vfs,
    pub(super) open: &'a BTreeMap<InodeId, u64>,
    pub(super) usage: Usage,
}

/// A directory to visit.
struct Visit {
    dir: InodeId,
    position: Position,
    /// The path in the source, if no name in the path changed.
    source: Option<SourcePath>,
}

impl Tree<'_> {
    /// Assigns names to inodes and sources to directories, and checks the assignments. Returns the usage.
    pub(super) fn assemble(mut self) -> Result<Usage, RestoreError> {
        self.link()?;
        let roots = self.read.roots.clone();
        let mut met = 0_usize;
        for (index, root) in roots.iter().enumerate() {
            let dir = self.read.table.get(root.dir).ok_or(DecodeError("a root has no directory"))?;
            if usize::try_from(dir.root.0) != Ok(index) || dir.kind() != FileKind::Directory {
                return Err(DecodeError("a root is not a directory").into());
            }
            met = met.saturating_add(self.walk(root)?);
            self.check_journal(root)?;
        }
        let mut linked_dirs = 0_usize;
        for (id, inode) in self.read.table.iter() {
            if inode.links.is_empty() && !roots.iter().any(|root| root.dir == id) {
                self.check_nameless(id, inode)?;
            } else if inode.kind() == FileKind::Directory {
                linked_dirs = linked_dirs.saturating_add(1);
            } else {
                let further = u64::try_from(inode.links.len().saturating_sub(1)).unwrap_or(u64::MAX);
                self.usage.inodes = self.usage.inodes.saturating_add(further);
            }
        }
        // A directory that has a name but cannot be reached from a root is part of a cycle.
        if met != linked_dirs {
            return Err(DecodeError("a directory is its own ancestor").into());
        }
        if self.open.keys().any(|&id| self.read.table.get(id).is_none()) {
            return Err(DecodeError("an open inode does not exist").into());
        }
        check_usage(&self.usage, self.vfs)?;
        Ok(self.usage)
    }

    /// Links all names to their inodes.
    fn link(&mut self) -> Result<(), RestoreError> {
        let mut names = std::mem::take(&mut self.read.names);
        names.sort_by_key(|&(inode, which, _)| (inode, which));
        for (id, which, link) in names {
            let root = self.read.table.get(link.dir).map(|dir| dir.root);
            let is_root = self.read.roots.iter().any(|root| root.dir == id);
            let inode = self.read.table.get_mut(id).ok_or(NOTHING)?;
            if Some(inode.root) != root || is_root {
                return Err(DecodeError("a name refers to an inode in another root").into());
            }
            let max = if inode.kind() == FileKind::Directory { 1 } else { MAX_LINKS };
            if which != inode.links.len() {
                return Err(DecodeError("the names of an inode are not numbered consecutively").into());
            }
            if which >= max {
                return Err(DecodeError("an inode has too many names").into());
            }
            inode.links.push(link);
        }
        Ok(())
    }

    fn check_nameless(&self, id: InodeId, inode: &Inode) -> Result<(), DecodeError> {
        if !self.open.contains_key(&id) {
            return Err(DecodeError("an inode has no name and is not open"));
        }
        match inode.entries() {
            Some(entries) if !entries.is_empty() => Err(DecodeError("a removed directory has entries")),
            _ => Ok(()),
        }
    }

    /// Walks the current content of a root. If a directory's path also exists in the source, marks the directory as
    /// unlisted: its entries are then the differences from the source. Returns the number of directories.
    fn walk(&mut self, root: &Root) -> Result<usize, RestoreError> {
        let top = root.source.is_some().then(|| SourcePath { dir: Arc::from(""), name: Arc::from("") });
        let mut left = vec![Visit { dir: root.dir, position: Position { depth: 0, path_bytes: 0 }, source: top }];
        let mut met = 0_usize;
        while let Some(Visit { dir, position, source }) = left.pop() {
            met = met.saturating_add(1);
            let path: Option<Arc<str>> = source.as_ref().map(|source| Arc::from(source.path()));
            let mut shared = false;
            let inode = self.read.table.get(dir).ok_or(NOTHING)?;
            for (name, entry) in inode.entries().into_iter().flat_map(|entries| entries.iter()) {
                let child = self.read.table.get(entry.inode).ok_or(NOTHING)?;
                let below = position.below(name);
                self.check_place(below, child, root)?;
                if child.kind() != FileKind::Directory {
                    continue;
                }
                let moved = root.committed.has(dir, name) || root.committed.has_moved(entry.inode);
                let path = path.clone().filter(|_| !moved);
                if path.is_some() && child.mount_charge.is_none() {
                    return Err(DecodeError("a mounted directory is not in its source").into());
                }
                shared |= path.is_some();
                let source = path.map(|dir| SourcePath { dir, name: name.clone() });
                left.push(Visit { dir: entry.inode, position: below, source });
            }
            if let (Some(source), Some(path)) = (source, path) {
                // The entries retain the path, as after a listing.
                let bytes = if shared { length(&path) } else { 0 };
                self.hand_to_source(dir, source, bytes)?;
            }
        }
        Ok(met)
    }

    fn check_place(&self, at: Position, child: &Inode, root: &Root) -> Result<(), RestoreError> {
        check_depth(&self.vfs.limits, at.depth, child.kind())?;
        // Paths in a source can have any length. `path_bytes` includes a slash after the last name, which does not
        // count towards the limit.
        if root.source.is_none() && at.path_bytes > self.vfs.limits.path_bytes.saturating_add(1) {
            return Err(RestoreError::Limit("path_bytes"));
        }
        if matches!(child.body, Body::File { content: Content::Gone, .. }) {
            return Err(DecodeError("a file that was removed by a commit still has a name").into());
        }
        Ok(())
    }

    fn hand_to_source(&mut self, dir: InodeId, source: SourcePath, path_bytes: u64) -> Result<(), RestoreError> {
        let inode = self.read.table.get_mut(dir).ok_or(NOTHING)?;
        inode.source = Some(Arc::new(source));
        if let Body::Directory { listed, .. } = &mut inode.body {
            *listed = ListingState::NotYet;
        }
        if let Some(charge) = &mut inode.mount_charge {
            *charge = charge.saturating_add(path_bytes);
            self.usage.mount_bytes = self.usage.mount_bytes.saturating_add(path_bytes);
        }
        check_usage(&self.usage, self.vfs)
    }

    /// Checks that a journal matches the inodes, and that restoring its names yields a tree.
    fn check_journal(&self, root: &Root) -> Result<(), RestoreError> {
        let journal = &root.committed;
        if journal.dirs.is_empty() {
            return Ok(());
        }
        if root.source.is_some() && root.access == Access::ReadOnly {
            return Err(RestoreError::ReadOnly);
        }
        let root_id = self.read.table.get(root.dir).map(|dir| dir.root);
        let mut taken = false;
        for (&dir, names) in &journal.dirs {
            let inode = self.read.table.get(dir);
            if inode.is_some_and(|inode| Some(inode.root) != root_id || inode.kind() != FileKind::Directory) {
                return Err(DecodeError("a journal's directory is not in its root").into());
            }
            let entries = inode.and_then(Inode::entries);
            for (name, was) in names {
                let now = entries.and_then(|entries| entries.get(name)).map(|entry| entry.inode);
                if now == was.as_ref().map(|was| was.inode) {
                    return Err(DecodeError("a journal records an unchanged name").into());
                }
                let Some(was) = was else { continue };
                taken = true;
                let alive = self.read.table.get(was.inode);
                // An inode that was not a directory had no entries. The walk of the old tree relies on this invariant.
                if alive.is_some_and(|inode| Some(inode.root) != root_id || inode.kind() != was.kind)
                    || (was.kind != FileKind::Directory && journal.dirs.contains_key(&was.inode))
                {
                    return Err(DecodeError("a journal contradicts an inode's type or root").into());
                }
            }
        }
        if taken { self.check_old_tree(root) } else { Ok(()) }
    }

    fn check_old_tree(&self, root: &Root) -> Result<(), RestoreError> {
        let journal = &root.committed;
        let mut met = BTreeSet::new();
        let mut left = vec![(root.dir, 0_usize)];
        while let Some((dir, depth)) = left.pop() {
            if !met.insert(dir) {
                return Err(DecodeError("a directory was in two parents at once").into());
            }
            check_depth(&self.vfs.limits, depth, FileKind::Directory)?;
            let below = depth.saturating_add(1);
            left.extend(self.old_directories(journal, dir).map(|dir| (dir, below)));
        }
        let strays = journal.dirs.iter().any(|(dir, names)| names.values().any(Option::is_some) && !met.contains(dir));
        if strays { Err(DecodeError("a journal records a directory that had no parent").into()) } else { Ok(()) }
    }

    fn old_directories<'b>(&'b self, journal: &'b Journal, dir: InodeId) -> impl Iterator<Item = InodeId> + 'b {
        let changed = journal.dirs.get(&dir);
        let entries = self.read.table.get(dir).and_then(Inode::entries);
        let reached = entries.into_iter().flat_map(|entries| entries.iter()).filter(move |(name, entry)| {
            !changed.is_some_and(|names| names.contains_key(*name))
                && self.read.table.get(entry.inode).is_some_and(|inode| inode.kind() == FileKind::Directory)
        });
        let taken = changed.into_iter().flat_map(|names| names.values()).flatten();
        let taken = taken.filter(|was| was.kind == FileKind::Directory).map(|was| was.inode);
        reached.map(|(_, entry)| entry.inode).chain(taken)
    }
}

const NOTHING: DecodeError = DecodeError("a name refers to no inode");

/// Checks the depth of an entry. A directory from a source can be one level deeper than directories that can be listed.
fn check_depth(limits: &VfsLimits, depth: usize, kind: FileKind) -> Result<(), RestoreError> {
    let max = limits.depth.saturating_add(1);
    let over = depth > if kind == FileKind::Directory { max } else { max.saturating_add(1) };
    if over { Err(RestoreError::Limit("depth")) } else { Ok(()) }
}
