//! Sessions: interpreters that persist between executions.
//!
//! * [`SessionState`]: the state machine, on top of a [`SessionBackend`]; the module `recovery` replaces lost guests.
//! * [`Checkpoint`]: a saved state; [`Pages`]: its memory, as the difference from the image.
//! * [`History`]: a session's checkpoints, when the next one is due, and which one an undo returns to.
//! * [`SessionLedger`]: the total usage of all sessions.

mod backend;
mod history;
mod info;
mod ledger;
mod pages;
mod recovery;
mod state;

pub use backend::{CtxOf, Memory, SessionBackend, SessionCall, SessionError, SessionFailure, SessionSetup};
pub use history::{History, Saved};
pub use info::{
    CheckpointId, CheckpointInfo, Checkpoints, MAX_SESSION_ID_BYTES, OnUnwind, Rollback, SessionInfo, SessionPolicy,
    is_session_id,
};
pub use ledger::{LedgerEntry, Reservation, SessionLedger, SessionUsage, TooMany};
pub use pages::{GuestPages, PAGE_BYTES, Page, PageChange, Pages};
pub use recovery::{Checkpoint, RandomNumbers};
pub use state::SessionState;
