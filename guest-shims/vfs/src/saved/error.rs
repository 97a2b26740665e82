//! Why a file system cannot be restored.

use thiserror::Error;

use crate::encoding::Damaged;

/// Why saved bytes were refused. The file system is then what it was.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RestoreError {
    /// They are not what was saved.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// They were saved by another version.
    #[error("the file system was saved in version {0} of the layout; restore it with the release that saved it")]
    Version(u8),
    /// The roots are others than those that were saved.
    #[error("the file system was saved with other mounts; restore it with the same ones in the same order")]
    OtherRoots,
    /// A mount has changes that may not be made any more.
    #[error("a mount that is read-only now was changed and not committed; mount it read-write, or discard the changes")]
    ReadOnly,
    /// What was saved is more than may be held now.
    #[error("what was saved is over the limit `{0}`; raise it")]
    Limit(
        /// The field of [`VfsLimits`](crate::VfsLimits), or `memory` for the ceiling of
        /// [`Vfs::set_available_bytes`](crate::Vfs::set_available_bytes).
        &'static str,
    ),
}
