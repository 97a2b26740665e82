//! What an inode is charged.

use crate::inode::{Body, Content, Inode};
use crate::limits::{INODE_BYTES, data_charge, length};

/// The workspace's charge for one inode, its names excepted. The only place that computes it, both when the inode is
/// created and when it is freed.
pub(crate) fn workspace_charge(inode: &Inode) -> u64 {
    let own = match (&inode.body, inode.mount_charge) {
        (_, Some(_)) => 0,
        (Body::Symlink(target), None) => INODE_BYTES.saturating_add(length(target)),
        (Body::File { .. } | Body::Directory { .. }, None) => INODE_BYTES,
    };
    match &inode.body {
        Body::File { size_bytes, content: Content::Private(_) } => own.saturating_add(data_charge(*size_bytes)),
        Body::File { .. } | Body::Directory { .. } | Body::Symlink(_) => own,
    }
}
