//! Cache of recently read pieces of mounted files.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::InodeId;

/// Charge per piece in addition to its bytes, for the two maps.
const ENTRY_OVERHEAD_BYTES: u64 = 192;

/// An inode and the number of a piece in it.
type Key = (InodeId, u64);

#[derive(Clone, Debug)]
struct Piece {
    used: u64,
    data: Arc<[u8]>,
}

/// Evicts the least recently used piece first. The owner sets the bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountCache {
    pieces: BTreeMap<Key, Piece>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: u64,
}

fn cost(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX).saturating_add(ENTRY_OVERHEAD_BYTES)
}

impl MountCache {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether a piece of this length fits the bound.
    pub(crate) fn fits(len: u64, bound_bytes: u64) -> bool {
        len.saturating_add(ENTRY_OVERHEAD_BYTES) <= bound_bytes
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<Arc<[u8]>> {
        let piece = self.pieces.get_mut(&key)?;
        self.by_use.remove(&piece.used);
        self.uses = self.uses.saturating_add(1);
        piece.used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(piece.data.clone())
    }

    /// Inserts a piece and evicts others first, so that the cache never exceeds the bound.
    pub(crate) fn insert(&mut self, key: Key, data: Arc<[u8]>, bound_bytes: u64) {
        let cost = cost(&data);
        if cost > bound_bytes {
            return;
        }
        self.remove(key);
        self.shrink(bound_bytes.saturating_sub(cost));
        self.uses = self.uses.saturating_add(1);
        self.by_use.insert(self.uses, key);
        self.bytes = self.bytes.saturating_add(cost);
        let used = self.uses;
        self.pieces.insert(key, Piece { used, data });
    }

    pub(crate) fn shrink(&mut self, bound_bytes: u64) {
        while self.bytes > bound_bytes {
            let Some((_, key)) = self.by_use.pop_first() else {
                return;
            };
            self.remove(key);
        }
    }

    pub(crate) fn has(&self, inode: InodeId) -> bool {
        self.pieces.range((inode, 0)..=(inode, u64::MAX)).next().is_some()
    }

    /// Drops every piece of a file.
    pub(crate) fn forget(&mut self, inode: InodeId) {
        while let Some((&key, _)) = self.pieces.range((inode, 0)..=(inode, u64::MAX)).next() {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(piece) = self.pieces.remove(&key) {
            self.by_use.remove(&piece.used);
            self.bytes = self.bytes.saturating_sub(cost(&piece.data));
        }
    }
}
