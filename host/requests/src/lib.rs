//! Support for external requests, whether over HTTP or through a fleet.
//!
//! * [`callbacks`]: tools answered by a service, at allowed addresses, through signed requests.
//! * [`cancelled`]: cancellation for async code.

pub mod callbacks;
mod cancelled;

pub use cancelled::cancelled;
