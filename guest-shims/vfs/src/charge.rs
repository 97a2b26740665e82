//! The charge for an inode.

use crate::inode::{Body, Content, Inode};
use crate::limits::{INODE_BYTES, data_charge, length};

/// Returns the workspace's charge for one inode, without its names. No other function computes it, neither for creating
/// nor for freeing an inode.
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
