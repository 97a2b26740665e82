//! Errors of restoring a file system.

use thiserror::Error;

use crate::encoding::Damaged;

/// The reason for rejecting saved bytes. The file system is unchanged.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are not a saved file system.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The bytes were saved in another version of the layout.
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
