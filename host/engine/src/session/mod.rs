//! Sessions: interpreters that are kept between executions.
//!
//! * [`handle`]: the public [`Session`], and its turns ([`line`]).
//! * [`live`]: what it is made of, and what becomes of it when its guest is unwound.
//! * [`checkpoint`]: a saved state: private [`pages`], compared with the [`pristine`] image, and what the host keeps;
//!   [`history`]: those that a session can be set back to.
//! * [`shared`]: files that several sessions have in common.
//! * [`ledger`]: what an engine's sessions hold together.

mod checkpoint;
mod handle;
mod history;
mod info;
mod ledger;
mod line;
mod live;
mod options;
mod pages;
mod pristine;
mod shared;

pub(crate) use checkpoint::{Awaken, Checkpoint};
pub(crate) use ledger::SessionLedger;
pub(crate) use options::check_id;
pub(crate) use pages::{Page, Pages};
pub(crate) use pristine::Pristine;

pub use handle::Session;
pub use info::{CheckpointId, CheckpointInfo, SessionInfo, WentBack};
pub use options::SessionOptions;
pub use shared::SharedWorkspace;
