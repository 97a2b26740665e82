//! Limits and grants of applications.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod grants;
mod host_memory;
mod hostile;
mod invoking;
mod limits;
mod loading;
mod sandboxed;
mod stopping;
mod support;
mod tools;
