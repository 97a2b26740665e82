//! The files of a workspace, for the embedder: looking at them, changing them, and carrying them in and out.
//!
//! Two types: [`Files`] is a workspace as it was at one moment and is only read; [`SessionFiles`] is a session's (or a
//! shared one) as it is now, and changes it between two executions, in their order.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute ones and such with `..` are refused; nothing
//!   here resolves a path on the host but the two copies, and these only beneath the place that the caller names.
//! * *Links* that a guest made are followed inside the workspace, as the guest would; the copies and the archives carry
//!   links over as links and go through none.
//! * *All or nothing*: a change that fails, at a quota say, leaves the workspace as it was, and a copy to the host that
//!   fails leaves the host as it was.

mod archive;
mod carry;
mod entry;
mod error;
mod place;
mod reading;
mod session;
mod snapshot;

#[cfg(test)]
mod tests;

pub use entry::CopyReport;
pub use error::FilesError;
pub use glovebox_core::files::{FileEntry, FilePage, IfExists, ListLimits};
pub use session::SessionFiles;
pub use snapshot::Files;

/// Checks a pattern of file names, before there are files to match.
///
/// # Errors
/// [`FilesError::Pattern`], as [`Files::list`].
pub fn check_pattern(pattern: &str) -> Result<(), FilesError> {
    Ok(glovebox_core::files::check_pattern(pattern)?)
}
