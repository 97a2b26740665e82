//! Tar archives of workspaces.

mod export;
mod header;
mod import;

pub(super) use export::export;
pub(super) use import::import;
