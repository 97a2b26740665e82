//! The mapping of guest paths to roots of the file system.

use std::collections::BTreeMap;

use glovebox_vfs::RootId;

use crate::Errno;
use crate::device::{Device, descriptor_at, is_above_one};

/// A root of the file system at an absolute guest path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// An absolute path without `.`, `..` or doubled slashes, such as `/app`.
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

/// The target of a path above the mounts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Above {
    /// Inside a mount: its root, and the path from there.
    Mounted {
        root: RootId,
        path: String,
    },
    /// A directory that exists only because a mount is below it, by its absolute path.
    Virtual {
        path: String,
    },
    Device(Device),
    /// An open descriptor.
    Descriptor(u32),
}

/// Returns whether a path is a valid mount point.
pub(crate) fn is_mountable(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains('\0')
        && (path == "/" || path.split('/').skip(1).all(|part| !matches!(part, "" | "." | "..")))
}

/// Resolves `path`, relative to the virtual directory `at`.
///
/// The directories above the mounts contain no links, so the resolution is lexical up to a mount. From there the file
/// system resolves the path, and refuses to leave the mount. Outside every mount the result is `ENOTCAPABLE`, which the
/// caller translates for its call.
pub(crate) fn resolve(mounts: &[Mount], at: &str, path: &str) -> Result<Above, Errno> {
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
            // The path leaves an inner mount and may enter it again, as long as no link has been followed on the way.
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
                let found = Device::at(&here).map(Above::Device);
                if let Some(found) = found.or_else(|| descriptor_at(&here).map(Above::Descriptor)) {
                    // A device has no entries, and a slash after it would require a directory.
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
        Some((root, "")) => Above::Mounted { root, path: ".".to_owned() },
        // More slashes may follow the mount's own name, but a path from the mount must not begin with a slash.
        Some((root, rest)) => {
            let rest = rest.trim_start_matches('/');
            Above::Mounted { root, path: if rest.is_empty() { "." } else { rest }.to_owned() }
        }
        None if here.is_empty() => Above::Virtual { path: "/".to_owned() },
        None if is_above_a_mount(mounts, &here) => Above::Virtual { path: here },
        // The directories above the devices exist only for the devices.
        None => return Err(Errno::NotCapable),
    })
}

/// Returns the device or descriptor at `path`, relative to `/`.
pub(crate) fn special(path: &str) -> Option<Above> {
    resolve(&[], "/", path).ok().filter(|found| matches!(found, Above::Device(_) | Above::Descriptor(_)))
}

/// Returns the names in a virtual directory, each with the root mounted there, if any.
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

/// Returns the root of the mount that contains the mount at this path, and the inner mount's name in it.
pub(crate) fn outer_of<'a>(mounts: &[Mount], path: &'a str) -> Option<(RootId, &'a str)> {
    let (outer, name) = path.rsplit_once('/')?;
    mounts.iter().find(|mount| mount.path == outer).map(|mount| (mount.root, name))
}

fn find(mounts: &[Mount], path: &str) -> Option<RootId> {
    let path = if path.is_empty() { "/" } else { path };
    mounts.iter().find(|mount| mount.path == path).map(|mount| mount.root)
}

/// Returns whether an absolute path is that of a directory that exists because a mount is below it.
pub(crate) fn is_above_a_mount(mounts: &[Mount], path: &str) -> bool {
    mounts.iter().any(|mount| mount.path.strip_prefix(path).is_some_and(|below| below.starts_with('/')))
}

/// Returns an inode number for a virtual directory, the same on every machine (FNV-1a).
pub(crate) fn virtual_inode(path: &str) -> u64 {
    path.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}
