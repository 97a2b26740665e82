//! Validation of mounts.

use glovebox_vfs::Vfs;

use crate::device;
use crate::mounts::is_mountable;
use crate::table::Target;
use crate::{Mount, WasiError};

/// Returns the directory of a mount.
pub(crate) fn directory(vfs: &Vfs, mount: &Mount) -> Result<Target, WasiError> {
    let inode = vfs.root_dir(mount.root).ok_or_else(|| WasiError::UnknownRoot(mount.path.clone()))?;
    Ok(Target::Directory { inode })
}

/// Checks that these mounts are valid together.
pub(crate) fn check_mounts(vfs: &Vfs, mounts: &[Mount]) -> Result<(), WasiError> {
    for (index, mount) in mounts.iter().enumerate() {
        if !is_mountable(&mount.path) {
            return Err(WasiError::MountPath(mount.path.clone()));
        }
        if device::claims(&mount.path) {
            return Err(WasiError::MountAtDevice(mount.path.clone()));
        }
        if mounts.iter().skip(index.saturating_add(1)).any(|other| other.path == mount.path) {
            return Err(WasiError::MountTwice(mount.path.clone()));
        }
        directory(vfs, mount)?;
    }
    Ok(())
}
