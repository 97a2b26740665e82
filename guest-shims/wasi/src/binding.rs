//! Replacing the file system of a guest.

use glovebox_vfs::Vfs;

use crate::mounting::{check_mounts, directory};
use crate::table::{Descriptor, Target};
use crate::{Mount, Wasi, WasiError};

impl Wasi {
    /// Replaces the file system of a guest that comes from an image.
    ///
    /// Preopens keep their descriptor and path and refer to the new mount of the same path; every preopen needs one.
    /// Other open files and directories are closed.
    ///
    /// # Errors
    /// [`WasiError`]; nothing has changed.
    pub fn set_file_system(&mut self, vfs: Vfs, mounts: Vec<Mount>) -> Result<(), WasiError> {
        check_mounts(&vfs, &mounts)?;
        let mut table = self.table.clone();
        for slot in table.iter_mut() {
            let Some(descriptor) = slot else { continue };
            if let (Some(path), Target::Directory { .. }) = (&descriptor.preopen, &descriptor.target) {
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

    /// Takes the file system from the guest. The guest releases its references to open files and loses the descriptors.
    /// An empty file system without roots remains, to be replaced with [`rebind`](Self::rebind) or dropped.
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

    /// Replaces the file system by another version, such as the current workspace after a rollback of the guest. The
    /// version must have the same roots, and the references of all its users except this guest.
    ///
    /// Descriptors keep their positions and refer to the inodes with the same numbers, of which the guest gets
    /// references. Descriptors whose inode does not exist are closed.
    pub fn rebind(&mut self, vfs: Vfs) {
        self.vfs = vfs;
        for slot in self.table.iter_mut() {
            let Some(Descriptor { preopen, target, .. }) = slot else { continue };
            if let (Some(path), Target::Directory { inode }) = (&preopen, &mut *target) {
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

    /// Mounts a root of the current file system, replacing a mount at the same path.
    ///
    /// A guest that has started sees a mount at a new path only through the preopen `/`
    /// ([`WasiConfig::root_preopen`](crate::WasiConfig::root_preopen)).
    pub fn add_mount(&mut self, mount: Mount) -> Result<(), WasiError> {
        check_mounts(&self.vfs, std::slice::from_ref(&mount))?;
        let target = directory(&self.vfs, &mount)?;
        for slot in self.table.iter_mut() {
            if let Some(Descriptor { preopen: Some(path), target: old @ Target::Directory { .. }, .. }) = slot
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
