//! The devices: files at fixed paths outside the file system.
//!
//! They are visible through the preopen `/`, whatever is mounted, and not listed in any directory.

use crate::{DISPLAYS_DEVICE, NULL_DEVICE, TOOLS_DEVICE};

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// [`NULL_DEVICE`]: reads are at the end of the file, writes are dropped.
    Null,
    /// [`TOOLS_DEVICE`].
    Tools,
    /// [`DISPLAYS_DEVICE`]: reads are at the end of the file.
    Displays,
}

impl Device {
    const ALL: [Self; 3] = [Self::Null, Self::Tools, Self::Displays];

    /// Its absolute path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Null => NULL_DEVICE,
            Self::Tools => TOOLS_DEVICE,
            Self::Displays => DISPLAYS_DEVICE,
        }
    }

    /// The device at an absolute path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.path() == path)
    }

    /// Whether an absolute path is that of a directory that contains a device.
    pub(crate) fn any_below(path: &str) -> bool {
        Self::ALL.iter().any(|device| is_within(device.path(), path))
    }

    /// Whether an absolute path is a device's, or would lie in one.
    pub(crate) fn claims(path: &str) -> bool {
        Self::ALL.iter().any(|device| is_within(path, device.path()))
    }
}

/// Whether an absolute path is `above` or lies below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}
