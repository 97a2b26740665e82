//! The descriptor table, with the rights and flags of preview 1.

use glovebox_vfs::{FileKind, InodeId};

use crate::{Errno, device::Device, memory::size};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FdTarget {
    Stdin,
    Stdout,
    Stderr,
    File {
        inode: InodeId,
        position: u64,
    },
    Directory {
        inode: InodeId,
    },
    /// A directory above the mounts, identified by its absolute path.
    Virtual {
        path: String,
    },
    Device(Device),
}

impl FdTarget {
    /// Returns the inode that the descriptor keeps alive.
    pub(crate) fn inode(&self) -> Option<InodeId> {
        self.opened().map(|(inode, _)| inode)
    }

    /// Returns the inode and the type that it had when it was opened.
    pub(crate) fn opened(&self) -> Option<(InodeId, FileKind)> {
        match self {
            Self::File { inode, .. } => Some((*inode, FileKind::File)),
            Self::Directory { inode } => Some((*inode, FileKind::Directory)),
            Self::Stdin | Self::Stdout | Self::Stderr | Self::Virtual { .. } | Self::Device(_) => None,
        }
    }

    /// Returns the maximum rights of a descriptor for this target, and the maximum rights that descriptors opened
    /// beneath it inherit.
    pub(crate) fn max_rights(&self) -> (u64, u64) {
        match self {
            Self::Stdin => (INPUT, 0),
            Self::Stdout | Self::Stderr => (OUTPUT, 0),
            Self::File { .. } => (FILE, 0),
            Self::Directory { .. } | Self::Virtual { .. } => (DIRECTORY_BASE, ALL),
            Self::Device(_) => (DEVICE, 0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) target: FdTarget,
    pub(crate) flags: u16,
    pub(crate) rights_base: u64,
    pub(crate) rights_inheriting: u64,
    /// The guest path, if the descriptor is a preopen.
    pub(crate) preopen: Option<String>,
}

impl Descriptor {
    pub(crate) fn stdio(target: FdTarget) -> Self {
        Self::opened(target, 0, ALL, 0)
    }

    /// Creates a descriptor with the requested rights that apply to its target.
    pub(crate) fn opened(target: FdTarget, flags: u16, rights_base: u64, rights_inheriting: u64) -> Self {
        let (max_base, max_inheriting) = target.max_rights();
        Self {
            target,
            flags,
            rights_base: rights_base & max_base,
            rights_inheriting: rights_inheriting & max_inheriting,
            preopen: None,
        }
    }

    pub(crate) fn preopen(target: FdTarget, path: String) -> Self {
        Self { preopen: Some(path), ..Self::opened(target, 0, ALL, ALL) }
    }

    /// Fails with `ENOTCAPABLE` if the descriptor does not have all of `rights`.
    pub(crate) fn require(&self, rights: u64) -> Result<(), Errno> {
        if self.rights_base & rights == rights { Ok(()) } else { Err(Errno::NotCapable) }
    }
}

/// The first descriptor after standard input, output and error.
pub(crate) const FIRST_FREE: u32 = 3;

/// Open descriptors by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    // The limit on open files bounds the length.
    slots: Vec<Option<Descriptor>>,
    open_count: u32,
}

impl Table {
    /// Creates a table with the three standard streams.
    pub(crate) fn new() -> Self {
        let mut table = Self::default();
        table.restore_stdio();
        table
    }

    /// Restores the three standard streams, regardless of the guest's changes to them. Returns the descriptors that had
    /// replaced them.
    pub(crate) fn restore_stdio(&mut self) -> Vec<Descriptor> {
        let mut replaced = Vec::new();
        let first_free = size(FIRST_FREE);
        if self.slots.len() < first_free {
            self.slots.resize(first_free, None);
        }
        for (slot, target) in self.slots.iter_mut().zip([FdTarget::Stdin, FdTarget::Stdout, FdTarget::Stderr]) {
            match slot.replace(Descriptor::stdio(target)) {
                None => self.open_count = self.open_count.saturating_add(1),
                Some(old) => replaced.push(old),
            }
        }
        replaced
    }

    pub(crate) fn get(&self, fd: u32) -> Result<&Descriptor, Errno> {
        self.slots.get(size(fd)).and_then(Option::as_ref).ok_or(Errno::Badf)
    }

    pub(crate) fn get_mut(&mut self, fd: u32) -> Result<&mut Descriptor, Errno> {
        self.slots.get_mut(size(fd)).and_then(Option::as_mut).ok_or(Errno::Badf)
    }

    /// Returns `true` if another descriptor fits under `limit`. Checked before a file is created for the descriptor.
    pub(crate) fn has_room(&self, limit: u32) -> bool {
        self.open_count < limit
    }

    /// Inserts a descriptor into the lowest free slot after the standard streams. If a script closes its standard
    /// output, its later output must not be written to the next file that it opens.
    pub(crate) fn insert(&mut self, descriptor: Descriptor, limit: u32) -> Result<u32, Descriptor> {
        if !self.has_room(limit) {
            return Err(descriptor);
        }
        let first_free = size(FIRST_FREE);
        let free = self.slots.iter().skip(first_free).position(Option::is_none);
        let slot = free.map_or(self.slots.len().max(first_free), |index| index.saturating_add(first_free));
        let Ok(fd) = u32::try_from(slot) else {
            return Err(descriptor);
        };
        if slot >= self.slots.len() {
            self.slots.resize(slot.saturating_add(1), None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(descriptor);
            self.open_count = self.open_count.saturating_add(1);
        }
        Ok(fd)
    }

    pub(crate) fn remove(&mut self, fd: u32) -> Result<Descriptor, Errno> {
        let removed = self.slots.get_mut(size(fd)).and_then(Option::take).ok_or(Errno::Badf)?;
        self.open_count = self.open_count.saturating_sub(1);
        Ok(removed)
    }

    /// Moves the open descriptor `from` to the number of the open descriptor `to`. Returns the descriptor previously at
    /// `to`.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Descriptor>, Errno> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        let place = self.get_mut(to)?;
        Ok(Some(std::mem::replace(place, moved)))
    }

    /// Moves the open descriptor `from` to the number `to`, which must be below `limit`. Returns the descriptor
    /// previously at `to`, if it was open.
    pub(crate) fn assign(&mut self, from: u32, to: u32, limit: u32) -> Result<Option<Descriptor>, Errno> {
        self.get(from)?;
        if to >= limit {
            return Err(Errno::Badf);
        }
        if self.get(to).is_ok() {
            return self.renumber(from, to);
        }
        if self.slots.len() <= size(to) {
            self.slots.resize(size(to).saturating_add(1), None);
        }
        let moved = self.remove(from)?;
        if let Some(slot) = self.slots.get_mut(size(to)) {
            *slot = Some(moved);
            self.open_count = self.open_count.saturating_add(1);
        }
        Ok(None)
    }

    /// Returns the number of open descriptors that are neither standard streams nor preopens.
    pub(crate) fn opened_by_guest(&self) -> u32 {
        let opened =
            self.slots.iter().skip(size(FIRST_FREE)).flatten().filter(|descriptor| descriptor.preopen.is_none());
        u32::try_from(opened.count()).unwrap_or(u32::MAX)
    }

    /// Iterates over the open descriptors and their numbers, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Descriptor)> {
        (0_u32..).zip(&self.slots).filter_map(|(fd, slot)| slot.as_ref().map(|descriptor| (fd, descriptor)))
    }

    /// Inserts a descriptor at a number above all existing ones.
    pub(crate) fn put(&mut self, fd: u32, descriptor: Descriptor) {
        self.slots.resize(size(fd), None);
        self.slots.push(Some(descriptor));
        self.open_count = self.open_count.saturating_add(1);
    }

    /// Iterates over the open descriptors.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Option<Descriptor>> {
        self.slots.iter_mut().filter(|slot| slot.is_some())
    }

    /// Updates the number of open descriptors after [`Self::iter_mut`] was used to empty slots.
    pub(crate) fn recount(&mut self) {
        let open = self.slots.iter().filter(|slot| slot.is_some()).count();
        self.open_count = u32::try_from(open).unwrap_or(u32::MAX);
    }
}

// The values of `rights`.
pub(crate) const FD_DATASYNC: u64 = 1;
pub(crate) const FD_READ: u64 = 1 << 1;
pub(crate) const FD_SEEK: u64 = 1 << 2;
pub(crate) const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
pub(crate) const FD_SYNC: u64 = 1 << 4;
pub(crate) const FD_TELL: u64 = 1 << 5;
pub(crate) const FD_WRITE: u64 = 1 << 6;
pub(crate) const FD_ADVISE: u64 = 1 << 7;
pub(crate) const FD_ALLOCATE: u64 = 1 << 8;
pub(crate) const PATH_CREATE_DIRECTORY: u64 = 1 << 9;
pub(crate) const PATH_CREATE_FILE: u64 = 1 << 10;
pub(crate) const PATH_LINK_SOURCE: u64 = 1 << 11;
pub(crate) const PATH_LINK_TARGET: u64 = 1 << 12;
pub(crate) const PATH_OPEN: u64 = 1 << 13;
pub(crate) const FD_READDIR: u64 = 1 << 14;
pub(crate) const PATH_READLINK: u64 = 1 << 15;
pub(crate) const PATH_RENAME_SOURCE: u64 = 1 << 16;
pub(crate) const PATH_RENAME_TARGET: u64 = 1 << 17;
pub(crate) const PATH_FILESTAT_GET: u64 = 1 << 18;
pub(crate) const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
pub(crate) const PATH_FILESTAT_SET_TIMES: u64 = 1 << 20;
pub(crate) const FD_FILESTAT_GET: u64 = 1 << 21;
pub(crate) const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
pub(crate) const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
pub(crate) const PATH_SYMLINK: u64 = 1 << 24;
pub(crate) const PATH_REMOVE_DIRECTORY: u64 = 1 << 25;
pub(crate) const PATH_UNLINK_FILE: u64 = 1 << 26;
pub(crate) const POLL_FD_READWRITE: u64 = 1 << 27;

/// All rights except the two for sockets.
pub(crate) const ALL: u64 = (1 << 28) - 1;

/// The rights of a file. They do not include path operations.
pub(crate) const FILE: u64 = FD_DATASYNC
    | FD_READ
    | FD_SEEK
    | FD_FDSTAT_SET_FLAGS
    | FD_SYNC
    | FD_TELL
    | FD_WRITE
    | FD_ADVISE
    | FD_ALLOCATE
    | FD_FILESTAT_GET
    | FD_FILESTAT_SET_SIZE
    | FD_FILESTAT_SET_TIMES
    | POLL_FD_READWRITE;

/// The base rights of a directory. A directory has no bytes and no position, and `path_open` refuses to open it for
/// writing. Descriptors opened beneath it can have the rights [`ALL`].
pub(crate) const DIRECTORY_BASE: u64 = ALL
    & !(FD_READ | FD_SEEK | FD_TELL | FD_WRITE | FD_ADVISE | FD_ALLOCATE | FD_FILESTAT_SET_SIZE | POLL_FD_READWRITE);

/// The rights of standard input, which do not include seek and tell.
pub(crate) const INPUT: u64 = FD_READ | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;

/// The rights of standard output and standard error, which do not include seek and tell.
pub(crate) const OUTPUT: u64 = FD_WRITE | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;

/// The rights of a device. The tools device supports neither seek nor tell (`ESPIPE`), but the C library treats a
/// character device without these two rights as a terminal.
pub(crate) const DEVICE: u64 =
    FD_READ | FD_WRITE | FD_SEEK | FD_TELL | FD_FDSTAT_SET_FLAGS | FD_FILESTAT_GET | POLL_FD_READWRITE;

/// The `fdflags` value for appending.
pub(crate) const APPEND: u16 = 1;
/// All `fdflags`: append, dsync, nonblock, rsync and sync. All except append are stored but have no effect.
pub(crate) const FDFLAGS: u16 = 0b1_1111;

// The values of `oflags`.
pub(crate) const CREAT: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const EXCL: u32 = 4;
pub(crate) const TRUNC: u32 = 8;

/// The value of `lookupflags`.
pub(crate) const SYMLINK_FOLLOW: u32 = 1;

// The values of `fstflags`.
pub(crate) const ATIM: u32 = 1;
pub(crate) const ATIM_NOW: u32 = 2;
pub(crate) const MTIM: u32 = 4;
pub(crate) const MTIM_NOW: u32 = 8;
