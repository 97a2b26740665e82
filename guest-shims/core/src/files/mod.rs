//! The files of a workspace, seen and changed from outside the guest.
//!
//! * *Paths* are relative to the workspace, `/app` in the guest. Absolute ones and such with `..` are refused.
//! * *Links* that a guest made are followed inside the workspace, as the guest would.
//! * *All or nothing*: a change that fails, at a quota say, leaves the workspace as it was.

pub mod change;
mod entry;
mod error;
pub mod path;
mod pattern;
mod snapshot;
pub mod walk;

pub use entry::{FileEntry, IfExists};
pub use error::{FileError, FileErrorKind};
pub use snapshot::{Snapshot, fill};
