//! Errors of restoring a state.

use glovebox_vfs::encoding::Damaged;
use glovebox_vfs::{escaped, escaped_text};

/// The reason for rejecting saved bytes. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are not a saved state.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The bytes were saved in another version of the layout.
    #[error("the state was saved in version {0} of the layout; restore it with the release that saved it")]
    Version(u8),
    /// The paths of the mounts, or their order, differ from the saved ones.
    #[error(
        "the state was saved with mounts at {saved}, and here they are at {present}; mount the same paths in the same order",
        saved = escaped_text(.saved), present = escaped_text(.present)
    )]
    OtherMounts {
        /// The saved mounts.
        saved: String,
        /// The current mounts.
        present: String,
    },
    /// A mounted path has another kind of root.
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
    /// The saved descriptors exceed the limit on open files. Holds their number.
    #[error("{0} descriptors are open; raise the limit on open files")]
    OpenFiles(u64),
    /// The rest of standard input exceeds the memory limit.
    #[error("the rest of standard input exceeds the memory limit; raise it")]
    Memory,
    /// A file is open for writing in a mount that is now read-only.
    #[error("a file in `{name}` is open for writing, but the mount is now read-only; mount it read-write", name = escaped(.0))]
    ReadOnly(String),
    /// The saved file system was rejected.
    #[error(transparent)]
    FileSystem(#[from] glovebox_vfs::RestoreError),
}
