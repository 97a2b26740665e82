//! Errors of user packages.

use glovebox_vfs::{escaped, escaped_text};

use super::limits::{MAX_OWN_PACKAGES, MAX_OWN_PACKAGES_BYTES, MAX_OWN_PACKAGES_FILES};
use crate::wheel_files::WheelFault;
use crate::{CacheError, PackageError};

/// Why a user package cannot be added, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnPackageError {
    /// The file name is not the name of a wheel.
    #[error("`{name}` is not a wheel's file name; it must be like `NAME-VERSION-py3-none-any.whl`", name = escaped(.0))]
    FileName(String),
    /// The wheel is for a specific platform.
    #[error(
        "`{name}` is compiled for one platform (`{other}`); the sandbox runs only pure Python: look for a version of it that ends in `-none-any.whl`", name = escaped(.0), other = escaped(.1)
    )]
    Platform(String, String),
    /// The wheel is invalid.
    #[error("`{file}` cannot be used: {source}", file = escaped(.file))]
    Wheel {
        /// Name of the file.
        file: String,
        /// Defect of the wheel.
        source: WheelFault,
    },
    /// The wheel's metadata is missing or belongs to another package.
    #[error("`{file}` cannot be used: {problem}", file = escaped(.file), problem = escaped_text(.problem))]
    Metadata {
        /// Name of the file.
        file: String,
        /// Description of the problem.
        problem: String,
    },
    /// A module of the package has the same name as an existing one.
    #[error("cannot add `{name}`: {owner} also has a module `{module}`", name = escaped(.name), module = escaped(.module), owner = escaped_text(.owner))]
    Clash {
        /// Name of the package.
        name: String,
        /// Name of the module.
        module: String,
        /// Owner of the existing module.
        owner: String,
    },
    /// There are too many packages.
    #[error(
        "you already have {MAX_OWN_PACKAGES} packages of your own; remove one with `glovebox packages remove NAME`"
    )]
    TooMany,
    /// The packages exceed the limit on their total size.
    #[error(
        "with `{name}`, your packages would exceed {MAX_OWN_PACKAGES_BYTES} bytes, unpacked; remove some with \
         `glovebox packages remove NAME` (`glovebox packages list --json` shows their sizes)",
        name = escaped(.0)
    )]
    TooLarge(String),
    /// The packages exceed the limit on their total number of files.
    #[error(
        "with `{name}`, your packages would exceed {MAX_OWN_PACKAGES_FILES} files; remove some with \
         `glovebox packages remove NAME` (`glovebox packages list --json` shows their numbers of files)",
        name = escaped(.0)
    )]
    TooManyFiles(String),
    /// The package does not exist, or pip failed.
    #[error(transparent)]
    Fetch(#[from] PackageError),
    /// The directory of the packages cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
}
