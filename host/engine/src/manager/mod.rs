//! Sessions that outlive their process: live ones in memory, resting ones in a store.
//!
//! * [`sessions`]: opening, listing and removing them; [`transfer`]: forking, exporting and importing.
//! * [`slot`]: where one session is, and how it wakes and goes to rest; [`kept`]: the handles to it.
//! * [`resting`]: which live sessions are put to rest.

mod error;
mod guard;
mod policy;
mod resting;
mod sessions;
mod slot;
mod transfer;

pub use error::SessionsError;
pub use guard::{AwakeSession, SessionGuard};
pub use policy::{Save, StorePolicy};
pub use resting::{IdleThread, RestReport};
pub use sessions::{KeptInfo, NewSession, Sessions, SessionsBuilder};
