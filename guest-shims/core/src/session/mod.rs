//! Sessions: interpreters that persist between executions.
//!
//! * [`SessionState`]: the state machine, on top of a [`SessionBackend`]; the module `recovery` handles the loss of a
//!   guest.
//! * [`Checkpoint`]: a saved state; [`Pages`]: its memory, as the difference from the image.
//! * [`History`]: the checkpoints of a session, when the next one is due, and which one an undo returns to.
//! * [`SessionLedger`]: the total usage of all sessions.

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
