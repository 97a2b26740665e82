//! Tests of hostile and unusual operations on a file system, one hazard per test.

mod changes;
mod files;
mod forged;
mod links;
mod mounts;
mod paths;
mod quotas;
mod saved;

use glovebox_vfs::{Access, InodeId, OpenOptions, RootId, Vfs, VfsError, VfsLimits};

/// Returns a file system with one writable root.
fn fresh() -> (Vfs, RootId, InodeId) {
    with_limits(VfsLimits::default())
}

fn with_limits(limits: VfsLimits) -> (Vfs, RootId, InodeId) {
    let mut vfs = Vfs::new(limits);
    let root = vfs.add_root(Access::ReadWrite);
    let dir = vfs.root_dir(root).unwrap();
    (vfs, root, dir)
}

const CREATE: OpenOptions = OpenOptions {
    follow: glovebox_vfs::Follow::Yes,
    create: true,
    exclusive: false,
    truncate: false,
    directory: false,
    write: true,
};

/// Creates an empty file without leaving it open.
fn touch(vfs: &mut Vfs, at: InodeId, path: &str) -> Result<InodeId, VfsError> {
    let opened = vfs.open(at, path.as_bytes(), CREATE)?;
    vfs.release(opened.inode);
    Ok(opened.inode)
}
