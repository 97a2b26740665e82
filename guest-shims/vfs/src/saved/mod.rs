//! A file system as bytes, which can be restored in another process.
//!
//! A root without a source is saved completely. For a mount, only the differences from its source are saved. A restored
//! directory is *not listed* but has entries; the next access lists the source and then applies these entries (see
//! `listing.rs`). Directories below a changed name cannot be listed by their path and are saved completely.
//!
//! The layout, in the notation of [`encoding`](crate::encoding):
//!
//! ```text
//! version, now_ns, next inode, roots { mounted?, inode, journal }, inodes { ascending id, flags, root, times, body }
//! journal: { ascending directory id, { ascending name, previous target } }
//! ```
//!
//! Links, usage, the listing state of directories and their source paths are derived, and therefore not saved.

mod decode;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::{
    changes::Journal,
    encoding::{DecodeError, Encoder},
    entries::{Entries, Entry, FIRST_PLACE},
    inode::{Body, Content, FileKind, Inode, InodeId},
    mount::SourceStat,
    vfs::{Root, Vfs},
};

/// The first byte, which identifies the version of the layout.
const VERSION: u8 = 2;

/// Upper bound of saved inode numbers. The bound leaves enough numbers for new files, and prevents overflow in sums.
const MAX_INODES: u64 = 1 << 48;

// The type of an inode, in the low bits of its flags.
const PRIVATE: u8 = 0;
const MOUNTED: u8 = 1;
const GONE: u8 = 2;
const DIRECTORY: u8 = 3;
const SYMLINK: u8 = 4;
const KIND: u8 = 7;
/// The file was written after the last commit.
const WRITTEN: u8 = 8;
/// The inode came from the mount and is charged to the mount.
const CHARGED_TO_MOUNT: u8 = 16;

/// Errors from restoring saved bytes. The file system is unchanged.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes do not encode a saved file system.
    #[error(transparent)]
    Damaged(#[from] DecodeError),
    /// The bytes were saved with another version of the layout.
    #[error("the file system was saved with layout version {0}; restore it with the release that saved it")]
    Version(u8),
    /// The roots differ from the saved ones.
    #[error("the file system was saved with different mounts; restore it with the same mounts in the same order")]
    OtherRoots,
    /// A read-only mount has uncommitted changes.
    #[error("a mount has uncommitted changes and is now read-only; mount it read-write, or discard the changes")]
    ReadOnly,
    /// The saved state exceeds a limit.
    #[error("the saved state exceeds the limit `{0}`; raise the limit")]
    Limit(
        /// The name of the field in [`VfsLimits`](crate::VfsLimits), or `memory` for the ceiling set by
        /// [`Vfs::set_available_bytes`](crate::Vfs::set_available_bytes).
        &'static str,
    ),
}

/// The saved inodes of a mount. `true` means that only the recorded entries of the inode are saved.
type ReachableInodes = BTreeMap<InodeId, bool>;

impl Vfs {
    /// Encodes the roots and their content for [`restore`](Self::restore). Equal file systems produce equal bytes.
    ///
    /// `open` contains the inodes that the guest has open; an inode without a name is saved only if it is one of them.
    /// For a root with a source, only uncommitted changes and open files are saved. All other data is read again from
    /// the source, including times that were set on otherwise unchanged files. Quotas, sources, access, references and
    /// the start of the current [`mark`](Self::mark) period are not saved.
    pub fn save(&self, open: &BTreeSet<InodeId>) -> Vec<u8> {
        let mut to = Encoder::new();
        to.byte(VERSION);
        to.fixed(self.now_ns);
        to.number(self.state.table.next());
        to.length(self.state.roots.len());
        let mut reached = ReachableInodes::new();
        for root in &self.state.roots {
            to.byte(u8::from(root.source.is_some()));
            to.number(root.dir.0);
            encode_journal(&mut to, &root.committed);
            if root.source.is_some() {
                self.reach(&mut reached, root, open);
            }
        }
        let mut last = 0;
        for (id, inode) in self.state.table.iter() {
            let Ok(root) = self.root(inode.root) else { continue };
            let alive = !inode.links.is_empty() || root.dir == id || open.contains(&id);
            let (saved, overlay) = match reached.get(&id) {
                Some(&overlay) => (true, overlay),
                None => (root.source.is_none(), false),
            };
            if alive && saved {
                to.number(id.0.saturating_sub(last));
                last = id.0;
                let overlay = overlay.then_some(&reached);
                self.encode_inode(&mut to, id, inode, root, overlay);
            }
        }
        to.number(0);
        to.finish()
    }

    /// Collects the inodes of a mount that must be saved: written and open inodes, the targets of changed names with
    /// everything below them, and the directories on the paths to all of these inodes.
    fn reach(&self, reached: &mut ReachableInodes, root: &Root, open: &BTreeSet<InodeId>) {
        let journal = &root.committed;
        let mut left = vec![root.dir];
        left.extend(open.iter().chain(&journal.written).chain(journal.dirs.keys()).copied());
        for (&dir, names) in &journal.dirs {
            let entries = self.inode(dir).ok().and_then(Inode::entries);
            left.extend(names.keys().filter_map(|name| entries?.get(name)).map(|entry| entry.inode));
        }
        while let Some(id) = left.pop() {
            let Ok(inode) = self.inode(id) else { continue };
            if reached.contains_key(&id) || self.root(inode.root).map(|root| root.dir) != Ok(root.dir) {
                continue;
            }
            left.extend(inode.links.iter().map(|link| link.dir));
            let overlay = inode.kind() == FileKind::Directory && self.unchanged_path(journal, id).is_some();
            if !overlay {
                left.extend(inode.entries().into_iter().flat_map(Entries::iter).map(|(_, entry)| entry.inode));
            }
            reached.insert(id, overlay);
        }
    }

    /// Encodes an inode. With `overlay`, only entries in the overlay are encoded, and the source supplies all other
    /// entries.
    fn encode_inode(
        &self,
        to: &mut Encoder,
        id: InodeId,
        inode: &Inode,
        root: &Root,
        overlay: Option<&ReachableInodes>,
    ) {
        let mut flags = match &inode.body {
            Body::File { content: Content::Private(_), .. } => PRIVATE,
            Body::File { content: Content::Mounted, .. } => MOUNTED,
            Body::File { content: Content::Gone, .. } => GONE,
            Body::Directory { .. } => DIRECTORY,
            Body::Symlink(_) => SYMLINK,
        };
        if root.committed.written.contains(&id) {
            flags |= WRITTEN;
        }
        // After a commit, the source contains directories that were created here.
        if inode.mount_charge.is_some() || (overlay.is_some() && id != root.dir) {
            flags |= CHARGED_TO_MOUNT;
        }
        to.byte(flags);
        to.number(u64::from(inode.root.0));
        for time_ns in [inode.times.accessed_ns, inode.times.modified_ns, inode.times.changed_ns] {
            to.fixed(time_ns);
        }
        match &inode.body {
            Body::File { size_bytes, content } => {
                to.number(*size_bytes);
                match content {
                    Content::Private(chunks) => chunks.encode(to, *size_bytes),
                    Content::Mounted => to.text(&inode.source.as_ref().map(|at| at.path()).unwrap_or_default()),
                    Content::Gone => {}
                }
            }
            Body::Directory { entries, .. } => self.encode_entries(to, id, entries, overlay),
            Body::Symlink(target) => to.text(target),
        }
    }

    fn encode_entries(&self, to: &mut Encoder, dir: InodeId, entries: &Entries, overlay: Option<&ReachableInodes>) {
        let all = entries.between(FIRST_PLACE, entries.next_place());
        let all = all.filter_map(|(place, name)| entries.get(name).map(|entry| (place, name, entry)));
        let written: Vec<_> =
            all.filter(|(.., entry)| overlay.is_none_or(|reached| reached.contains_key(&entry.inode))).collect();
        to.length(written.len());
        let mut next = FIRST_PLACE;
        for (place, name, entry) in written {
            // The positions of an overlay's entries are unknown until the source is listed.
            let place = if overlay.is_some() { next } else { place };
            to.number(u64::from(place.saturating_sub(next)));
            next = place.saturating_add(1);
            to.text(name);
            to.number(entry.inode.0);
            to.length(self.link_index(dir, name, entry));
            encode_base(to, entry.base.as_deref());
        }
        let free = if overlay.is_some() { next } else { entries.next_place() };
        to.number(u64::from(free.saturating_sub(next)));
    }

    /// Returns the index of a name among the inode's names. The order of the names determines which name is reported as
    /// the inode's path.
    fn link_index(&self, dir: InodeId, name: &str, entry: &Entry) -> usize {
        let links = self.inode(entry.inode).map(|inode| inode.links.as_slice()).unwrap_or_default();
        links.iter().position(|link| link.dir == dir && &*link.name == name).unwrap_or_default()
    }
}

fn encode_journal(to: &mut Encoder, journal: &Journal) {
    to.length(journal.dirs.len());
    let mut last = 0;
    for (dir, names) in &journal.dirs {
        to.number(dir.0.saturating_sub(last));
        last = dir.0;
        to.length(names.len());
        for (name, was) in names {
            to.text(name);
            match was {
                None => to.byte(0),
                Some(was) => {
                    to.byte(kind_byte(was.kind));
                    to.number(was.inode.0);
                    encode_base(to, was.base.as_deref());
                }
            }
        }
    }
}

fn encode_base(to: &mut Encoder, base: Option<&SourceStat>) {
    let Some(base) = base else { return to.byte(0) };
    to.byte(kind_byte(base.kind));
    to.number(base.size_bytes);
    to.fixed(base.modified_ns);
    to.fixed(base.changed_ns);
    to.number(base.identity.device);
    to.number(base.identity.inode);
}

/// Encodes an inode type. 0 means that there is no inode.
fn kind_byte(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => 1,
        FileKind::Directory => 2,
        FileKind::Symlink => 3,
    }
}
