//! The inodes of a file system, in pages that forks share.

use std::{collections::BTreeMap, sync::Arc};

use crate::inode::{Inode, InodeId};

/// Inodes per page: small enough for a cheap copy after a fork, large enough for a small map of pages.
const PAGE_LEN: u64 = 32;

#[derive(Clone, Debug, Default)]
struct Page {
    slots: [Option<Arc<Inode>>; 32],
    live_count: u32,
}

/// A flat table. Dropping it never recurses, regardless of the shape of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pages: BTreeMap<u64, Arc<Page>>,
    next: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            pages: BTreeMap::new(),
            // Many programs take 0 for "no inode".
            next: 1,
        }
    }
}

fn locate(id: InodeId) -> (u64, usize) {
    (id.0 / PAGE_LEN, usize::try_from(id.0 % PAGE_LEN).unwrap_or(0))
}

impl Table {
    pub(crate) fn get(&self, id: InodeId) -> Option<&Inode> {
        let (page, slot) = locate(id);
        self.pages.get(&page)?.slots.get(slot)?.as_deref()
    }

    /// Returns an inode for a change. Copies the page and the inode if a fork shares them.
    pub(crate) fn get_mut(&mut self, id: InodeId) -> Option<&mut Inode> {
        let (page, slot) = locate(id);
        let page = self.pages.get_mut(&page)?;
        Arc::make_mut(page).slots.get_mut(slot)?.as_mut().map(Arc::make_mut)
    }

    /// Iterates over all inodes, in ascending order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (InodeId, &Inode)> {
        self.pages.iter().flat_map(|(page, slots)| {
            let first = page.saturating_mul(PAGE_LEN);
            let numbered = (first..).map(InodeId).zip(&slots.slots);
            numbered.filter_map(|(id, slot)| slot.as_deref().map(|inode| (id, inode)))
        })
    }

    /// Returns the number of the next inode.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Sets the number of the next inode, which must be above all existing ones.
    pub(crate) fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    pub(crate) fn insert(&mut self, inode: Inode) -> InodeId {
        let id = InodeId(self.next);
        self.next = self.next.saturating_add(1);
        self.insert_at(id, inode);
        id
    }

    /// Inserts an inode under an unused number.
    pub(crate) fn insert_at(&mut self, id: InodeId, inode: Inode) {
        let (page, slot) = locate(id);
        let page = Arc::make_mut(self.pages.entry(page).or_default());
        if let Some(slot) = page.slots.get_mut(slot) {
            *slot = Some(Arc::new(inode));
            page.live_count = page.live_count.saturating_add(1);
        }
    }

    pub(crate) fn remove(&mut self, id: InodeId) {
        let (page_number, slot) = locate(id);
        let Some(page) = self.pages.get_mut(&page_number) else {
            return;
        };
        let page = Arc::make_mut(page);
        if let Some(slot) = page.slots.get_mut(slot)
            && slot.take().is_some()
        {
            page.live_count = page.live_count.saturating_sub(1);
        }
        if page.live_count == 0 {
            self.pages.remove(&page_number);
        }
    }
}
