//! Files, directories and symlinks, and their public ids.

use std::sync::Arc;

use crate::content::Chunks;
use crate::directory::Entries;
use crate::ids::{FileKind, InodeId, Name, RootId};

/// The attributes of an inode. Times are nanoseconds since 1970, by the embedder's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stat {
    /// The inode with these attributes.
    pub inode: InodeId,
    /// The root that contains it.
    pub root: RootId,
    /// The type of the inode.
    pub kind: FileKind,
    /// The number of names: 0 when removed but open. Always 1 for a directory, which by convention means that its
    /// subdirectories are not counted.
    pub links: u64,
    /// Length of a file, or of a symlink's target; 0 for a directory.
    pub size_bytes: u64,
    /// Last access: creation, or the last [`set_times`](crate::Vfs::set_times). Reading does not change it.
    pub accessed_ns: u64,
    /// Last change of the content.
    pub modified_ns: u64,
    /// Last change of the content or of the attributes.
    pub changed_ns: u64,
}

/// The three times of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) accessed_ns: u64,
    pub(crate) modified_ns: u64,
    pub(crate) changed_ns: u64,
}

impl Times {
    pub(crate) fn at(now_ns: u64) -> Self {
        Self { accessed_ns: now_ns, modified_ns: now_ns, changed_ns: now_ns }
    }
}

/// A name of an inode.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) dir: InodeId,
    pub(crate) name: Name,
}

/// The path of an inode in a mount's source, which may differ from its path in the guest.
#[derive(Clone, Debug)]
pub(crate) struct SourcePath {
    /// The directory, shared by all of its entries.
    pub(crate) dir: Arc<str>,
    pub(crate) name: Name,
}

impl SourcePath {
    pub(crate) fn path(&self) -> String {
        join(&self.dir, &self.name)
    }
}

/// Returns the path of an entry of a directory, where `""` is the root.
pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) root: RootId,
    pub(crate) body: Body,
    /// The names: at most one for a directory, none for a root or a removed inode that is still open.
    pub(crate) links: Vec<Link>,
    pub(crate) times: Times,
    /// The charge to the mount if the inode came from a mount. Otherwise the workspace is charged.
    pub(crate) mount_charge: Option<u64>,
    pub(crate) source: Option<Arc<SourcePath>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    File { size_bytes: u64, content: Content },
    Directory { entries: Arc<Entries>, listed: Listed },
    Symlink(Arc<str>),
}

/// The extent to which a directory's entries are loaded from the source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Listed {
    /// All entries are loaded.
    Whole,
    /// The directory has not been listed. Some entries of a restored directory may be loaded.
    NotYet,
    /// The directory has too many entries to list. Those that were looked up are loaded.
    TooLarge,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// In memory.
    Private(Arc<Chunks>),
    /// In the source, at its path in the source.
    Mounted,
    /// A commit removed the file from the source while it was open.
    Gone,
}

impl Body {
    pub(crate) fn empty_file() -> Self {
        Self::File { size_bytes: 0, content: Content::Private(Arc::default()) }
    }

    pub(crate) fn empty_directory() -> Self {
        Self::Directory { entries: Arc::default(), listed: Listed::Whole }
    }
}

impl Inode {
    pub(crate) fn new(root: RootId, body: Body, now_ns: u64) -> Self {
        Self { root, body, links: Vec::new(), times: Times::at(now_ns), mount_charge: None, source: None }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self.body {
            Body::File { .. } => FileKind::File,
            Body::Directory { .. } => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
        }
    }

    /// Returns the entries of a directory that has been listed.
    pub(crate) fn entries(&self) -> Option<&Entries> {
        match &self.body {
            Body::Directory { entries, .. } => Some(entries),
            Body::File { .. } | Body::Symlink(_) => None,
        }
    }
}
