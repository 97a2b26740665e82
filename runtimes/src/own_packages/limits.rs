//! How many packages of their own a user may have, and how large.

use crate::wheel_files::MAX_WHEEL_BYTES;

/// The maximum number of own packages.
pub const MAX_OWN_PACKAGES: usize = 128;

/// The maximum size of all own packages together, unpacked: they are held in memory from the first import on. Four
/// wheels of the maximum size.
pub const MAX_OWN_PACKAGES_BYTES: u64 = 4 * MAX_WHEEL_BYTES;

/// The maximum number of their files together.
pub const MAX_OWN_PACKAGES_FILES: usize = 16_384;
