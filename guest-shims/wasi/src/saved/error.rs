//! Why a state cannot be restored.

use glovebox_vfs::encoding::Damaged;
use glovebox_vfs::{escaped, escaped_text};

/// Why saved bytes were refused. The state is then unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are not a saved state.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Another version saved them.
    #[error("the state was saved in version {0} of the layout; restore it with the release that saved it")]
    Version(u8),
    /// The mounted paths or their order differ from those that were saved.
    #[error(
        "the state was saved with mounts at {saved}, and here they are at {present}; mount the same paths in the same order",
        saved = escaped_text(.saved), present = escaped_text(.present)
    )]
    OtherMounts {
        /// The saved mounts.
        saved: String,
        /// The mounts here.
        present: String,
    },
    /// The same paths are mounted, but with another kind of root.
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
    /// More descriptors are open than the limit allows.
    #[error("{0} descriptors are open; raise the limit on open files")]
    OpenFiles(u64),
    /// The rest of standard input exceeds the memory limit.
    #[error("the rest of standard input exceeds the memory limit; raise it")]
    Memory,
    /// A file is open for writing in a mount that is now read-only.
    #[error("a file in `{name}` is open for writing, but the mount is now read-only; mount it read-write", name = escaped(.0))]
    ReadOnly(String),
    /// The file system was refused.
    #[error(transparent)]
    FileSystem(#[from] glovebox_vfs::RestoreError),
}
