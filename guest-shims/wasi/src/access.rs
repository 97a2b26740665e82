//! How calls reach the file system: within the memory limit, at the guest's time, on the guest's bill.

use glovebox_vfs::{Follow, InodeId, RootId, Vfs, VfsError};

use crate::device::Device;
use crate::failure::{Call, Failure};
use crate::memory::read_path;
use crate::mounts::{self, Above};
use crate::table::Target;
use crate::{Errno, Host, Mount, Wasi, prices};

/// What a call wants of a path. It decides how a path that leads out of every mount is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// To see what is there: nothing is (`ENOENT`).
    Look,
    /// To open or to change it: that is refused (`EACCES`). Beneath a directory that the guest itself has opened, the
    /// directory is a capability that does not reach so far (`ENOTCAPABLE`).
    Use,
}

/// What a path of the guest leads to before the file system resolves it.
#[derive(Debug)]
pub(crate) enum Place {
    /// A path beneath a directory of the file system.
    Real(RealPlace),
    /// A directory above the mounts, which cannot be changed.
    Virtual { path: String },
    /// A device, which cannot be changed either.
    Device(Device),
}

/// A path beneath a directory.
#[derive(Debug)]
pub(crate) struct RealPlace {
    pub(crate) at: InodeId,
    pub(crate) path: String,
    /// Where `at` is for the guest, for the log.
    pub(crate) below: String,
    /// What a path that leads out is answered with.
    pub(crate) outside: Errno,
}

impl Place {
    /// A place that can be changed, or the given error for a directory that exists only to hold mounts and for a device.
    pub(crate) fn real(self, otherwise: Errno) -> Result<RealPlace, Errno> {
        match self {
            Self::Real(place) => Ok(place),
            Self::Virtual { .. } | Self::Device(_) => Err(otherwise),
        }
    }
}

impl Wasi {
    /// Runs one operation of the file system: within the memory limit, charged for.
    pub(crate) fn with_vfs<H: Host, T>(
        &mut self,
        host: &mut H,
        operation: impl FnOnce(&mut Vfs) -> Result<T, VfsError>,
    ) -> Call<T> {
        let ceiling = self.vfs_ceiling_bytes();
        self.vfs.set_available_bytes(ceiling);
        // What the embedder did since the last call is not on the guest's bill.
        let _ = self.vfs.take_work();
        let result = operation(&mut self.vfs);
        host.charge(prices::FILE_SYSTEM_WORK.saturating_mul(self.vfs.take_work()))?;
        result.map_err(|error| {
            if matches!(error, VfsError::NoSpace | VfsError::MountTooLarge) {
                self.events.quota_exceeded();
            }
            Failure::Errno(errno_of(error))
        })
    }

    /// The same for an operation that changes something, so that it bears the guest's time.
    pub(crate) fn change_vfs<H: Host, T>(
        &mut self,
        host: &mut H,
        operation: impl FnOnce(&mut Vfs) -> Result<T, VfsError>,
    ) -> Call<T> {
        let now = self.realtime_ns(host);
        self.vfs.set_now_ns(now);
        self.with_vfs(host, operation)
    }

    /// Records a path that would have left its mount, and answers as the call asks.
    pub(crate) fn watch<T>(&mut self, places: &[&RealPlace], result: Call<T>) -> Call<T> {
        if let Err(Failure::Errno(Errno::NotCapable)) = result {
            // Of two paths, the one that goes up or is absolute is the likelier; the event is a hint, not evidence.
            let place = places.iter().find(|place| place.path.split('/').any(|part| part == ".."));
            if let Some(place) = place.or(places.first()) {
                let path = format!("{}/{}", place.below.trim_end_matches('/'), place.path);
                self.events.path_escape(&path);
                return Err(place.outside.into());
            }
        }
        result
    }

    /// Decodes a descriptor and a path beneath it.
    pub(crate) fn place<H: Host>(
        &mut self,
        host: &mut H,
        fd: u32,
        rights: u64,
        purpose: Purpose,
        path_at: u32,
        path_len: u32,
    ) -> Call<Place> {
        let descriptor = self.table.get(fd)?;
        let (at, below) = match &descriptor.target {
            Target::Directory { inode } => (Some(*inode), descriptor.preopen.clone()),
            Target::Virtual { path } => (None, Some(path.clone())),
            Target::Stdin | Target::Stdout | Target::Stderr | Target::File { .. } | Target::Device(_) => {
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
            return self.above(host, &below.unwrap_or_default(), &path, outside);
        };
        // `/` may be mounted for real.
        if let Some(device) = below.as_deref().filter(|below| *below == "/").and_then(|_| mounts::device(&path)) {
            return Ok(Place::Device(device));
        }
        if let Some(outer) = self.outer_of(at) {
            return match self.resolve(host, &outer, &path) {
                Ok(Above::Mounted { root, path }) => self.mounted(root, path, outside),
                // The file system refuses it in its own words.
                Ok(_) | Err(Failure::Errno(_)) => Ok(Place::Real(RealPlace { at, path, below: outer, outside })),
                Err(failure) => Err(failure),
            };
        }
        let below = match below {
            Some(below) => below,
            None => self.vfs.path_of(at).unwrap_or_default(),
        };
        Ok(Place::Real(RealPlace { at, path, below, outside }))
    }

    /// The path of a mount whose directory this is and in which another mount lies.
    fn outer_of(&self, at: InodeId) -> Option<String> {
        let holds = |mount: &&Mount| mounts::is_above_a_mount(&self.mounts, &mount.path);
        let mut outer = self.mounts.iter().filter(holds);
        outer.find(|mount| self.vfs.root_dir(mount.root) == Some(at)).map(|mount| mount.path.clone())
    }

    /// Resolves a path among the mounts. One that lies in another is not seen while that has something of its own at its path.
    fn resolve<H: Host>(&mut self, host: &mut H, at: &str, path: &str) -> Call<Above> {
        let found = mounts::resolve(&self.mounts, at, path)?;
        let Above::Mounted { root, .. } = &found else { return Ok(found) };
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

    /// Where a directory is made: of a mount that lies in another, in the other one, whose own it is from then on.
    pub(crate) fn where_made(&self, place: RealPlace) -> Result<RealPlace, Errno> {
        let mut mounts = self.mounts.iter().filter(|mount| self.vfs.root_dir(mount.root) == Some(place.at));
        match mounts.find_map(|mount| mounts::outer_of(&self.mounts, &mount.path)) {
            Some((root, name)) if place.path == "." => {
                let outer = self.mounts.iter().find(|mount| mount.root == root);
                let below = outer.map(|mount| mount.path.clone()).unwrap_or_default();
                Ok(RealPlace { at: self.root_dir(root)?, path: name.to_owned(), below, ..place })
            }
            _ => Ok(place),
        }
    }

    fn mounted(&self, root: RootId, path: String, outside: Errno) -> Call<Place> {
        let at = self.root_dir(root)?;
        let mount = self.mounts.iter().find(|mount| mount.root == root);
        let below = mount.map(|mount| mount.path.clone()).unwrap_or_default();
        Ok(Place::Real(RealPlace { at, path, below, outside }))
    }

    fn above<H: Host>(&mut self, host: &mut H, below: &str, path: &str, outside: Errno) -> Call<Place> {
        // A component is compared with each mount.
        let mounts = u64::try_from(self.mounts.len()).unwrap_or(u64::MAX);
        host.charge(prices::FILE_SYSTEM_WORK.saturating_mul(mounts))?;
        match self.resolve(host, below, path) {
            Ok(Above::Virtual { path }) => Ok(Place::Virtual { path }),
            Ok(Above::Device(device)) => Ok(Place::Device(device)),
            Ok(Above::Mounted { root, path }) => self.mounted(root, path, outside),
            Err(Failure::Errno(Errno::NotCapable)) => {
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

/// `lookupflags`.
pub(crate) fn follow(flags: u32) -> Result<Follow, Errno> {
    match flags {
        0 => Ok(Follow::No),
        crate::rights::SYMLINK_FOLLOW => Ok(Follow::Yes),
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
        // `Io`, and whatever the file system may come to report: something below it failed.
        _ => Errno::Io,
    }
}
