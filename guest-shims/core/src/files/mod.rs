//! The files of a workspace, read and changed from outside the guest.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute paths and paths with `..` are refused.
//! * *Links* that a guest created are followed inside the workspace, as the guest would.
//! * *All or nothing*: a change that fails, for example at a quota, leaves the workspace unchanged.

pub mod change;
mod entry;
mod error;
pub mod path;
mod pattern;
mod snapshot;
pub mod walk;

pub use entry::{FileEntry, FilePage, IfExists, ListLimits};
pub use error::{FileError, FileErrorKind};
pub use snapshot::{Snapshot, check_pattern, fill};
