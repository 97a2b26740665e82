//! Tools of a request that somebody answers over HTTP: callbacks.
//!
//! * `allowed`: the addresses that may be called.
//! * `addresses`: those of the network that lead to nobody's private machines.
//! * `signature`: how a call says that it comes from this server.
//! * `callbacks`: the calls themselves.

mod addresses;
mod allowed;
mod callbacks;
mod signature;

pub use callbacks::{Callback, Callbacks, CallbacksConfig, CallbacksError};
