//! Files, directories and symlinks: their IDs, their attributes, and the table of inodes, whose pages forks share.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    entries::Entries,
    files::Chunks,
    limits::{VfsError, length},
    vfs::Vfs,
};

/// The attributes of an inode. Times are nanoseconds since 1970 on the embedder's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stat {
    /// The inode that these attributes describe.
    pub inode: InodeId,
    /// The root that contains the inode.
    pub root: RootId,
    /// The type of the inode.
    pub kind: FileKind,
    /// The number of names: 0 for an inode that was removed but is open, and 1 for every directory with a name. By
    /// convention, 1 means that the subdirectories of a directory are not counted.
    pub links: u64,
    /// The length in bytes of a file or of a symlink's target; 0 for a directory.
    pub size_bytes: u64,
    /// The access time, which is set at creation and by [`set_times`](crate::Vfs::set_times). Reading does not change
    /// this time.
    pub accessed_ns: u64,
    /// The time of the last change to the content.
    pub modified_ns: u64,
    /// The time of the last change to the content or attributes.
    pub changed_ns: u64,
}

/// The access, modification and change times of an inode.
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

/// An inode's path in the source of a mount, which may differ from the path that the guest sees.
#[derive(Clone, Debug)]
pub(crate) struct SourcePath {
    /// The path of the directory, shared by all of its entries.
    pub(crate) dir: Arc<str>,
    pub(crate) name: Name,
}

impl SourcePath {
    pub(crate) fn path(&self) -> String {
        join(&self.dir, &self.name)
    }
}

/// Returns the path of an entry in a directory. `""` is the root.
pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) root: RootId,
    pub(crate) body: Body,
    /// The names: at most one for a directory, none for a root or for a removed inode that is still open.
    pub(crate) links: Vec<Link>,
    pub(crate) times: Times,
    /// The charge to the mount, if the inode came from a mount. Otherwise the workspace is charged.
    pub(crate) mount_charge: Option<u64>,
    pub(crate) source: Option<Arc<SourcePath>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    File { size_bytes: u64, content: Content },
    Directory { entries: Arc<Entries>, listed: ListingState },
    Symlink(Arc<str>),
}

/// The extent to which a directory's entries are loaded from the source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ListingState {
    /// All entries are loaded.
    Whole,
    /// The directory has not been listed. Some entries may be loaded if the directory was restored.
    NotYet,
    /// The directory has too many entries to list. Only entries that were looked up are loaded.
    TooLarge,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The content is in memory.
    Private(Arc<Chunks>),
    /// The content is in the source, at the inode's source path.
    Mounted,
    /// The content is unavailable: a commit removed the file from the source while the file was open.
    Gone,
}

impl Body {
    pub(crate) fn empty_file() -> Self {
        Self::File { size_bytes: 0, content: Content::Private(Arc::default()) }
    }

    pub(crate) fn empty_directory() -> Self {
        Self::Directory { entries: Arc::default(), listed: ListingState::Whole }
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

    /// Returns the loaded entries of a directory; `None` for a file or symlink.
    pub(crate) fn entries(&self) -> Option<&Entries> {
        match &self.body {
            Body::Directory { entries, .. } => Some(entries),
            Body::File { .. } | Body::Symlink(_) => None,
        }
    }
}

/// A name in a directory. Clones share the text.
pub(crate) type Name = Arc<str>;

/// The ID of a file, directory or symlink in a [`Vfs`](crate::Vfs) and its forks.
///
/// Numbers are assigned in ascending order and never reused. The same operations therefore produce the same numbers
/// everywhere, and a stale ID is detected.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InodeId(pub(crate) u64);

impl InodeId {
    /// Returns the number that a guest sees as `st_ino`.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The ID of a tree in a [`Vfs`](crate::Vfs), in creation order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RootId(pub(crate) u32);

impl RootId {
    /// Returns the position among the roots, counted from 0.
    pub fn index(self) -> u32 {
        self.0
    }
}

/// The type of an inode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

impl FileKind {
    /// Returns the name of the type: `file`, `directory` or `symlink`.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
        }
    }
}

impl Vfs {
    /// Returns an inode's attributes.
    ///
    /// # Errors
    /// Returns [`VfsError::BadInode`] for a stale ID.
    pub fn stat(&self, inode: InodeId) -> Result<Stat, VfsError> {
        let found = self.inode(inode)?;
        let links = if found.kind() == FileKind::Directory {
            u64::from(self.is_linked(inode)?)
        } else {
            u64::try_from(found.links.len()).unwrap_or(u64::MAX)
        };
        let size_bytes = match &found.body {
            Body::File { size_bytes, .. } => *size_bytes,
            Body::Directory { .. } => 0,
            Body::Symlink(target) => length(target),
        };
        Ok(Stat {
            inode,
            root: found.root,
            kind: found.kind(),
            links,
            size_bytes,
            accessed_ns: found.times.accessed_ns,
            modified_ns: found.times.modified_ns,
            changed_ns: found.times.changed_ns,
        })
    }

    /// Sets the access and modification times. `None` leaves a time unchanged. A file is not reported as
    /// modified if only its times are set.
    ///
    /// # Errors
    /// Returns [`VfsError::ReadOnly`] for a read-only root, and [`VfsError::BadInode`] for a stale ID.
    pub fn set_times(
        &mut self,
        inode: InodeId,
        accessed_ns: Option<u64>,
        modified_ns: Option<u64>,
    ) -> Result<(), VfsError> {
        self.check_writable(inode)?;
        let now_ns = self.now_ns;
        let times = &mut self.inode_mut(inode)?.times;
        times.accessed_ns = accessed_ns.unwrap_or(times.accessed_ns);
        times.modified_ns = modified_ns.unwrap_or(times.modified_ns);
        times.changed_ns = now_ns;
        Ok(())
    }

    /// Returns the path of an inode from its root, which is `""` for the root itself. If the inode has several names,
    /// the oldest is used. Returns `None` for an inode without a name.
    pub fn path_of(&self, inode: InodeId) -> Option<String> {
        let found = self.inode(inode).ok()?;
        match found.links.first() {
            Some(link) => Some(join(&self.path_of_dir(link.dir)?, &link.name)),
            None => self.is_linked(inode).ok()?.then(String::new),
        }
    }

    /// Returns a directory's path. Returns `None` for a removed directory.
    pub(crate) fn path_of_dir(&self, dir: InodeId) -> Option<String> {
        let mut names = Vec::new();
        let mut at = dir;
        while let Some(link) = self.inode(at).ok()?.links.first() {
            names.push(&*link.name);
            at = link.dir;
        }
        if !self.is_linked(at).ok()? {
            return None;
        }
        names.reverse();
        Some(names.join("/"))
    }
}

/// The number of inodes per page: small enough for a cheap copy after a fork, and large enough that the map of pages is
/// small.
const PAGE_LEN: u64 = 32;

#[derive(Clone, Debug, Default)]
struct Page {
    slots: [Option<Arc<Inode>>; 32],
    live_count: u32,
}

/// A flat table of inodes. Dropping the table never recurses, regardless of the tree's shape.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pages: BTreeMap<u64, Arc<Page>>,
    next: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            pages: BTreeMap::new(),
            // Inode number 0 is not used, because many programs interpret it as "no inode".
            next: 1,
        }
    }
}

fn locate(id: InodeId) -> (u64, usize) {
    (id.0 / PAGE_LEN, usize::try_from(id.0 % PAGE_LEN).unwrap_or(0))
}

impl Table {
    pub(crate) fn get(&self, id: InodeId) -> Option<&Inode> {
        let (page, slot) = locate(id);
        self.pages.get(&page)?.slots.get(slot)?.as_deref()
    }

    /// Returns an inode for modification. Copies its page and the inode if a fork shares them.
    pub(crate) fn get_mut(&mut self, id: InodeId) -> Option<&mut Inode> {
        let (page, slot) = locate(id);
        let page = self.pages.get_mut(&page)?;
        Arc::make_mut(page).slots.get_mut(slot)?.as_mut().map(Arc::make_mut)
    }

    /// Iterates over all inodes in ascending order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (InodeId, &Inode)> {
        self.pages.iter().flat_map(|(page, slots)| {
            let first = page.saturating_mul(PAGE_LEN);
            let numbered = (first..).map(InodeId).zip(&slots.slots);
            numbered.filter_map(|(id, slot)| slot.as_deref().map(|inode| (id, inode)))
        })
    }

    /// Returns the number of the next inode.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Sets the number of the next inode. It must be greater than all existing numbers.
    pub(crate) fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    pub(crate) fn insert(&mut self, inode: Inode) -> InodeId {
        let id = InodeId(self.next);
        self.next = self.next.saturating_add(1);
        self.insert_at(id, inode);
        id
    }

    /// Inserts an inode under an unused number.
    pub(crate) fn insert_at(&mut self, id: InodeId, inode: Inode) {
        let (page, slot) = locate(id);
        let page = Arc::make_mut(self.pages.entry(page).or_default());
        if let Some(slot) = page.slots.get_mut(slot) {
            *slot = Some(Arc::new(inode));
            page.live_count = page.live_count.saturating_add(1);
        }
    }

    pub(crate) fn remove(&mut self, id: InodeId) {
        let (page_number, slot) = locate(id);
        let Some(page) = self.pages.get_mut(&page_number) else {
            return;
        };
        let page = Arc::make_mut(page);
        if let Some(slot) = page.slots.get_mut(slot)
            && slot.take().is_some()
        {
            page.live_count = page.live_count.saturating_sub(1);
        }
        if page.live_count == 0 {
            self.pages.remove(&page_number);
        }
    }
}
