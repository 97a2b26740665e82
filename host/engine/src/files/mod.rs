//! The files of a workspace for the embedder: reading and changing them, and copying them in and out.
//!
//! There are two types. [`Files`] is a read-only snapshot of a workspace. [`SessionFiles`] is the current workspace of
//! a session, or one that several sessions share. It changes files between executions; changes and executions run in
//! the order of their calls.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute paths and paths with `..` are rejected. Only
//!   copies resolve paths on the host, and only below the path from the caller.
//! * *Links* of the guest are followed inside the workspace, like the guest does. Copies and archives transfer links as
//!   links, without following them.
//! * *Atomicity*: a failed change, for example at a quota, leaves the workspace unchanged. A failed copy to the host
//!   leaves the host unchanged.

mod archive;
mod carry;
mod error;
mod place;
mod session;
mod snapshot;
pub(crate) mod workspace;

#[cfg(test)]
mod tests;

pub use carry::CopyReport;
pub use error::FilesError;
pub use glovebox_core::files::{FileEntry, FilePage, IfExists, ListLimits};
pub use session::SessionFiles;
pub use snapshot::Files;

/// Checks a pattern of file names, without files to match.
///
/// # Errors
/// [`FilesError::Pattern`], as for [`Files::list`].
pub fn check_pattern(pattern: &str) -> Result<(), FilesError> {
    Ok(glovebox_core::files::check_pattern(pattern)?)
}
