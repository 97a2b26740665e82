//! Sessions that outlive their process: live ones in memory, resting ones in a store.
//!
//! * [`sessions`]: opening, listing and removing them; [`transfer`]: forking, exporting and importing.
//! * [`slot`]: where one session is, and how it wakes and goes to rest; [`slots`]: all of those in use; [`guard`]: the handles to them.
//! * [`storage`]: where they are stored, and what they run in.
//! * [`resting`]: putting live sessions to rest.

mod error;
mod guard;
mod policy;
mod resting;
mod sessions;
mod slot;
mod slots;
mod storage;
mod transfer;

pub use error::SessionsError;
pub use guard::{AwakeSession, SessionGuard};
pub use policy::{Save, StorePolicy};
pub use resting::{IdleThread, RestReport};
pub use sessions::{KeptInfo, NewSession, Sessions, SessionsBuilder};
