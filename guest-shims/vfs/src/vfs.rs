//! The file system as a whole: its roots, its clock, its charges and its open handles.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{
    changes::Journal,
    inode::{Body, FileKind, Inode, InodeId, ListingState, RootId, SourcePath, Table, Times},
    limits::{Usage, VfsError, VfsLimits, workspace_charge},
    mount::{MountCache, MountSource, SourceError},
};

/// The permission to change a root, for guests and for the embedder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// All changes are allowed, within the quotas.
    ReadWrite,
    /// Only reading is allowed; all changes fail with [`VfsError::ReadOnly`].
    ReadOnly,
}

#[derive(Clone)]
pub(crate) struct Root {
    pub(crate) dir: InodeId,
    pub(crate) access: Access,
    pub(crate) source: Option<Arc<dyn MountSource>>,
    /// Changes since [`Vfs::mark`].
    pub(crate) marked: Arc<Journal>,
    /// Changes since the root was created or last committed.
    pub(crate) committed: Arc<Journal>,
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("dir", &self.dir)
            .field("access", &self.access)
            .field("mounted", &self.source.is_some())
            .finish_non_exhaustive()
    }
}

/// The state that forks share until one of them changes it.
#[derive(Clone, Default)]
pub(crate) struct VfsState {
    pub(crate) table: Table,
    pub(crate) roots: Vec<Root>,
    /// The number of open handles per inode. The number is not stored in the inode, because opening a file must not
    /// copy the inode.
    pub(crate) open: BTreeMap<InodeId, u64>,
    pub(crate) usage: Usage,
}

/// An in-memory file system of one or more roots, with quotas.
///
/// A clone is a fork: it costs a few reference counts, regardless of the content, and neither fork observes later
/// changes of the other. References to open files ([`Vfs::retain`]) are part of the state, so they are forked, too. The
/// content of a mount's source is not part of the state: a fork observes the source as it is on the first access.
///
/// The file system never blocks, starts threads, reads a clock or accesses the host, except through a [`MountSource`].
#[derive(Clone)]
pub struct Vfs {
    pub(crate) state: Arc<VfsState>,
    pub(crate) cache: Arc<MountCache>,
    pub(crate) limits: VfsLimits,
    pub(crate) now_ns: u64,
    pub(crate) work: u64,
    source_error: Option<SourceError>,
    pub(crate) available_bytes: u64,
    pub(crate) peak_bytes: u64,
}

/// Formats a summary, because the content of guests' files does not belong in a log.
impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vfs")
            .field("roots", &self.state.roots)
            .field("bytes_used", &self.bytes_used())
            .field("inodes_used", &self.inodes_used())
            .field("open", &self.state.open.len())
            .finish_non_exhaustive()
    }
}

impl Vfs {
    /// Creates a file system without roots.
    pub fn new(limits: VfsLimits) -> Self {
        Self {
            state: Arc::default(),
            cache: Arc::default(),
            limits,
            now_ns: 0,
            work: 0,
            source_error: None,
            available_bytes: u64::MAX,
            peak_bytes: 0,
        }
    }

    /// Returns the quotas.
    pub fn limits(&self) -> &VfsLimits {
        &self.limits
    }

    /// Adds an empty directory as a root. To provide files as read-only, write the files and then call
    /// [`Vfs::set_access`].
    pub fn add_root(&mut self, access: Access) -> RootId {
        self.push_root(access, None, Body::empty_directory())
    }

    /// Adds a root that shows the files of a source. This method reads only the `stat` of the source's top directory.
    ///
    /// With [`Access::ReadWrite`], a file is copied into memory when it is first written. The source is never changed;
    /// see [`Vfs::commit_plan`].
    ///
    /// # Errors
    /// Returns [`VfsError::Io`] if the source fails, [`VfsError::NotFound`] if its top directory does not exist, and
    /// [`VfsError::NotADirectory`] if the top is not a directory.
    pub fn add_mount(&mut self, source: Arc<dyn MountSource>, access: Access) -> Result<RootId, VfsError> {
        let stat = source.stat("").map_err(|error| self.source_failed(error))?.ok_or(VfsError::NotFound)?;
        if stat.kind != FileKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        let body = Body::Directory { entries: Arc::default(), listed: ListingState::NotYet };
        let id = self.push_root(access, Some(source), body);
        let dir = self.root(id)?.dir;
        let inode = self.inode_mut(dir)?;
        inode.times = Times::at(stat.modified_ns);
        inode.source = Some(Arc::new(SourcePath { dir: Arc::from(""), name: Arc::from("") }));
        Ok(id)
    }

    fn push_root(&mut self, access: Access, source: Option<Arc<dyn MountSource>>, body: Body) -> RootId {
        let now_ns = self.now_ns;
        let state = Arc::make_mut(&mut self.state);
        let id = RootId(u32::try_from(state.roots.len()).unwrap_or(u32::MAX));
        let dir = state.table.insert(Inode::new(id, body, now_ns));
        state.roots.push(Root { dir, access, source, marked: Arc::default(), committed: Arc::default() });
        id
    }

    /// Makes a root writable or read-only. If the root becomes read-only, writing through open handles fails. Ignores
    /// an unknown root.
    pub fn set_access(&mut self, root: RootId, access: Access) {
        if self.access(root).is_some_and(|now| now != access)
            && let Some(root) = root_mut(Arc::make_mut(&mut self.state), root)
        {
            root.access = access;
        }
    }

    /// Returns the access to a root, or `None` for an unknown root.
    pub fn access(&self, root: RootId) -> Option<Access> {
        self.root(root).ok().map(|root| root.access)
    }

    /// Returns the directory of a root, or `None` for an unknown root.
    pub fn root_dir(&self, root: RootId) -> Option<InodeId> {
        self.root(root).ok().map(|root| root.dir)
    }

    /// Returns the root that contains an inode.
    ///
    /// # Errors
    /// Returns [`VfsError::BadInode`] for a stale ID.
    pub fn root_of(&self, inode: InodeId) -> Result<RootId, VfsError> {
        Ok(self.inode(inode)?.root)
    }

    /// Sets the time of later changes, in nanoseconds since 1970. The initial time is 0: the file system has no clock.
    pub fn set_now_ns(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Returns the number of work units since the last call, for charging the guest: one for each path component, entry
    /// listed, inode visited and chunk moved. A unit takes about 100 ns.
    pub fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Takes the latest failure of a [`MountSource`], for a log. The operation that encountered the failure has
    /// returned [`VfsError::Io`].
    pub fn take_source_error(&mut self) -> Option<SourceError> {
        self.source_error.take()
    }

    /// Adds a reference to an inode, which keeps the inode alive until [`release`](Self::release), even if its last
    /// name is removed.
    ///
    /// # Errors
    /// Returns [`VfsError::BadInode`] for a stale ID.
    pub fn retain(&mut self, inode: InodeId) -> Result<(), VfsError> {
        self.inode(inode)?;
        let count = Arc::make_mut(&mut self.state).open.entry(inode).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    /// Releases one reference to an inode. Ignores an inode without references.
    pub fn release(&mut self, inode: InodeId) {
        if !self.state.open.contains_key(&inode) {
            return;
        }
        let state = Arc::make_mut(&mut self.state);
        if let Some(count) = state.open.get_mut(&inode) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.open.remove(&inode);
                self.free_if_unused(inode);
            }
        }
    }

    pub(crate) fn count_work(&mut self, units: u64) {
        self.work = self.work.saturating_add(units);
    }

    pub(crate) fn source_failed(&mut self, error: SourceError) -> VfsError {
        self.source_error = Some(error);
        VfsError::Io
    }

    pub(crate) fn inode(&self, id: InodeId) -> Result<&Inode, VfsError> {
        self.state.table.get(id).ok_or(VfsError::BadInode)
    }

    /// Returns an inode for modification. Copies the inode if a fork shares it.
    pub(crate) fn inode_mut(&mut self, id: InodeId) -> Result<&mut Inode, VfsError> {
        Arc::make_mut(&mut self.state).table.get_mut(id).ok_or(VfsError::BadInode)
    }

    pub(crate) fn root(&self, id: RootId) -> Result<&Root, VfsError> {
        usize::try_from(id.0).ok().and_then(|at| self.state.roots.get(at)).ok_or(VfsError::BadInode)
    }

    /// Fails if the root that contains an inode is read-only.
    pub(crate) fn check_writable(&self, inode: InodeId) -> Result<(), VfsError> {
        match self.root(self.inode(inode)?.root)?.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(VfsError::ReadOnly),
        }
    }

    /// Frees an inode if it has neither names nor handles, and refunds its charges.
    pub(crate) fn free_if_unused(&mut self, id: InodeId) {
        let Ok(inode) = self.inode(id) else { return };
        let is_root = self.root(inode.root).is_ok_and(|root| root.dir == id);
        if is_root || !inode.links.is_empty() || self.state.open.contains_key(&id) {
            return;
        }
        let root = inode.root;
        let (workspace, mount) = (workspace_charge(inode), inode.mount_charge);
        let state = Arc::make_mut(&mut self.state);
        state.table.remove(id);
        let usage = &mut state.usage;
        usage.workspace_bytes = usage.workspace_bytes.saturating_sub(workspace);
        if let Some(bytes) = mount {
            usage.mount_bytes = usage.mount_bytes.saturating_sub(bytes);
            usage.mount_entries = usage.mount_entries.saturating_sub(1);
        } else {
            usage.inodes = usage.inodes.saturating_sub(1);
        }
        if let Some(root) = root_mut(state, root) {
            for journal in [&mut root.marked, &mut root.committed] {
                if journal.written.contains(&id) {
                    Arc::make_mut(journal).written.remove(&id);
                }
            }
        }
        self.forget_cached(id);
    }

    pub(crate) fn forget_cached(&mut self, id: InodeId) {
        if self.cache.has(id) {
            Arc::make_mut(&mut self.cache).forget(id);
        }
    }
}

pub(crate) fn root_mut(state: &mut VfsState, id: RootId) -> Option<&mut Root> {
    usize::try_from(id.0).ok().and_then(|at| state.roots.get_mut(at))
}
