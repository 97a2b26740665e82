//! Workspaces as tar archives.

mod export;
mod header;
mod import;

pub(super) use export::export;
pub(super) use import::import;
