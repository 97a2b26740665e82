//! Functions of the host that scripts may call.

mod account;

pub use account::{Account, Held};
