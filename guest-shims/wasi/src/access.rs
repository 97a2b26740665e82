//! File system access within the memory limit, with the guest's clock, charged to the guest.

use glovebox_vfs::{FileKind, Follow, InodeId, RootId, Vfs, VfsError};

use crate::{
    Errno, Host, Mount, Stop, Wasi,
    device::Device,
    host::{Call, CallFailure},
    memory::read_path,
    mounts::{self, TargetAboveMounts},
    prices,
    table::{Descriptor, FdTarget},
};

/// The purpose of a path in a call. The purpose determines the error for a path that leaves every mount.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Looking up attributes: a path outside all mounts does not exist (`ENOENT`).
    Look,
    /// Opening or changing: access to a path outside all mounts is refused (`EACCES`). Beneath a directory that the
    /// guest itself opened, the error is `ENOTCAPABLE`, because that directory is a capability without access to the
    /// path.
    Use,
}

/// The target of a guest path, before the file system resolves it.
#[derive(Debug)]
pub(crate) enum GuestPath {
    /// A path beneath a directory in the file system.
    Real(RealPath),
    /// A directory above the mounts. The guest cannot create, rename or remove entries in it.
    Virtual { path: String },
    /// A device. The guest cannot remove, rename or replace it.
    Device(Device),
    /// An alternative name of an open descriptor.
    Descriptor(u32),
}

/// A path beneath a directory in the file system.
#[derive(Debug)]
pub(crate) struct RealPath {
    pub(crate) at: InodeId,
    pub(crate) path: String,
    /// The guest's path to `at`, for the event log.
    pub(crate) below: String,
    /// The error for a path that leaves its mount.
    pub(crate) outside: Errno,
}

impl GuestPath {
    /// Returns the path beneath a real directory. Returns the error `otherwise` for a device, a descriptor or a virtual
    /// directory.
    pub(crate) fn real(self, otherwise: Errno) -> Result<RealPath, Errno> {
        match self {
            Self::Real(place) => Ok(place),
            Self::Virtual { .. } | Self::Device(_) | Self::Descriptor(_) => Err(otherwise),
        }
    }
}

impl Wasi {
    /// Runs one file system operation within the memory limit and charges the guest for it.
    pub(crate) fn with_vfs<H: Host + ?Sized, T>(
        &mut self,
        host: &mut H,
        operation: impl FnOnce(&mut Vfs) -> Result<T, VfsError>,
    ) -> Call<T> {
        let ceiling = self.vfs_ceiling_bytes();
        self.vfs.set_available_bytes(ceiling);
        // Discard work that the embedder caused since the last call, so that the guest does not pay for it.
        let _ = self.vfs.take_work();
        let result = operation(&mut self.vfs);
        host.charge(prices::FILE_SYSTEM_WORK.saturating_mul(self.vfs.take_work()))?;
        result.map_err(|error| {
            if matches!(error, VfsError::NoSpace | VfsError::MountTooLarge) {
                self.events.quota_exceeded();
            }
            CallFailure::Errno(errno_of(error))
        })
    }

    /// Like [`with_vfs`](Self::with_vfs), but for an operation that changes the file system and therefore records the
    /// guest's time.
    pub(crate) fn change_vfs<H: Host + ?Sized, T>(
        &mut self,
        host: &mut H,
        operation: impl FnOnce(&mut Vfs) -> Result<T, VfsError>,
    ) -> Call<T> {
        let now = self.realtime_ns(host);
        self.vfs.set_now_ns(now);
        self.with_vfs(host, operation)
    }

    /// If an operation failed because a path would have left its mount, records the path and returns
    /// [`RealPath::outside`]. Returns any other result unchanged.
    pub(crate) fn record_escape<T>(&mut self, places: &[&RealPath], result: Call<T>) -> Call<T> {
        if let Err(CallFailure::Errno(Errno::NotCapable)) = result {
            // The file system does not say which of two paths left its mount. Report the one with `..`, which is more
            // likely. The event can therefore name the wrong path.
            let place = places.iter().find(|place| place.path.split('/').any(|part| part == ".."));
            if let Some(place) = place.or(places.first()) {
                let path = format!("{}/{}", place.below.trim_end_matches('/'), place.path);
                self.events.path_escape(&path);
                return Err(place.outside.into());
            }
        }
        result
    }

    /// Resolves a descriptor and a path beneath it.
    pub(crate) fn resolve_path<H: Host>(
        &mut self,
        host: &mut H,
        fd: u32,
        rights: u64,
        purpose: Purpose,
        path_at: u32,
        path_len: u32,
    ) -> Call<GuestPath> {
        let descriptor = self.table.get(fd)?;
        let (at, below) = match &descriptor.target {
            FdTarget::Directory { inode } => (Some(*inode), descriptor.preopen.clone()),
            FdTarget::Virtual { path } => (None, Some(path.clone())),
            FdTarget::Stdin | FdTarget::Stdout | FdTarget::Stderr | FdTarget::File { .. } | FdTarget::Device(_) => {
                return Err(Errno::NotDir.into());
            }
        };
        descriptor.require(rights)?;
        let outside = match purpose {
            Purpose::Look => Errno::NoEnt,
            Purpose::Use if descriptor.preopen.is_some() => Errno::Acces,
            Purpose::Use => Errno::NotCapable,
        };
        let path = read_path(host, path_at, path_len)?;
        let Some(at) = at else {
            return self.path_above_mounts(host, &below.unwrap_or_default(), &path, outside);
        };
        // `/` itself may be a mount.
        if let Some(found) = below.as_deref().filter(|below| *below == "/").and_then(|_| mounts::special(&path)) {
            return self.resolve_target(found, outside);
        }
        if let Some(outer) = self.outer_of(at) {
            return match self.resolve(host, &outer, &path) {
                Ok(TargetAboveMounts::Mounted { root, path }) => self.path_in_mount(root, path, outside),
                // If the resolution failed, the file system returns the error when the path is used.
                Ok(_) | Err(CallFailure::Errno(_)) => Ok(GuestPath::Real(RealPath { at, path, below: outer, outside })),
                Err(failure) => Err(failure),
            };
        }
        let below = match below {
            Some(below) => below,
            None => self.vfs.path_of(at).unwrap_or_default(),
        };
        Ok(GuestPath::Real(RealPath { at, path, below, outside }))
    }

    /// Returns the guest path of the mount whose directory is `at`, if another mount is inside that mount.
    fn outer_of(&self, at: InodeId) -> Option<String> {
        let holds = |mount: &&Mount| mounts::is_above_a_mount(&self.mounts, &mount.path);
        let mut outer = self.mounts.iter().filter(holds);
        outer.find(|mount| self.vfs.root_dir(mount.root) == Some(at)).map(|mount| mount.path.clone())
    }

    /// Resolves a path among the mounts. If the outer mount has an entry at the path of an inner mount, that entry
    /// hides the inner mount.
    fn resolve<H: Host>(&mut self, host: &mut H, at: &str, path: &str) -> Call<TargetAboveMounts> {
        let found = mounts::resolve(&self.mounts, at, path)?;
        let TargetAboveMounts::Mounted { root, .. } = &found else { return Ok(found) };
        let Some(inner) = self.mounts.iter().find(|mount| mount.root == *root) else { return Ok(found) };
        let inner = inner.path.clone();
        let Some((outer, name)) = mounts::outer_of(&self.mounts, &inner) else { return Ok(found) };
        let dir = self.root_dir(outer)?;
        let is_hidden = self.with_vfs(host, |vfs| match vfs.lookup(dir, name.as_bytes(), Follow::No) {
            Err(VfsError::NotFound) => Ok(false),
            other => other.map(|_| true),
        })?;
        if !is_hidden {
            return Ok(found);
        }
        let others: Vec<Mount> = self.mounts.iter().filter(|mount| mount.path != inner).cloned().collect();
        Ok(mounts::resolve(&others, at, path)?)
    }

    /// Returns the path for creating an entry at the path of an inner mount. The path is in the outer mount, which then
    /// owns the entry.
    pub(crate) fn creation_path(&self, place: RealPath) -> Result<RealPath, Errno> {
        let mut mounts = self.mounts.iter().filter(|mount| self.vfs.root_dir(mount.root) == Some(place.at));
        match mounts.find_map(|mount| mounts::outer_of(&self.mounts, &mount.path)) {
            Some((root, name)) if place.path == "." => {
                let outer = self.mounts.iter().find(|mount| mount.root == root);
                let below = outer.map(|mount| mount.path.clone()).unwrap_or_default();
                Ok(RealPath { at: self.root_dir(root)?, path: name.to_owned(), below, ..place })
            }
            _ => Ok(place),
        }
    }

    /// Returns the descriptor that a path below `/dev/fd` refers to. Preopens are not accessible (`ENOENT`).
    pub(crate) fn named_descriptor(&self, fd: u32) -> Result<&Descriptor, Errno> {
        self.table.get(fd).ok().filter(|descriptor| descriptor.preopen.is_none()).ok_or(Errno::NoEnt)
    }

    fn resolve_target(&self, found: TargetAboveMounts, outside: Errno) -> Call<GuestPath> {
        match found {
            TargetAboveMounts::Virtual { path } => Ok(GuestPath::Virtual { path }),
            TargetAboveMounts::Device(device) => Ok(GuestPath::Device(device)),
            TargetAboveMounts::Descriptor(fd) => Ok(GuestPath::Descriptor(fd)),
            TargetAboveMounts::Mounted { root, path } => self.path_in_mount(root, path, outside),
        }
    }

    fn path_in_mount(&self, root: RootId, path: String, outside: Errno) -> Call<GuestPath> {
        let at = self.root_dir(root)?;
        let mount = self.mounts.iter().find(|mount| mount.root == root);
        let below = mount.map(|mount| mount.path.clone()).unwrap_or_default();
        Ok(GuestPath::Real(RealPath { at, path, below, outside }))
    }

    fn path_above_mounts<H: Host>(&mut self, host: &mut H, below: &str, path: &str, outside: Errno) -> Call<GuestPath> {
        // The resolution compares each path component with each mount.
        let mounts = u64::try_from(self.mounts.len()).unwrap_or(u64::MAX);
        host.charge(prices::FILE_SYSTEM_WORK.saturating_mul(mounts))?;
        match self.resolve(host, below, path) {
            Ok(found) => self.resolve_target(found, outside),
            Err(CallFailure::Errno(Errno::NotCapable)) => {
                self.events.path_escape(&format!("{}/{path}", below.trim_end_matches('/')));
                Err(outside.into())
            }
            Err(failure) => Err(failure),
        }
    }

    pub(crate) fn root_dir(&self, root: RootId) -> Result<InodeId, Errno> {
        self.vfs.root_dir(root).ok_or(Errno::NoEnt)
    }
}

/// Decodes `lookupflags`.
pub(crate) fn follow(flags: u32) -> Result<Follow, Errno> {
    match flags {
        0 => Ok(Follow::No),
        crate::table::SYMLINK_FOLLOW => Ok(Follow::Yes),
        _ => Err(Errno::Inval),
    }
}

fn errno_of(error: VfsError) -> Errno {
    match error {
        VfsError::NotFound => Errno::NoEnt,
        VfsError::NotADirectory => Errno::NotDir,
        VfsError::IsADirectory => Errno::IsDir,
        VfsError::AlreadyExists => Errno::Exist,
        VfsError::NotEmpty => Errno::NotEmpty,
        VfsError::NotCapable => Errno::NotCapable,
        VfsError::NameTooLong => Errno::NameTooLong,
        VfsError::TooManySymlinks => Errno::Loop,
        VfsError::TooManyLinks => Errno::Mlink,
        VfsError::Invalid => Errno::Inval,
        VfsError::IllegalBytes => Errno::Ilseq,
        VfsError::NoSpace => Errno::NoSpc,
        VfsError::MountTooLarge => Errno::NoMem,
        VfsError::FileTooBig => Errno::Fbig,
        VfsError::ReadOnly => Errno::Rofs,
        VfsError::CrossRoot => Errno::Xdev,
        VfsError::NotPermitted => Errno::Perm,
        VfsError::BadInode => Errno::Badf,
        // `Io`, and any error that is added later, is a failure below the file system.
        _ => Errno::Io,
    }
}

/// The directory entry with a given name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAt {
    /// The entry does not exist.
    Nothing,
    /// A file, with its content.
    File(Vec<u8>),
    /// A file that is longer than the maximum that the caller passed.
    TooLong,
    /// A directory.
    Directory,
    /// A symlink. Its target is not examined.
    Link,
}

impl Wasi {
    /// Reads the file `name` at the top level of the mount at `mount`, without following links. Reads at most
    /// `max_bytes`.
    ///
    /// # Errors
    /// The outer error means that the guest must stop, for example because it cannot pay for the call. The inner error
    /// means that the file cannot be read.
    pub fn file_at<H: Host + ?Sized>(
        &mut self,
        host: &mut H,
        mount: &str,
        name: &str,
        max_bytes: u64,
    ) -> Result<Result<FileAt, Errno>, Stop> {
        let Some(root) = self.mount_root(mount) else { return Ok(Ok(FileAt::Nothing)) };
        host.charge(prices::CALL)?;
        let looked = self.with_vfs(host, |vfs| {
            let top = vfs.root_dir(root).ok_or(VfsError::BadInode)?;
            let inode = match vfs.lookup(top, name.as_bytes(), Follow::No) {
                Ok(inode) => inode,
                Err(VfsError::NotFound) => return Ok(FileAt::Nothing),
                Err(error) => return Err(error),
            };
            Ok(match vfs.stat(inode)?.kind {
                FileKind::Directory => FileAt::Directory,
                FileKind::Symlink => FileAt::Link,
                FileKind::File => match vfs.read_file(root, name, max_bytes) {
                    Ok(bytes) => FileAt::File(bytes),
                    Err(error) if error.reason == VfsError::FileTooBig => FileAt::TooLong,
                    Err(error) => return Err(error.reason),
                },
            })
        });
        split_stop(looked)
    }

    /// Atomically writes a file at the top level of the mount at `mount`.
    ///
    /// # Errors
    /// The outer error means that the guest must stop, for example because it cannot pay for the call. The inner error
    /// means that the file cannot be written.
    pub fn replace_file<H: Host + ?Sized>(
        &mut self,
        host: &mut H,
        mount: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<Result<(), Errno>, Stop> {
        let Some(root) = self.mount_root(mount) else { return Ok(Err(Errno::NoEnt)) };
        host.charge(prices::CALL.saturating_add(prices::bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX))))?;
        let write = |vfs: &mut Vfs| vfs.write_file(root, name, bytes).map_err(|error| error.reason);
        split_stop(self.change_vfs(host, write))
    }
}

fn split_stop<T>(done: Call<T>) -> Result<Result<T, Errno>, Stop> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(CallFailure::Errno(errno)) => Ok(Err(errno)),
        Err(CallFailure::Stop(stop)) => Err(stop),
    }
}
