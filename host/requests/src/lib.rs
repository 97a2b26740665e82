//! What requests from elsewhere bring along, whichever way they come: over HTTP, or through a fleet.
//!
//! * [`callbacks`]: tools that a service answers, at addresses that are allowed, by signed requests.
//! * [`cancelled`]: cancellation, for asynchronous code.

pub mod callbacks;
mod cancelled;

pub use cancelled::cancelled;
