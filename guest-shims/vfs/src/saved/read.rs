//! The decoded parts of a saved file system.

use super::RestoreError;
use crate::ids::InodeId;
use crate::inode::Link;
use crate::limits::Usage;
use crate::table::Table;
use crate::vfs::{Root, Vfs};

/// The decoded state, before its consistency is checked.
pub(super) struct Read {
    pub(super) table: Table,
    pub(super) roots: Vec<Root>,
    /// All names: the inode, the index of this name among the inode's names, and the name.
    pub(super) names: Vec<(InodeId, usize, Link)>,
}

/// Checks the usage against the limits. As in a running file system, remembered deletions may exceed the quota, because
/// a deletion must always be possible.
pub(super) fn check_usage(usage: &Usage, vfs: &Vfs) -> Result<(), RestoreError> {
    let limits = &vfs.limits;
    for (used, limit, name) in [
        (usage.workspace_bytes, limits.bytes, "bytes"),
        (usage.inodes, limits.inodes, "inodes"),
        (usage.mount_entries, limits.known_entries(), "mount_entries"),
        (usage.total_bytes(), vfs.available_bytes, "memory"),
    ] {
        if used > limit {
            return Err(RestoreError::Limit(name));
        }
    }
    Ok(())
}
