//! Tools of a request that somebody answers over HTTP: callbacks.
//!
//! * `allowed`: the addresses that may be called.
//! * `addresses`: those of the network that lead to nobody's private machines.
//! * `signature`: how a call says that it comes from this server.
//! * `calls`: the calls themselves.

mod addresses;
mod allowed;
mod calls;
mod signature;

pub use calls::{Asked, Callback, CallbackRefused, Callbacks, CallbacksConfig, CallbacksError, Target};
