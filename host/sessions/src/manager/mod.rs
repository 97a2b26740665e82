//! Sessions that outlive their process: live sessions in memory, hibernated sessions in a store.
//!
//! * [`sessions`]: opens, lists and removes sessions; [`transfer`]: forks, exports and imports them.
//! * [`slot`]: the state of one session, resuming and hibernating; [`slots`]: all sessions in use; [`guard`]: handles.
//! * [`storage`]: the store, the policy and the sandboxes.
//! * [`hibernating`]: saves live sessions and drops them.

mod error;
mod guard;
mod hibernating;
mod sessions;
mod slot;
mod slots;
mod storage;
mod transfer;

pub use error::SessionsError;
pub use guard::{ActiveSession, SessionGuard};
pub use hibernating::{HibernateReport, IdleThread};
pub use hibernating::{Save, StorePolicy};
pub use sessions::{ListedPage, ListedSession, NewSession, Sessions, SessionsBuilder};
