//! The devices: files at fixed paths outside the file system.
//!
//! They are visible through the preopen `/`, whatever is mounted, and not listed in any directory.

use crate::{DISPLAYS_DEVICE, NULL_DEVICE, SCRYPT_DEVICE, TOOLS_DEVICE};

/// The guest's path of the space device. It is visible like [`TOOLS_DEVICE`]. Each read gives, as decimal numbers with a space between them, the
/// quota of the files in bytes, how much of it is used, the quota of files, directories and links, and how many there are.
pub const SPACE_DEVICE: &str = "/dev/glovebox/space";

/// The directory whose entries are the open descriptors, by number.
const DESCRIPTORS: &str = "/dev/fd";
/// Other names of the standard streams, as in Linux.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// A device.
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

    /// Its absolute path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Null => NULL_DEVICE,
            Self::Tools => TOOLS_DEVICE,
            Self::Displays => DISPLAYS_DEVICE,
            Self::Space => SPACE_DEVICE,
            Self::Scrypt => SCRYPT_DEVICE,
        }
    }

    /// The device at an absolute path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.path() == path)
    }
}

/// The paths that are not the file system's.
fn claimed() -> impl Iterator<Item = &'static str> {
    Device::ALL.into_iter().map(Device::path).chain(STREAMS).chain([DESCRIPTORS])
}

/// The open descriptor that an absolute path names.
pub(crate) fn descriptor_at(path: &str) -> Option<u32> {
    if let Some(number) = path.strip_prefix(DESCRIPTORS).and_then(|rest| rest.strip_prefix('/')) {
        // Each has one name.
        let is_canonical = number == "0" || !number.starts_with(['0', '+']);
        return if is_canonical { number.parse().ok() } else { None };
    }
    (0..).zip(STREAMS).find_map(|(fd, stream)| (path == stream).then_some(fd))
}

/// Whether an absolute path is that of a directory that contains one of them.
pub(crate) fn is_above_one(path: &str) -> bool {
    claimed().any(|claimed| is_within(claimed, path))
}

/// Whether an absolute path is one of them, or would lie in one.
pub(crate) fn claims(path: &str) -> bool {
    claimed().any(|claimed| is_within(path, claimed))
}

/// Whether an absolute path is `above` or lies below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}
