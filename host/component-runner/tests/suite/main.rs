//! Tests of the limits and grants of applications.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod concurrent;
mod grants;
mod invoking;
mod limits;
mod support;
