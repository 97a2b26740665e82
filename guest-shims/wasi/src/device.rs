//! The devices: files at fixed paths outside the file system.
//!
//! Devices are visible through the preopen `/`, regardless of the mounts, and not listed in any directory.

use crate::{
    DISPLAYS_DEVICE, Errno, SCRYPT_DEVICE,
    memory::{guest_size, size},
    streams::{Source, held_bytes},
};

/// The guest's path of the space device. It is visible like [`TOOLS_DEVICE`]. Each read returns four decimal numbers,
/// separated by spaces: the quota of the files in bytes, the used bytes, the quota of files, directories and links, and
/// their number.
pub const SPACE_DEVICE: &str = "/dev/glovebox/space";

/// The directory whose entries are the open descriptors, by number.
const DESCRIPTORS: &str = "/dev/fd";
/// Other names of the standard streams, as in Linux.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// [`NULL_DEVICE`]: reads are at the end of the file, writes are dropped.
    Null,
    /// [`TOOLS_DEVICE`].
    Tools,
    /// [`DISPLAYS_DEVICE`]: reads are at the end of the file.
    Displays,
    /// [`SPACE_DEVICE`]: writes are refused.
    Space,
    /// [`SCRYPT_DEVICE`].
    Scrypt,
}

impl Device {
    const ALL: [Self; 5] = [Self::Null, Self::Tools, Self::Displays, Self::Space, Self::Scrypt];

    /// Returns the absolute path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Null => NULL_DEVICE,
            Self::Tools => TOOLS_DEVICE,
            Self::Displays => DISPLAYS_DEVICE,
            Self::Space => SPACE_DEVICE,
            Self::Scrypt => SCRYPT_DEVICE,
        }
    }

    /// Returns the device at an absolute path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.path() == path)
    }
}

/// Returns the paths that do not belong to the file system.
fn claimed() -> impl Iterator<Item = &'static str> {
    Device::ALL.into_iter().map(Device::path).chain(STREAMS).chain([DESCRIPTORS])
}

/// Returns the open descriptor that an absolute path names.
pub(crate) fn descriptor_at(path: &str) -> Option<u32> {
    if let Some(number) = path.strip_prefix(DESCRIPTORS).and_then(|rest| rest.strip_prefix('/')) {
        // Each descriptor has one name.
        let is_canonical = number == "0" || !number.starts_with(['0', '+']);
        return if is_canonical { number.parse().ok() } else { None };
    }
    (0..).zip(STREAMS).find_map(|(fd, stream)| (path == stream).then_some(fd))
}

/// Returns whether an absolute path is that of a directory that contains a device or a name of a descriptor.
pub(crate) fn is_above_one(path: &str) -> bool {
    claimed().any(|claimed| is_within(claimed, path))
}

/// Returns whether an absolute path is that of a device or a name of a descriptor, or below one.
pub(crate) fn claims(path: &str) -> bool {
    claimed().any(|claimed| is_within(path, claimed))
}

/// Returns whether an absolute path is `above` or below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The guest's path of the null device. It is visible like [`TOOLS_DEVICE`].
pub const NULL_DEVICE: &str = "/dev/null";

/// The guest's path of the tools device. It is visible through the preopen `/`, regardless of the mounts, and not
/// listed in any directory.
pub const TOOLS_DEVICE: &str = "/dev/glovebox/tools";

/// The reply that the guest is reading. There is a single one, shared by all descriptors of the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolsDevice {
    frame: Vec<u8>,
    position: usize,
}

impl ToolsDevice {
    /// Makes a reply available for reading, prefixed by its length as four bytes, little-endian.
    pub(crate) fn put(&mut self, reply: &[u8]) -> Result<(), Errno> {
        let len = guest_size(reply.len())?;
        self.frame = [&len.to_le_bytes(), reply].concat();
        self.position = 0;
        Ok(())
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        held_bytes(&self.frame)
    }
}

impl Source for ToolsDevice {
    fn rest_bytes(&self) -> u64 {
        u64::try_from(self.frame.len().saturating_sub(self.position)).unwrap_or(u64::MAX)
    }

    fn next(&mut self, len: u32) -> &[u8] {
        let from = self.position;
        self.position = from.saturating_add(size(len)).min(self.frame.len());
        self.frame.get(from..self.position).unwrap_or_default()
    }
}
