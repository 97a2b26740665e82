//! Whole new trees, their fingerprints and the contents of new files.
//!
//! Fingerprints prevent undoing from discarding the host's additions. On systems that cannot sync a whole file system,
//! trees are synced file by file. Directories are opened by relative path, without following links and without
//! recursion.

use std::io;

use glovebox_vfs::{InodeId, Vfs, VfsError};
use sha2::{Digest as _, Sha256};

use super::{
    error::MountError,
    folder::{EntryAt, EntryKind, Folder, Ident, is_single_name},
    journal,
};

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
            let EntryAt::Known(ident) = folder.find(&name)? else {
                continue;
            };
            show(Entry { folder, path: &path, name: &name, ident })?;
            if ident.kind == EntryKind::Folder {
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
        if entry.ident.kind != EntryKind::Folder {
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
        EntryKind::File => entry.folder.open_file(entry.name)?.0.sync_all(),
        EntryKind::Folder => entry.folder.child(entry.name)?.sync(),
        EntryKind::Link => Ok(()),
    })
    .map(|_| ())
}

/// Syncs every directory below `top`.
pub(super) fn sync_folders(top: &Folder) -> io::Result<()> {
    visit(top, |entry| match entry.ident.kind {
        EntryKind::Folder => entry.folder.child(entry.name)?.sync(),
        EntryKind::File | EntryKind::Link => Ok(()),
    })
    .map(|_| ())
}

/// The source of the contents of written files.
pub trait Contents {
    /// Reads up to `into.len()` bytes of a file at an offset. Returns the number of bytes; 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// Fails if the contents are unavailable. The commit then fails, too, and changes nothing.
    fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError>;
}

impl Contents for Vfs {
    fn read_at(&mut self, inode: InodeId, offset: u64, into: &mut [u8]) -> Result<usize, VfsError> {
        Self::read_at(self, inode, offset, into)
    }
}

/// The walker keeps a handle open every `STRIDE` levels. Going back up a deep tree then costs at most `STRIDE` lookups,
/// and never more than [`MAX_DEPTH`] / `STRIDE` + 1 descriptors.
const STRIDE: usize = 32;

/// Maximum depth of a directory. With [`STRIDE`] that is about 128 descriptors, far below the usual limit of 1,024.
const MAX_DEPTH: usize = 4096;

/// Splits a path relative to the mount into its names. `""` and `"."` are the mount itself.
pub(super) fn split(path: &str) -> Result<Vec<&str>, MountError> {
    if path.is_empty() || path == "." {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = path.split('/').take(MAX_DEPTH + 1).collect();
    if names.len() > MAX_DEPTH {
        return Err(MountError::TooDeep { path: path.to_owned(), limit: MAX_DEPTH });
    }
    if names.iter().all(|name| is_single_name(name)) {
        Ok(names)
    } else {
        Err(MountError::InvalidPath { path: path.to_owned() })
    }
}

/// Splits a path into the names of its parent directory and the last name. Fails for the mount itself, which has no
/// name.
pub(super) fn split_last(path: &str) -> Result<(Vec<&str>, &str), MountError> {
    let mut names = split(path)?;
    match names.pop() {
        Some(last) => Ok((names, last)),
        None => Err(MountError::InvalidPath { path: path.to_owned() }),
    }
}

/// Walks below one directory and remembers its position.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    root: &'a Folder,
    /// Open ancestors of `at`, by depth; the last may be `at` itself.
    open: Vec<(usize, Folder)>,
    at: Vec<String>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(root: &'a Folder) -> Self {
        Self { root, open: Vec::new(), at: Vec::new() }
    }

    /// Opens the directory with these names, one below the other.
    pub(super) fn enter(&mut self, names: &[&str]) -> io::Result<&Folder> {
        let common = self.at.iter().zip(names).take_while(|(have, want)| have == *want).count();
        while self.open.last().is_some_and(|(depth, _)| *depth > common) {
            self.open.pop();
        }
        self.at.truncate(common);
        let mut depth = self.open.last().map_or(0, |(depth, _)| *depth);
        self.at.truncate(depth);
        for name in names.iter().skip(depth) {
            let next = self.open.last().map_or(self.root, |(_, f)| f).child(name)?;
            if !depth.is_multiple_of(STRIDE) {
                self.open.pop();
            }
            depth += 1;
            self.open.push((depth, next));
            self.at.push((*name).to_owned());
        }
        Ok(self.open.last().map_or(self.root, |(_, folder)| folder))
    }

    /// Closes all handles except the root's: directories may have been moved.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.at.clear();
    }
}
