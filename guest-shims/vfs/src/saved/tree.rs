//! Whether inodes that were read make a file system: the one place that says what holds of every one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::RestoreError;
use super::decode::{Read, check_usage};
use crate::encoding::Damaged;
use crate::entries::Position;
use crate::inode::{Body, Content, FileKind, Inode, InodeId, Listed, SourcePath};
use crate::journal::Journal;
use crate::limits::{MAX_LINKS, Usage, VfsLimits, length};
use crate::vfs::{Access, Root, Vfs};

/// What was read, while it is made into a file system.
pub(super) struct Tree<'a> {
    pub(super) read: &'a mut Read,
    pub(super) vfs: &'a Vfs,
    pub(super) open: &'a BTreeMap<InodeId, u64>,
    pub(super) usage: Usage,
}

/// A directory that is being walked.
struct Visit {
    dir: InodeId,
    position: Position,
    /// Where the source has it, if no name along its path changed.
    source: Option<SourcePath>,
}

impl Tree<'_> {
    /// Gives inodes their names and directories their sources, checks all of it, and answers what is used.
    pub(super) fn assemble(mut self) -> Result<Usage, RestoreError> {
        self.link()?;
        let roots = self.read.roots.clone();
        let mut met = 0_usize;
        for (index, root) in roots.iter().enumerate() {
            let dir = self.read.table.get(root.dir).ok_or(Damaged("a root has no directory"))?;
            if usize::try_from(dir.root.0) != Ok(index) || dir.kind() != FileKind::Directory {
                return Err(Damaged("a root's directory is none").into());
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
        // What has a name but is not met from a root lies in a circle.
        if met != linked_dirs {
            return Err(Damaged("a directory is its own ancestor").into());
        }
        if self.open.keys().any(|&id| self.read.table.get(id).is_none()) {
            return Err(Damaged("something open is not there").into());
        }
        check_usage(&self.usage, self.vfs)?;
        Ok(self.usage)
    }

    /// Gives every inode its names.
    fn link(&mut self) -> Result<(), RestoreError> {
        let mut names = std::mem::take(&mut self.read.names);
        names.sort_by_key(|&(inode, which, _)| (inode, which));
        for (id, which, link) in names {
            let root = self.read.table.get(link.dir).map(|dir| dir.root);
            let is_root = self.read.roots.iter().any(|root| root.dir == id);
            let inode = self.read.table.get_mut(id).ok_or(NOTHING)?;
            if Some(inode.root) != root || is_root {
                return Err(Damaged("a name stands for something in another root").into());
            }
            let most = if inode.kind() == FileKind::Directory { 1 } else { MAX_LINKS };
            if which != inode.links.len() || which >= most {
                return Err(Damaged("something has more names than it can have").into());
            }
            inode.links.push(link);
        }
        Ok(())
    }

    fn check_nameless(&self, id: InodeId, inode: &Inode) -> Result<(), Damaged> {
        if !self.open.contains_key(&id) {
            return Err(Damaged("something has no name and is not open"));
        }
        match inode.entries() {
            Some(entries) if !entries.is_empty() => Err(Damaged("a directory was removed with what is in it")),
            _ => Ok(()),
        }
    }

    /// Walks what is in a root now. Directories whose path the source has too become ones that are not listed: their entries
    /// are those that differ. Answers how many directories there are.
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
                    return Err(Damaged("a source's directory is not the source's").into());
                }
                shared |= path.is_some();
                let source = path.map(|dir| SourcePath { dir, name: name.clone() });
                left.push(Visit { dir: entry.inode, position: below, source });
            }
            if let (Some(source), Some(path)) = (source, path) {
                // What is in there keeps the path, as after a listing.
                let bytes = if shared { length(&path) } else { 0 };
                self.hand_to_source(dir, source, bytes)?;
            }
        }
        Ok(met)
    }

    fn check_place(&self, at: Position, child: &Inode, root: &Root) -> Result<(), RestoreError> {
        check_depth(&self.vfs.limits, at.depth, child.kind())?;
        // A source's paths are as long as they are. The last name is followed by no slash.
        if root.source.is_none() && at.path_bytes > self.vfs.limits.path_bytes.saturating_add(1) {
            return Err(RestoreError::Limit("path_bytes"));
        }
        if matches!(child.body, Body::File { content: Content::Gone, .. }) {
            return Err(Damaged("a file that is gone has a name").into());
        }
        Ok(())
    }

    fn hand_to_source(&mut self, dir: InodeId, source: SourcePath, path_bytes: u64) -> Result<(), RestoreError> {
        let inode = self.read.table.get_mut(dir).ok_or(NOTHING)?;
        inode.source = Some(Arc::new(source));
        if let Body::Directory { listed, .. } = &mut inode.body {
            *listed = Listed::NotYet;
        }
        if let Some(charge) = &mut inode.mount_charge {
            *charge = charge.saturating_add(path_bytes);
            self.usage.mount_bytes = self.usage.mount_bytes.saturating_add(path_bytes);
        }
        check_usage(&self.usage, self.vfs)
    }

    /// Checks that a journal fits what there is, and that the tree of then, which is the present one with the journal put
    /// back, was a tree.
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
                return Err(Damaged("a journal is of no directory of its root").into());
            }
            let entries = inode.and_then(Inode::entries);
            for (name, was) in names {
                let now = entries.and_then(|entries| entries.get(name)).map(|entry| entry.inode);
                if now == was.as_ref().map(|was| was.inode) {
                    return Err(Damaged("a journal tells of what did not change").into());
                }
                let Some(was) = was else { continue };
                taken = true;
                let alive = self.read.table.get(was.inode);
                // Nothing was in what was no directory: whoever walks the tree of then relies on it.
                if alive.is_some_and(|inode| Some(inode.root) != root_id || inode.kind() != was.kind)
                    || (was.kind != FileKind::Directory && journal.dirs.contains_key(&was.inode))
                {
                    return Err(Damaged("a journal tells of something else than there is").into());
                }
            }
        }
        if taken { self.check_tree_of_then(root) } else { Ok(()) }
    }

    fn check_tree_of_then(&self, root: &Root) -> Result<(), RestoreError> {
        let journal = &root.committed;
        let mut met = BTreeSet::new();
        let mut left = vec![(root.dir, 0_usize)];
        while let Some((dir, depth)) = left.pop() {
            if !met.insert(dir) {
                return Err(Damaged("a directory was in two places at once").into());
            }
            check_depth(&self.vfs.limits, depth, FileKind::Directory)?;
            let below = depth.saturating_add(1);
            left.extend(self.directories_of_then(journal, dir).map(|dir| (dir, below)));
        }
        let strays = journal.dirs.iter().any(|(dir, names)| names.values().any(Option::is_some) && !met.contains(dir));
        if strays { Err(Damaged("a journal tells of a directory that was nowhere").into()) } else { Ok(()) }
    }

    fn directories_of_then<'b>(&'b self, journal: &'b Journal, dir: InodeId) -> impl Iterator<Item = InodeId> + 'b {
        let changed = journal.dirs.get(&dir);
        let entries = self.read.table.get(dir).and_then(Inode::entries);
        let kept = entries.into_iter().flat_map(|entries| entries.iter()).filter(move |(name, entry)| {
            !changed.is_some_and(|names| names.contains_key(*name))
                && self.read.table.get(entry.inode).is_some_and(|inode| inode.kind() == FileKind::Directory)
        });
        let taken = changed.into_iter().flat_map(|names| names.values()).flatten();
        let taken = taken.filter(|was| was.kind == FileKind::Directory).map(|was| was.inode);
        kept.map(|(_, entry)| entry.inode).chain(taken)
    }
}

const NOTHING: Damaged = Damaged("a name stands for nothing");

/// A source's directory may lie one deeper than what can be listed.
fn check_depth(limits: &VfsLimits, depth: usize, kind: FileKind) -> Result<(), RestoreError> {
    let most = limits.depth.saturating_add(1);
    let over = depth > if kind == FileKind::Directory { most } else { most.saturating_add(1) };
    if over { Err(RestoreError::Limit("depth")) } else { Ok(()) }
}
