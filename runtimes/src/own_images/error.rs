//! Why an image of the user's own cannot be used.

use std::io;
use std::path::PathBuf;

use glovebox_vfs::{escaped, escaped_text};

use crate::{CacheError, OwnPackageError};

/// Why an image of the user's own could not be described, stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnImageError {
    /// It cannot have this name.
    #[error(
        "`{name}` cannot be an image's name; use 1 to 64 letters, digits, `.`, `-`, `_`, `+` or `!`, a letter or digit first",
        name = escaped(.0)
    )]
    Name(String),
    /// There is none of this name.
    #[error("there is no image `{name}` of your own; `glovebox image list` shows those that are there", name = escaped(.0))]
    Missing(String),
    /// There is one of this name.
    #[error("there is an image `{name}`; remove it first, or have it replaced (`--replace`)", name = escaped(.0))]
    Taken(String),
    /// A runtime has this name.
    #[error("`{name}` is a runtime of Glovebox; choose another name for the image", name = escaped(.0))]
    Runtime(String),
    /// Its description cannot be.
    #[error("image `{name}`: {problem}", name = escaped(.name), problem = escaped_text(.problem))]
    Invalid {
        /// The image.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The interpreter that it was made for is another one now.
    #[error(
        "image `{name}` was made for another `{runtime}` than this version of Glovebox has; build it again", name = escaped(.name), runtime = escaped(.runtime)
    )]
    Outdated {
        /// The image.
        name: String,
        /// Its runtime.
        runtime: String,
    },
    /// A wheel is not usable.
    #[error(transparent)]
    Wheel(#[from] OwnPackageError),
    /// A file is not an exported image, or a damaged one.
    #[error("`{path}` is not an image, or damaged: {problem}", path = escaped(.path), problem = escaped_text(.problem))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{path}`", path = escaped(.path))]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory of images cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
}
