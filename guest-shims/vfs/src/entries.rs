//! Directory entries, by name and in a stable order. Only this module changes the target of a name, because every such
//! change must also update charges, link counts, times and journals.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    changes::PreviousTarget,
    inode::{Body, FileKind, Inode, InodeId, Link, ListingState, Name, RootId},
    limits::{VfsError, entry_charge, workspace_charge},
    mount::SourceStat,
    resolve::ResolvedPath,
    vfs::{Vfs, root_mut},
};

/// The position of a directory in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The number of ancestor directories; 0 for a root.
    pub(crate) depth: usize,
    /// The length of the path from the root in bytes, including a slash after each name.
    pub(crate) path_bytes: usize,
}

impl Position {
    /// Returns the position of a directory's entry.
    pub(crate) fn below(self, name: &str) -> Self {
        Self {
            depth: self.depth.saturating_add(1),
            path_bytes: self.path_bytes.saturating_add(name.len()).saturating_add(1),
        }
    }
}

impl Vfs {
    /// Returns the target of a name in a directory. Lists a mounted directory if necessary.
    pub(crate) fn child(&mut self, dir: InodeId, name: &str) -> Result<Option<InodeId>, VfsError> {
        match &self.inode(dir)?.body {
            Body::Directory { listed: ListingState::TooLarge, .. } => return self.look_up(dir, name),
            Body::Directory { listed: ListingState::NotYet, .. } => match self.ensure_listed(dir) {
                Err(VfsError::MountTooLarge) => return self.look_up(dir, name),
                result => result?,
            },
            _ => {}
        }
        let entries = self.inode(dir)?.entries().ok_or(VfsError::NotADirectory)?;
        Ok(entries.get(name).map(|entry| entry.inode))
    }

    /// Returns `true` if entries can be created in a directory: it is a root, or still has a name.
    pub(crate) fn is_linked(&self, dir: InodeId) -> Result<bool, VfsError> {
        let inode = self.inode(dir)?;
        Ok(!inode.links.is_empty() || self.root(inode.root)?.dir == dir)
    }

    /// Returns the parent directory, or the directory itself if it is a root.
    pub(crate) fn parent(&self, dir: InodeId) -> Result<InodeId, VfsError> {
        Ok(self.inode(dir)?.links.first().map_or(dir, |link| link.dir))
    }

    pub(crate) fn position(&self, dir: InodeId) -> Result<Position, VfsError> {
        let mut position = Position { depth: 0, path_bytes: 0 };
        let mut at = dir;
        while let Some(link) = self.inode(at)?.links.first() {
            position = position.below(&link.name);
            at = link.dir;
        }
        Ok(position)
    }

    /// Rejects an entry whose nesting is too deep or whose path is too long.
    pub(crate) fn check_position(&self, at: Position, kind: FileKind) -> Result<(), VfsError> {
        let too_deep = kind == FileKind::Directory && at.depth > self.limits.depth;
        // `path_bytes` includes a slash after the last name, which does not count towards the limit.
        if too_deep || at.path_bytes > self.limits.path_bytes.saturating_add(1) {
            return Err(VfsError::NameTooLong);
        }
        Ok(())
    }

    /// Creates a new inode under an unused name.
    pub(crate) fn create(&mut self, place: &ResolvedPath, body: Body) -> Result<InodeId, VfsError> {
        let name = place.name.as_ref().ok_or(VfsError::AlreadyExists)?;
        self.check_writable(place.dir)?;
        if !self.is_linked(place.dir)? {
            return Err(VfsError::NotFound);
        }
        let inode = Inode::new(self.inode(place.dir)?.root, body, self.now_ns);
        self.check_position(self.position(place.dir)?.below(name), inode.kind())?;
        let charge = workspace_charge(&inode);
        self.reserve(charge.saturating_add(entry_charge(name)), 1)?;
        let state = Arc::make_mut(&mut self.state);
        let id = state.table.insert(inode);
        let usage = &mut state.usage;
        usage.workspace_bytes = usage.workspace_bytes.saturating_add(charge);
        usage.inodes = usage.inodes.saturating_add(1);
        if let Err(error) = self.set_entry(place.dir, name, Some(id)) {
            self.free_if_unused(id);
            return Err(error);
        }
        Ok(id)
    }

    /// Points a name at an inode, or removes the name. The previous inode loses a link, and is freed if it has no other
    /// link and no handle. The caller must have checked the quotas, which this function charges. A failure leaves
    /// everything unchanged.
    pub(crate) fn set_entry(&mut self, dir: InodeId, name: &Name, new: Option<InodeId>) -> Result<(), VfsError> {
        let now_ns = self.now_ns;
        let old = self.inode(dir)?.entries().ok_or(VfsError::NotADirectory)?.get(name).cloned();
        let was = match &old {
            Some(entry) => Some(PreviousTarget {
                inode: entry.inode,
                kind: self.inode(entry.inode)?.kind(),
                base: entry.base.clone(),
            }),
            None => None,
        };

        let inode = self.inode_mut(dir)?;
        let root = inode.root;
        let Body::Directory { entries, .. } = &mut inode.body else {
            return Err(VfsError::NotADirectory);
        };
        match new {
            Some(id) => Arc::make_mut(entries).set(name, id, false)?,
            None => Arc::make_mut(entries).remove(name),
        }
        inode.times.modified_ns = now_ns;
        inode.times.changed_ns = now_ns;

        let state = Arc::make_mut(&mut self.state);
        let charge = entry_charge(name);
        let usage = &mut state.usage;
        if let Some(entry) = &old {
            let bytes = if entry.mounted { &mut usage.mount_bytes } else { &mut usage.workspace_bytes };
            *bytes = bytes.saturating_sub(charge);
        }
        if new.is_some() {
            usage.workspace_bytes = usage.workspace_bytes.saturating_add(charge);
        }
        self.record(root, dir, name, was, new);
        let state = Arc::make_mut(&mut self.state);
        if let Some(id) = new
            && let Some(inode) = state.table.get_mut(id)
        {
            if !inode.links.is_empty() && inode.kind() != FileKind::Directory {
                // Each additional name is charged as an inode, which bounds the number of paths.
                state.usage.inodes = state.usage.inodes.saturating_add(1);
            }
            inode.links.push(Link { dir, name: name.clone() });
            inode.times.changed_ns = now_ns;
        }
        if let Some(entry) = old {
            self.drop_link(entry.inode, dir, name);
        }
        self.note_peak();
        Ok(())
    }

    /// Records a changed name in both journals.
    fn record(&mut self, root: RootId, dir: InodeId, name: &Name, was: Option<PreviousTarget>, new: Option<InodeId>) {
        let state = Arc::make_mut(&mut self.state);
        let Some(root) = root_mut(state, root) else {
            return;
        };
        let (marked, committed) = (&mut root.marked, &mut root.committed);
        let before = marked.bytes().saturating_add(committed.bytes());
        Arc::make_mut(marked).record(dir, name, was.clone(), new);
        let restored = Arc::make_mut(committed).record(dir, name, was, new);
        let after = marked.bytes().saturating_add(committed.bytes());
        let usage = &mut state.usage;
        usage.tombstone_bytes = usage.tombstone_bytes.saturating_sub(before).saturating_add(after);
        if let Some(base) = restored.and_then(|was| was.base)
            && let Some(inode) = state.table.get_mut(dir)
            && let Body::Directory { entries, .. } = &mut inode.body
        {
            Arc::make_mut(entries).set_base(name, Some(base));
        }
    }

    fn drop_link(&mut self, id: InodeId, dir: InodeId, name: &Name) {
        let now_ns = self.now_ns;
        let state = Arc::make_mut(&mut self.state);
        let Some(inode) = state.table.get_mut(id) else {
            return;
        };
        inode.times.changed_ns = now_ns;
        let before = inode.links.len();
        if let Some(at) = inode.links.iter().position(|link| link.dir == dir && link.name == *name) {
            inode.links.remove(at);
        }
        if before > 1 && inode.links.len() < before && inode.kind() != FileKind::Directory {
            state.usage.inodes = state.usage.inodes.saturating_sub(1);
        }
        self.free_if_unused(id);
    }
}

/// A directory entry, as guests and embedders see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirEntry {
    /// The cookie for continuing after this entry (`d_next`).
    pub next_cookie: u64,
    /// The inode of the entry.
    pub inode: InodeId,
    /// The type of the inode.
    pub kind: FileKind,
    /// The name of the entry.
    pub name: Name,
}

/// The first position of an entry. Position 0 is the start of a listing, 1 and 2 are `.` and `..`.
pub(crate) const FIRST_PLACE: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) inode: InodeId,
    /// The position in listings, which is constant while the name exists.
    pub(crate) place: u32,
    /// `true` if the name came from a mount. If so, the mount is charged for the name.
    pub(crate) mounted: bool,
    /// The source's stat under this name, as of the last listing or commit. The stat belongs to the name rather than
    /// the inode, because hard links are separate files in the source.
    pub(crate) base: Option<Arc<SourceStat>>,
}

/// A directory's entries. A new name is added at the end; positions are never reused.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    by_name: BTreeMap<Name, Entry>,
    by_place: BTreeMap<u32, Name>,
    next_place: u32,
}

impl Default for Entries {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), by_place: BTreeMap::new(), next_place: FIRST_PLACE }
    }
}

impl Entries {
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Iterates over the entries, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.by_name.iter()
    }

    /// Returns the position of the next new name.
    pub(crate) fn next_place(&self) -> u32 {
        self.next_place
    }

    /// Iterates over the positions from `from` to `until` (exclusive) and their names.
    pub(crate) fn between(&self, from: u32, until: u32) -> impl Iterator<Item = (u32, &Name)> {
        self.by_place.range(from..until.max(from)).map(|(&place, name)| (place, name))
    }

    /// Points a name at an inode. An existing name keeps its position, so that a listing in progress returns the name
    /// exactly once. Fails after 2^32 names, which guests cannot reach in practice: creating that many names takes
    /// hours.
    pub(crate) fn set(&mut self, name: &Name, inode: InodeId, mounted: bool) -> Result<(), VfsError> {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.inode = inode;
            entry.mounted = mounted;
            entry.base = None;
            return Ok(());
        }
        if self.set_at(name, inode, self.next_place, mounted) { Ok(()) } else { Err(VfsError::NoSpace) }
    }

    /// Inserts a new name at a position after all existing names. Returns `false`, without any change, if the name
    /// exists or the position is invalid.
    pub(crate) fn set_at(&mut self, name: &Name, inode: InodeId, place: u32, mounted: bool) -> bool {
        let Some(next_place) = place.checked_add(1).filter(|_| place >= self.next_place) else {
            return false;
        };
        if self.by_name.contains_key(name) {
            return false;
        }
        self.next_place = next_place;
        self.by_place.insert(place, name.clone());
        self.by_name.insert(name.clone(), Entry { inode, place, mounted, base: None });
        true
    }

    /// Advances the position of the next new name; the skipped positions are not used.
    pub(crate) fn set_next_place(&mut self, next_place: u32) {
        self.next_place = self.next_place.max(next_place);
    }

    pub(crate) fn set_base(&mut self, name: &str, base: Option<Arc<SourceStat>>) {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.base = base;
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(entry) = self.by_name.remove(name) {
            self.by_place.remove(&entry.place);
        }
    }
}
