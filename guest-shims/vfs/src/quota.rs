//! Usage, quotas, and eviction of the cache.

use std::sync::Arc;

use crate::error::VfsError;

use crate::vfs::Vfs;

impl Vfs {
    /// Returns the bytes charged now: file contents in whole chunks, names, inodes, remembered deletions, entries of
    /// mounted directories, and the mount cache.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.state.usage.total_bytes().saturating_add(self.cache.bytes())
    }

    /// Returns the highest [`bytes_used`](Self::bytes_used) since the start or the last
    /// [`reset_peak`](Self::reset_peak).
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.max(self.bytes_used())
    }

    /// Restarts the measurement of the peak from the current usage.
    pub fn reset_peak(&mut self) {
        self.peak_bytes = self.bytes_used();
    }

    /// Returns the current count against [`VfsLimits::inodes`](crate::VfsLimits::inodes).
    #[must_use]
    pub fn inodes_used(&self) -> u64 {
        self.state.usage.inodes
    }

    /// Sets a ceiling on [`bytes_used`](Self::bytes_used), in addition to the quotas, for an embedder that shares its
    /// memory with something else. Default: none. The mount cache shrinks at once. Other usage above the ceiling stays,
    /// and only growth is refused.
    pub fn set_available_bytes(&mut self, ceiling_bytes: u64) {
        self.available_bytes = ceiling_bytes;
        let bound = self.cache_bound();
        if self.cache.bytes() > bound {
            Arc::make_mut(&mut self.cache).shrink(bound);
        }
    }

    /// Returns the current bound of the cache.
    pub(crate) fn cache_bound(&self) -> u64 {
        self.available_bytes.saturating_sub(self.state.usage.total_bytes()).min(self.limits.mount_cache_bytes)
    }

    /// Ensures that `bytes` and `inodes` more can be charged to the workspace. Evicts from the cache if needed.
    pub(crate) fn reserve(&mut self, bytes: u64, inodes: u64) -> Result<(), VfsError> {
        if bytes == 0 && inodes == 0 {
            return Ok(());
        }
        let usage = &self.state.usage;
        let workspace = usage.workspace_bytes.saturating_add(usage.tombstone_bytes).saturating_add(bytes);
        if workspace > self.limits.bytes
            || usage.inodes.saturating_add(inodes) > self.limits.inodes
            || !self.make_room(bytes)
        {
            return Err(VfsError::NoSpace);
        }
        Ok(())
    }

    /// Ensures that `bytes` more fit below the ceiling. Evicts from the cache if needed.
    pub(crate) fn make_room(&mut self, bytes: u64) -> bool {
        let total = self.state.usage.total_bytes().saturating_add(bytes);
        if total > self.available_bytes {
            return false;
        }
        let left = self.available_bytes.saturating_sub(total);
        if self.cache.bytes() > left {
            Arc::make_mut(&mut self.cache).shrink(left);
        }
        true
    }

    /// Updates the peak. Call it after anything that increases [`bytes_used`](Self::bytes_used).
    pub(crate) fn note_peak(&mut self) {
        self.peak_bytes = self.peak_bytes();
    }
}
