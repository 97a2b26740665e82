//! The mapping of guest paths to file system roots, its validation, and its replacement.

use std::collections::BTreeMap;

use glovebox_vfs::{RootId, Vfs};

use crate::{
    Errno, Wasi, WasiError,
    device::{self, Device, descriptor_at, is_above_one},
    table::{Descriptor, FdTarget},
};

/// A file system root at an absolute guest path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// An absolute path without `.`, `..` or double slashes, such as `/app`.
    pub path: String,
    /// The mounted root.
    pub root: RootId,
}

impl Mount {
    /// Creates a mount of `root` at `path`.
    pub fn new(path: impl Into<String>, root: RootId) -> Self {
        Self { path: path.into(), root }
    }
}

/// The target of a path that starts above the mounts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetAboveMounts {
    /// Inside a mount: the mount's root, and the path relative to that root.
    Mounted {
        root: RootId,
        path: String,
    },
    /// A directory that exists only because a mount is below it, identified by its absolute path.
    Virtual {
        path: String,
    },
    Device(Device),
    /// An open descriptor.
    Descriptor(u32),
}

/// Returns `true` if a path is a valid mount point.
pub(crate) fn is_mountable(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains('\0')
        && (path == "/" || path.split('/').skip(1).all(|part| !matches!(part, "" | "." | "..")))
}

/// Resolves `path` relative to the virtual directory `at`.
///
/// Directories above the mounts contain no links, so resolution is lexical up to a mount. From there the file system
/// resolves the path, and refuses to leave the mount. Outside every mount the result is `ENOTCAPABLE`, which the caller
/// replaces with the error for its call.
pub(crate) fn resolve(mounts: &[Mount], at: &str, path: &str) -> Result<TargetAboveMounts, Errno> {
    if path.starts_with('/') {
        return Err(Errno::NotCapable);
    }
    if path.is_empty() {
        return Err(Errno::NoEnt);
    }
    let mut here = at.trim_end_matches('/').to_owned();
    let mut mounted = find(mounts, &here).map(|root| (root, path));
    let mut rest = path;
    while !rest.is_empty() {
        let (part, after) = rest.split_once('/').unwrap_or((rest, ""));
        rest = after;
        match part {
            "" | "." => continue,
            // `..` at the top of an inner mount leads to the outer mount. The rest of the path may lead back into the
            // inner mount.
            ".." if let Some((root, name)) = find(mounts, &here).and_then(|_| outer_of(mounts, &here)) => {
                here.truncate(here.len().saturating_sub(name.len()).saturating_sub(1));
                mounted = Some((root, rest));
            }
            ".." if mounted.is_some() => break,
            ".." => {
                let Some(slash) = here.rfind('/') else {
                    return Err(Errno::NotCapable);
                };
                here.truncate(slash);
            }
            name => {
                here.push('/');
                here.push_str(name);
                let found = Device::at(&here).map(TargetAboveMounts::Device);
                if let Some(found) = found.or_else(|| descriptor_at(&here).map(TargetAboveMounts::Descriptor)) {
                    // A device has no entries, and a trailing slash would require a directory.
                    let named = rest.is_empty() && !path.ends_with('/');
                    return if named { Ok(found) } else { Err(Errno::NotDir) };
                }
                if let Some(root) = find(mounts, &here) {
                    mounted = Some((root, rest));
                } else if !is_above_a_mount(mounts, &here) && !is_above_one(&here) {
                    if mounted.is_some() {
                        break;
                    }
                    return Err(Errno::NotCapable);
                }
            }
        }
    }
    Ok(match mounted {
        Some((root, "")) => TargetAboveMounts::Mounted { root, path: ".".to_owned() },
        // Several slashes may follow the mount's name, but a path relative to the mount must not begin with a slash.
        Some((root, rest)) => {
            let rest = rest.trim_start_matches('/');
            TargetAboveMounts::Mounted { root, path: if rest.is_empty() { "." } else { rest }.to_owned() }
        }
        None if here.is_empty() => TargetAboveMounts::Virtual { path: "/".to_owned() },
        None if is_above_a_mount(mounts, &here) => TargetAboveMounts::Virtual { path: here },
        // A directory that exists only because a device is below it cannot be accessed.
        None => return Err(Errno::NotCapable),
    })
}

/// Returns the device or descriptor at `path`, relative to `/`.
pub(crate) fn special(path: &str) -> Option<TargetAboveMounts> {
    resolve(&[], "/", path)
        .ok()
        .filter(|found| matches!(found, TargetAboveMounts::Device(_) | TargetAboveMounts::Descriptor(_)))
}

/// Returns the names in a virtual directory, each with the root that is mounted there, if any.
pub(crate) fn children(mounts: &[Mount], at: &str) -> BTreeMap<String, Option<RootId>> {
    let prefix = format!("{}/", at.trim_end_matches('/'));
    let mut names = BTreeMap::new();
    for mount in mounts {
        let Some(below) = mount.path.strip_prefix(&prefix) else {
            continue;
        };
        match below.split_once('/') {
            None if below.is_empty() => {}
            None => {
                names.insert(below.to_owned(), Some(mount.root));
            }
            Some((name, _)) => {
                names.entry(name.to_owned()).or_insert(None);
            }
        }
    }
    names
}

/// Returns the root of the mount that directly contains the mount at `path`, and the inner mount's name in it.
pub(crate) fn outer_of<'a>(mounts: &[Mount], path: &'a str) -> Option<(RootId, &'a str)> {
    let (outer, name) = path.rsplit_once('/')?;
    mounts.iter().find(|mount| mount.path == outer).map(|mount| (mount.root, name))
}

fn find(mounts: &[Mount], path: &str) -> Option<RootId> {
    let path = if path.is_empty() { "/" } else { path };
    mounts.iter().find(|mount| mount.path == path).map(|mount| mount.root)
}

/// Returns `true` if a mount is below an absolute path.
pub(crate) fn is_above_a_mount(mounts: &[Mount], path: &str) -> bool {
    mounts.iter().any(|mount| mount.path.strip_prefix(path).is_some_and(|below| below.starts_with('/')))
}

/// Returns an inode number for a virtual directory: its path's FNV-1a hash, which is the same on every machine.
pub(crate) fn virtual_inode(path: &str) -> u64 {
    path.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// Returns a mount's directory.
pub(crate) fn directory(vfs: &Vfs, mount: &Mount) -> Result<FdTarget, WasiError> {
    let inode = vfs.root_dir(mount.root).ok_or_else(|| WasiError::UnknownRoot(mount.path.clone()))?;
    Ok(FdTarget::Directory { inode })
}

/// Checks that each mount is valid and that no two mounts have the same path.
pub(crate) fn check_mounts(vfs: &Vfs, mounts: &[Mount]) -> Result<(), WasiError> {
    for (index, mount) in mounts.iter().enumerate() {
        if !is_mountable(&mount.path) {
            return Err(WasiError::MountPath(mount.path.clone()));
        }
        if device::is_device_path(&mount.path) {
            return Err(WasiError::MountAtDevice(mount.path.clone()));
        }
        if mounts.iter().skip(index.saturating_add(1)).any(|other| other.path == mount.path) {
            return Err(WasiError::MountTwice(mount.path.clone()));
        }
        directory(vfs, mount)?;
    }
    Ok(())
}

impl Wasi {
    /// Replaces the file system of a guest that was created from an image.
    ///
    /// A preopen keeps its descriptor and path, and refers to the new mount at that path. Every preopen needs a new
    /// mount. Other open files and directories are closed.
    ///
    /// # Errors
    /// Returns [`WasiError`] if the mounts are invalid or a preopen has no mount. On failure, the state is unchanged.
    pub fn set_file_system(&mut self, vfs: Vfs, mounts: Vec<Mount>) -> Result<(), WasiError> {
        check_mounts(&vfs, &mounts)?;
        let mut table = self.table.clone();
        for slot in table.iter_mut() {
            let Some(descriptor) = slot else { continue };
            if let (Some(path), FdTarget::Directory { .. }) = (&descriptor.preopen, &descriptor.target) {
                let mount = mounts.iter().find(|mount| mount.path == *path);
                let mount = mount.ok_or_else(|| WasiError::PreopenWithoutMount(path.clone()))?;
                descriptor.target = directory(&vfs, mount)?;
            } else if descriptor.preopen.is_none() && descriptor.target.inode().is_some() {
                *slot = None;
            }
        }
        table.recount();
        self.table = table;
        self.vfs = vfs;
        self.mounts = mounts;
        Ok(())
    }

    /// Takes the file system from the guest. Releases the guest's references to open files and directories, and closes
    /// their descriptors. Leaves an empty file system without roots, which must be replaced with
    /// [`rebind`](Self::rebind) or dropped.
    pub fn unbind(&mut self) -> Vfs {
        for slot in self.table.iter_mut() {
            if let Some(Descriptor { preopen: None, target, .. }) = slot
                && let Some(inode) = target.inode()
            {
                self.vfs.release(inode);
                *slot = None;
            }
        }
        self.table.recount();
        let empty = Vfs::new(*self.vfs.limits());
        std::mem::replace(&mut self.vfs, empty)
    }

    /// Replaces the file system with another version, such as the current workspace after a rollback of the guest. The
    /// new version must have the same roots, and must already contain the references of all its other users.
    ///
    /// Descriptors keep their positions and refer to the inodes with the same numbers. The guest acquires references to
    /// these inodes. Descriptors whose inode does not exist are closed.
    pub fn rebind(&mut self, vfs: Vfs) {
        self.vfs = vfs;
        for slot in self.table.iter_mut() {
            let Some(Descriptor { preopen, target, .. }) = slot else { continue };
            if let (Some(path), FdTarget::Directory { inode }) = (&preopen, &mut *target) {
                let mount = self.mounts.iter().find(|mount| mount.path == *path);
                *inode = mount.and_then(|mount| self.vfs.root_dir(mount.root)).unwrap_or(*inode);
            } else if let Some((inode, kind)) = target.opened() {
                let same = self.vfs.stat(inode).is_ok_and(|stat| stat.kind == kind);
                if !same || self.vfs.retain(inode).is_err() {
                    *slot = None;
                }
            }
        }
        self.table.recount();
    }

    /// Mounts a root of the current file system, replacing any mount at the same path.
    ///
    /// A guest that is already running sees a mount at a new path only through the preopen `/`
    /// ([`WasiConfig::root_preopen`](crate::WasiConfig::root_preopen)).
    ///
    /// # Errors
    /// Fails if the path is invalid, or the file system does not have the root.
    pub fn add_mount(&mut self, mount: Mount) -> Result<(), WasiError> {
        check_mounts(&self.vfs, std::slice::from_ref(&mount))?;
        let target = directory(&self.vfs, &mount)?;
        for slot in self.table.iter_mut() {
            if let Some(Descriptor { preopen: Some(path), target: old @ FdTarget::Directory { .. }, .. }) = slot
                && *path == mount.path
            {
                *old = target.clone();
            }
        }
        match self.mounts.iter_mut().find(|known| known.path == mount.path) {
            Some(known) => *known = mount,
            None => self.mounts.push(mount),
        }
        Ok(())
    }
}
