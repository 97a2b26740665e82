//! Why a state cannot be restored.

use glovebox_vfs::encoding::Damaged;
use glovebox_vfs::{escaped, escaped_text};

/// Why saved bytes were refused. The state is then what it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// They are not what was saved.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// They were saved by another version.
    #[error("the state was saved in version {0} of the layout; restore it with the release that saved it")]
    Version(u8),
    /// Other paths are mounted than when it was saved, or in another order.
    #[error(
        "the state was saved with mounts at {saved}, and here they are at {present}; mount the same paths in the same order",
        saved = escaped_text(.saved), present = escaped_text(.present)
    )]
    OtherMounts {
        /// What was mounted.
        saved: String,
        /// What is mounted.
        present: String,
    },
    /// The same paths are mounted, but of other kinds.
    #[error(
        "{0} was a directory of the host when the state was saved and is in memory here, or the other way round; give it the \
         same workspace and mounts"
    )]
    OtherMountKind(String),
    /// The image preopens other directories.
    #[error(
        "the state was saved by a guest with other preopened directories; restore it with the image that it came from"
    )]
    OtherPreopens,
    /// More descriptors are open than may be.
    #[error("{0} descriptors are open; raise the limit on open files")]
    OpenFiles(u64),
    /// Standard input is larger than memory may be.
    #[error("what is left of standard input is over the memory limit; raise it")]
    Memory,
    /// A file is open for writing in a mount that is read-only now.
    #[error("a file in `{name}` is open for writing and the mount is read-only now; mount it read-write", name = escaped(.0))]
    ReadOnly(String),
    /// The file system was refused.
    #[error(transparent)]
    FileSystem(#[from] glovebox_vfs::RestoreError),
}
