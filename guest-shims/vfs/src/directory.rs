//! The entries of a directory, by name and in a stable order.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    error::VfsError,
    inode::{FileKind, InodeId, Name},
    mount::SourceStat,
};

/// A directory entry, in the view of a guest or the embedder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirEntry {
    /// The cookie that continues after this entry (`d_next`).
    pub next_cookie: u64,
    /// The inode of the entry.
    pub inode: InodeId,
    /// The type of the inode.
    pub kind: FileKind,
    /// The name of the entry.
    pub name: Name,
}

/// The first place of an entry. Places 1 and 2 are `.` and `..`; 0 is the start.
pub(crate) const FIRST_PLACE: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) inode: InodeId,
    /// The position in the listing, for as long as the name exists.
    pub(crate) place: u32,
    /// `true` if the name came from a mount, which it is charged to.
    pub(crate) mounted: bool,
    /// The source's stat under this name when it was listed or last committed. It belongs to the name rather than the
    /// inode, because hard links are separate files in the source.
    pub(crate) base: Option<Arc<SourceStat>>,
}

/// A directory's entries. A new name goes to the end; places are never reused.
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

    /// Iterates in ascending order of names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.by_name.iter()
    }

    /// Returns the place that the next new name gets.
    pub(crate) fn next_place(&self) -> u32 {
        self.next_place
    }

    /// Iterates over the names at the places from `from` to `until`, exclusive.
    pub(crate) fn between(&self, from: u32, until: u32) -> impl Iterator<Item = (u32, &Name)> {
        self.by_place.range(from..until.max(from)).map(|(&place, name)| (place, name))
    }

    /// Points a name at an inode. An existing name keeps its place, so that a listing in progress returns it exactly
    /// once. Fails after 2^32 names, which takes hours of fuel.
    pub(crate) fn set(&mut self, name: &Name, inode: InodeId, mounted: bool) -> Result<(), VfsError> {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.inode = inode;
            entry.mounted = mounted;
            entry.base = None;
            return Ok(());
        }
        if self.set_at(name, inode, self.next_place, mounted) { Ok(()) } else { Err(VfsError::NoSpace) }
    }

    /// Inserts a new name at a place after all existing ones. Returns false and changes nothing if the name exists or
    /// the place is invalid.
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

    /// Leaves places unused before the next new name.
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
