//! Sessions: interpreters that persist between executions.
//!
//! * [`SessionState`]: the state machine, over what a [`SessionBackend`] gives; what becomes of it when its guest is lost (`recovery`).
//! * [`Checkpoint`]: a saved state; [`Pages`]: the memory of it, as its difference to the image.
//! * [`History`]: the states that a session can be set back to, when one is due and which one undoing takes.
//! * [`SessionLedger`]: what all sessions hold together.

mod backend;
mod checkpoint;
mod history;
mod id;
mod info;
mod ledger;
mod pages;
mod policy;
mod recovery;
mod restore;
mod state;

pub use backend::{CtxOf, Memory, SessionBackend, SessionCall, SessionError, SessionFailure, SessionSetup};
pub use checkpoint::Checkpoint;
pub use history::{History, Saved};
pub use id::{MAX_SESSION_ID_BYTES, is_session_id};
pub use info::{CheckpointId, CheckpointInfo, Rollback, SessionInfo};
pub use ledger::{Place, Reservation, SessionLedger, SessionUsage, TooMany};
pub use pages::{GuestPages, PAGE_BYTES, Page, PageChange, Pages};
pub use policy::{Checkpoints, OnUnwind, SessionPolicy};
pub use restore::RandomNumbers;
pub use state::SessionState;
