//! Why a file system cannot be restored.

use thiserror::Error;

use crate::encoding::Damaged;

/// Why saved bytes were refused. The file system is then unchanged.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are not a saved file system.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Another version saved them.
    #[error("the file system was saved in version {0} of the layout; restore it with the release that saved it")]
    Version(u8),
    /// The roots differ from those that were saved.
    #[error("the file system was saved with other mounts; restore it with the same ones in the same order")]
    OtherRoots,
    /// A read-only mount has uncommitted changes.
    #[error("a mount that is read-only now was changed and not committed; mount it read-write, or discard the changes")]
    ReadOnly,
    /// The saved state exceeds a limit.
    #[error("the saved state exceeds the limit `{0}`; raise it")]
    Limit(
        /// The field of [`VfsLimits`](crate::VfsLimits), or `memory` for the ceiling of
        /// [`Vfs::set_available_bytes`](crate::Vfs::set_available_bytes).
        &'static str,
    ),
}
