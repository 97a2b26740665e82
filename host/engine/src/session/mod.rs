//! Sessions: interpreters that persist between executions.
//!
//! * [`handle`]: the public [`Session`], and its turns ([`line`]).
//! * [`backend`]: the engine's part of a session, including its private [`pages`], which are compared with the
//!   pristine image.
//! * [`shared`]: files that several sessions share.
//!
//! `glovebox-core` contains the rest: the state machine of a session, its checkpoints, its rollback, and the ledger of
//! all sessions.

mod backend;
mod handle;
pub(crate) mod hibernate;
mod line;
mod options;
mod pages;
mod shared;

pub(crate) use options::check_id;
pub(crate) use pages::{Pristine, bits};

pub use handle::Session;
pub use options::SessionOptions;
pub use shared::SharedWorkspace;
