//! Sessions that outlive their process: live ones in memory, hibernated ones in a store.
//!
//! * [`sessions`]: opening, listing and removing them; [`transfer`]: forking, exporting and importing.
//! * [`slot`]: where one session is, and how it is resumed and hibernated; [`slots`]: all of those in use; [`guard`]: the handles to them.
//! * [`storage`]: where they are stored, and what they run in.
//! * [`hibernating`]: writing live sessions to the store and dropping them.

mod error;
mod guard;
mod hibernating;
mod policy;
mod sessions;
mod slot;
mod slots;
mod storage;
mod transfer;

pub use error::SessionsError;
pub use guard::{ActiveSession, SessionGuard};
pub use hibernating::{HibernateReport, IdleThread};
pub use policy::{Save, StorePolicy};
pub use sessions::{ListedPage, ListedSession, NewSession, Sessions, SessionsBuilder};
