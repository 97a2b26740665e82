//! Callbacks: tools of a request that a service answers over HTTP.
//!
//! * `allowed`: the addresses that may be called.
//! * `addresses`: restricts DNS names to public addresses.
//! * `signature`: signs calls, to prove that they come from this server.
//! * `calls`: the calls themselves.

mod addresses;
mod allowed;
mod calls;
mod signature;

pub use calls::{Asked, Callback, CallbackRefused, Callbacks, CallbacksConfig, CallbacksError, Target};
