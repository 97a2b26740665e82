//! Errors of custom images.

use std::io;
use std::path::PathBuf;

use glovebox_vfs::{escaped, escaped_text};

use crate::{CacheError, OwnPackageError};

/// Why a custom image cannot be defined, stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnImageError {
    /// The name is invalid for an image.
    #[error(
        "`{name}` cannot be an image's name; use 1 to 64 letters, digits, `.`, `-`, `_`, `+` or `!`, a letter or digit first",
        name = escaped(.0)
    )]
    Name(String),
    /// No image has this name.
    #[error("there is no custom image `{name}`; `glovebox image list` lists them", name = escaped(.0))]
    Missing(String),
    /// An image with this name exists.
    #[error("image `{name}` already exists; remove it first, or replace it with `--replace`", name = escaped(.0))]
    Taken(String),
    /// A runtime has this name.
    #[error("`{name}` is a runtime of Glovebox; choose another name for the image", name = escaped(.0))]
    Runtime(String),
    /// The definition is invalid.
    #[error("image `{name}`: {problem}", name = escaped(.name), problem = escaped_text(.problem))]
    Invalid {
        /// Name of the image.
        name: String,
        /// Description of the problem.
        problem: String,
    },
    /// The image was made for another version of its interpreter.
    #[error(
        "image `{name}` was built for another version of `{runtime}`; build it again", name = escaped(.name), runtime = escaped(.runtime)
    )]
    Outdated {
        /// Name of the image.
        name: String,
        /// Name of the base runtime.
        runtime: String,
    },
    /// A wheel cannot be used.
    #[error(transparent)]
    Wheel(#[from] OwnPackageError),
    /// The file is not an exported image, or is damaged.
    #[error("`{path}` is not an image, or damaged: {problem}", path = escaped(.path), problem = escaped_text(.problem))]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{path}`", path = escaped(.path))]
    File {
        /// Name of the operation.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The directory of images cannot be used.
    #[error(transparent)]
    Directory(#[from] CacheError),
}
