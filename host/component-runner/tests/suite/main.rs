//! Limits and grants of applications.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod grants;
mod hostile;
mod invoking;
mod limits;
mod support;
mod tools;
