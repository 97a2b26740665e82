//! Whole new trees. Their fingerprints prevent undoing from discarding the host's additions. Also syncs trees file by
//! file on systems that cannot sync a whole file system.

use std::io;

use sha2::{Digest as _, Sha256};

use super::error::MountError;
use super::folder::{Folder, Found, Ident, Kind};
use super::journal;
use super::walk::Walker;

/// An entry of a tree.
struct Entry<'a> {
    folder: &'a Folder,
    /// Names of the parent directories, from the top.
    path: &'a [String],
    name: &'a str,
    ident: Ident,
}

/// Calls `show` for each entry below `top`, in no order and without recursion. Returns the number of entries, including
/// those that a commit cannot have written and that are not shown.
fn visit(top: &Folder, mut show: impl FnMut(Entry<'_>) -> io::Result<()>) -> io::Result<u64> {
    let mut walker = Walker::new(top);
    let mut pending: Vec<Vec<String>> = vec![Vec::new()];
    let mut count = 0_u64;
    while let Some(path) = pending.pop() {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let folder = walker.enter(&names)?;
        for name in folder.names()? {
            count += 1;
            let Some(name) = name? else { continue };
            let Found::Known(ident) = folder.find(&name)? else {
                continue;
            };
            show(Entry { folder, path: &path, name: &name, ident })?;
            if ident.kind == Kind::Folder {
                let mut below = path.clone();
                below.push(name);
                pending.push(below);
            }
        }
    }
    Ok(count)
}

/// Fingerprints the tree below the directory `name`: each entry's path and identity, combined independently of the
/// order of listing.
pub(super) fn fingerprint(parent: &Folder, name: &str) -> Result<String, MountError> {
    let failed = || MountError::io("list", name);
    let top = parent.child(name).map_err(failed())?;
    let mut sum = [0_u8; 32];
    let count = visit(&top, |entry| {
        let mut hasher = Sha256::new();
        for name in entry.path {
            hasher.update(name);
            hasher.update([0]);
        }
        hasher.update(entry.name);
        hasher.update([0]);
        hasher.update(entry.ident.inode.to_le_bytes());
        if entry.ident.kind != Kind::Folder {
            hasher.update(entry.ident.size_bytes.to_le_bytes());
            hasher.update(entry.ident.modified_s.to_le_bytes());
            hasher.update(entry.ident.modified_ns.to_le_bytes());
        }
        for (total, byte) in sum.iter_mut().zip(hasher.finalize()) {
            *total ^= byte;
        }
        Ok(())
    });
    let mut whole = sum.to_vec();
    whole.extend_from_slice(&count.map_err(failed())?.to_le_bytes());
    Ok(journal::sha256_hex(&whole))
}

/// Syncs every file and directory below `top`.
pub(super) fn sync(top: &Folder) -> io::Result<()> {
    visit(top, |entry| match entry.ident.kind {
        Kind::File => entry.folder.open_file(entry.name)?.0.sync_all(),
        Kind::Folder => entry.folder.child(entry.name)?.sync(),
        Kind::Link => Ok(()),
    })
    .map(|_| ())
}

/// Syncs every directory below `top`.
pub(super) fn sync_folders(top: &Folder) -> io::Result<()> {
    visit(top, |entry| match entry.ident.kind {
        Kind::Folder => entry.folder.child(entry.name)?.sync(),
        Kind::File | Kind::Link => Ok(()),
    })
    .map(|_| ())
}
