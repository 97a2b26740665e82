//! Reading directories: guests' cookies, and the first access to a mounted directory.

use std::sync::Arc;

use crate::{
    entries::{DirEntry, Entries, FIRST_PLACE},
    inode::{Body, Content, FileKind, Inode, InodeId, Link, ListingState, Name, RootId, SourcePath, join},
    limits::{INODE_BYTES, VfsError, entry_charge, length},
    mount::{MountSource, SourceEntry, SourceStat},
    vfs::Vfs,
};

/// Maximum number of entries that one call returns. Bounds the host memory for the call.
const MAX_ENTRIES: usize = 1_024;

/// Work units of one name lookup in a source. On a host, a lookup takes about ten microseconds.
const LOOK_UP_WORK: u64 = 100;

/// The position to continue from, and the end of the listing. The end is fixed when a listing starts, so a guest that
/// creates or renames entries during the listing cannot loop forever. A name keeps its position while it exists, so no
/// name is skipped or repeated.
#[derive(Clone, Copy)]
struct Cookie {
    from: u32,
    until: u32,
}

impl Cookie {
    /// Decodes a cookie. Any 64 bits are valid, because a guest can invent cookies.
    fn decode(cookie: u64, next_place: u32) -> Self {
        if cookie == 0 {
            return Self { from: 1, until: next_place };
        }
        let from = u32::try_from(cookie & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        let until = u32::try_from(cookie >> 32).unwrap_or(u32::MAX);
        Self { from: from.max(1), until: until.min(next_place) }
    }

    fn after(self, place: u32) -> u64 {
        (u64::from(self.until) << 32) | u64::from(place.saturating_add(1))
    }
}

/// The root of a mounted directory, the directory's path in the source, and the source.
type SourceOf = (RootId, Arc<str>, Arc<dyn MountSource>);

impl Vfs {
    /// Returns entries of a directory, starting at a cookie: first `.` and `..`, then all other entries in creation
    /// order (by name for a mount). Cookie 0 is the start. An empty result means the end. Returns at most `max_entries`
    /// and at most 1,024 entries.
    ///
    /// Names created after the listing started are not included, nor are names removed before they are reached. All
    /// other names appear exactly once.
    ///
    /// # Errors
    /// Returns [`VfsError::NotADirectory`] for a file or symlink, and [`VfsError::BadInode`] for a stale ID. A mounted
    /// directory that has not been listed yet can also cause [`VfsError::Io`], [`VfsError::MountTooLarge`] or
    /// [`VfsError::NameTooLong`].
    pub fn read_dir(&mut self, dir: InodeId, cookie: u64, max_entries: usize) -> Result<Vec<DirEntry>, VfsError> {
        self.ensure_listed(dir)?;
        let entries = self.inode(dir)?.entries().ok_or(VfsError::NotADirectory)?;
        if !self.is_linked(dir)? {
            return Ok(Vec::new());
        }
        let cookie = Cookie::decode(cookie, entries.next_place());
        let max = max_entries.min(MAX_ENTRIES);
        let parent = self.parent(dir)?;
        let mut found = Vec::new();
        for (place, name, inode) in [(1, ".", dir), (2, "..", parent)] {
            if place >= cookie.from && found.len() < max {
                found.push(DirEntry {
                    next_cookie: cookie.after(place),
                    inode,
                    kind: FileKind::Directory,
                    name: Name::from(name),
                });
            }
        }
        let left = max.saturating_sub(found.len());
        let from = cookie.from.max(FIRST_PLACE);
        for (place, name) in entries.between(from, cookie.until).take(left) {
            let Some(entry) = entries.get(name) else {
                continue;
            };
            found.push(DirEntry {
                next_cookie: cookie.after(place),
                inode: entry.inode,
                kind: self.inode(entry.inode)?.kind(),
                name: name.clone(),
            });
        }
        self.count_work(u64::try_from(found.len()).unwrap_or(u64::MAX));
        Ok(found)
    }

    /// Lists a mounted directory if it has not been listed yet. Its entries appear as if they had always existed: they
    /// are neither recorded in a journal nor charged to the workspace quota.
    pub(crate) fn ensure_listed(&mut self, dir: InodeId) -> Result<(), VfsError> {
        if matches!(
            self.inode(dir)?.body,
            Body::Directory { listed: ListingState::Whole, .. } | Body::File { .. } | Body::Symlink(_)
        ) {
            return Ok(());
        }
        let result = self.list_source(dir);
        // From now on, `child` looks up names one by one and does not try to list the directory.
        if result == Err(VfsError::MountTooLarge)
            && let Body::Directory { listed, .. } = &mut self.inode_mut(dir)?.body
        {
            *listed = ListingState::TooLarge;
        }
        result
    }

    /// Returns a mounted directory's root, the directory's path in the source, and the source.
    fn source_of_dir(&self, dir: InodeId) -> Result<SourceOf, VfsError> {
        let inode = self.inode(dir)?;
        let source = self.root(inode.root)?.source.clone();
        let (Some(at), Some(source)) = (&inode.source, source) else {
            return Err(VfsError::Io);
        };
        if self.position(dir)?.depth > self.limits.depth {
            return Err(VfsError::NameTooLong);
        }
        Ok((inode.root, Arc::from(at.path()), source))
    }

    /// Looks up a name in a mounted directory that is too large to list.
    pub(crate) fn look_up(&mut self, dir: InodeId, name: &str) -> Result<Option<InodeId>, VfsError> {
        let inode = self.inode(dir)?;
        if let Some(entry) = inode.entries().and_then(|entries| entries.get(name)) {
            return Ok(Some(entry.inode));
        }
        // The guest has removed this name, even if it still exists in the source.
        if self.root(inode.root)?.committed.has(dir, name) {
            return Ok(None);
        }
        let (root, path, source) = self.source_of_dir(dir)?;
        self.count_work(LOOK_UP_WORK);
        let found = source.stat(&join(&path, name)).map_err(|error| self.source_failed(error))?;
        let Some(stat) = found else { return Ok(None) };
        let entry = SourceEntry { name: name.to_owned(), stat };
        let Some(mut inode) = self.mounted_inode(root, &path, &entry, &*source) else {
            return Ok(None);
        };
        let name = Name::from(name);
        // The directory's path is not shared with other entries, so this inode is charged for the path.
        let charge = inode.mount_charge.unwrap_or(0).saturating_add(length(&path));
        inode.mount_charge = Some(charge);
        inode.links.push(Link { dir, name: name.clone() });
        let bytes = charge.saturating_add(entry_charge(&name));
        if self.state.usage.mount_entries >= self.limits.known_entries() || !self.make_room(bytes) {
            return Err(VfsError::MountTooLarge);
        }
        let state = Arc::make_mut(&mut self.state);
        let id = state.table.insert(inode);
        state.usage.mount_entries = state.usage.mount_entries.saturating_add(1);
        state.usage.mount_bytes = state.usage.mount_bytes.saturating_add(bytes);
        if let Body::Directory { entries, .. } = &mut self.inode_mut(dir)?.body {
            let entries = Arc::make_mut(entries);
            entries.set(&name, id, true)?;
            entries.set_base(&name, Some(Arc::new(stat)));
        }
        self.note_peak();
        Ok(Some(id))
    }

    fn list_source(&mut self, dir: InodeId) -> Result<(), VfsError> {
        let (root, path, source) = self.source_of_dir(dir)?;
        // A guest can repeat a listing that does not fit, so each repetition is charged like single lookups.
        let is_repeated = matches!(self.inode(dir)?.body, Body::Directory { listed: ListingState::TooLarge, .. });
        let entry_work = if is_repeated { LOOK_UP_WORK } else { 1 };
        let left = self.limits.mount_entries.saturating_sub(self.state.usage.mount_entries);
        let limit = usize::try_from(left).unwrap_or(usize::MAX);
        let mut listed = source.list(&path, limit).map_err(|error| self.source_failed(error))?;
        self.count_work(entry_work.saturating_mul(u64::try_from(listed.len()).unwrap_or(u64::MAX)));
        if listed.len() > limit {
            return Err(VfsError::MountTooLarge);
        }
        // The source's order may depend on the machine, so entries are sorted.
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        listed.dedup_by(|a, b| a.name == b.name);

        // The directory's entries and the journal may already contain names. These names come from a restored state
        // (see `saved`), or from lookups while the directory was too large to list.
        let retained = self.inode(dir)?.entries().cloned().unwrap_or_default();
        let journal = self.root(root)?.committed.clone();
        let mut bytes = length(&path);
        let mut inodes = Vec::new();
        for entry in listed {
            if retained.get(&entry.name).is_some() || journal.has(dir, &entry.name) {
                continue;
            }
            if let Some(mut inode) = self.mounted_inode(root, &path, &entry, &*source) {
                let name = Name::from(entry.name);
                bytes = bytes.saturating_add(entry_charge(&name)).saturating_add(inode.mount_charge.unwrap_or(0));
                inode.links.push(Link { dir, name: name.clone() });
                inodes.push((name, inode, entry.stat));
            }
        }
        if !self.make_room(bytes) {
            return Err(VfsError::MountTooLarge);
        }
        self.install(dir, length(&path), inodes, &retained)?;
        let usage = &mut Arc::make_mut(&mut self.state).usage;
        usage.mount_bytes = usage.mount_bytes.saturating_add(bytes);
        self.note_peak();
        Ok(())
    }

    fn install(
        &mut self,
        dir: InodeId,
        path_charge: u64,
        inodes: Vec<(Name, Inode, SourceStat)>,
        retained: &Entries,
    ) -> Result<(), VfsError> {
        let state = Arc::make_mut(&mut self.state);
        let mut made = Entries::default();
        for (name, inode, stat) in inodes {
            let id = state.table.insert(inode);
            made.set(&name, id, true)?;
            made.set_base(&name, Some(Arc::new(stat)));
            state.usage.mount_entries = state.usage.mount_entries.saturating_add(1);
        }
        // The retained names follow in their previous order. Their previous positions now belong to other names.
        for (_, name) in retained.between(FIRST_PLACE, retained.next_place()) {
            if let Some(entry) = retained.get(name) {
                made.set(name, entry.inode, entry.mounted)?;
                made.set_base(name, entry.base.clone());
            }
        }
        let inode = self.inode_mut(dir)?;
        if let Some(charge) = &mut inode.mount_charge {
            *charge = charge.saturating_add(path_charge);
        }
        inode.body = Body::Directory { entries: Arc::new(made), listed: ListingState::Whole };
        Ok(())
    }

    /// Returns the inode for an entry of a source, or `None` if the entry cannot be shown.
    fn mounted_inode(
        &self,
        root: RootId,
        dir: &Arc<str>,
        entry: &SourceEntry,
        source: &dyn MountSource,
    ) -> Option<Inode> {
        let name = &entry.name;
        let shown = !name.is_empty()
            && name != "."
            && name != ".."
            && name.len() <= self.limits.name_bytes
            && !name.contains(['/', '\0']);
        if !shown {
            return None;
        }
        let mut charge = INODE_BYTES;
        let body = match entry.stat.kind {
            FileKind::File => Body::File { size_bytes: entry.stat.size_bytes, content: Content::Mounted },
            FileKind::Directory => Body::Directory { entries: Arc::default(), listed: ListingState::NotYet },
            FileKind::Symlink => {
                let target = source.read_link(&join(dir, name)).ok()?;
                charge = charge.saturating_add(length(&target));
                Body::Symlink(Arc::from(target))
            }
        };
        let mut inode = Inode::new(root, body, entry.stat.modified_ns);
        inode.mount_charge = Some(charge);
        inode.source = Some(Arc::new(SourcePath { dir: dir.clone(), name: Name::from(name.as_str()) }));
        Some(inode)
    }
}
