//! Applications in limits of their own, with what they are granted and nothing else.

#![expect(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod grants;
mod host_memory;
mod invoking;
mod limits;
mod loading;
mod sandboxed;
mod stopping;
mod support;
mod tools;
