//! Sessions: interpreters that persist between executions.
//!
//! * [`handle`]: the public [`Session`], and its turns ([`line`]).
//! * [`backend`]: what the engine gives a session, its private [`pages`] compared with the [`pristine`] image among it.
//! * [`shared`]: files that several sessions have in common.
//!
//! What a session is, what is saved of it, which states it can be set back to and what all sessions hold together is `glovebox-core`'s.

mod backend;
mod handle;
mod info;
mod line;
mod options;
mod pages;
mod pristine;
mod shared;

pub(crate) use options::check_id;
pub(crate) use pristine::{Pristine, bits};

pub use handle::Session;
pub use options::SessionOptions;
pub use shared::SharedWorkspace;
