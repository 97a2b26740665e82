//! Limits on the number and size of user packages.

use crate::wheel_files::MAX_WHEEL_BYTES;

/// Maximum number of user packages.
pub const MAX_OWN_PACKAGES: usize = 128;

/// Maximum total size of all user packages, unpacked, in bytes: four wheels of the maximum size. They are in memory
/// from the first import on.
pub const MAX_OWN_PACKAGES_BYTES: u64 = 4 * MAX_WHEEL_BYTES;

/// Maximum total number of files in user packages.
pub const MAX_OWN_PACKAGES_FILES: usize = 16_384;
