//! Tests `glovebox serve` as a process: its workers, its behaviour under load, and its data after `kill -9`.

#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod hostile;
mod load;
mod relayed;
mod server;
mod stored;
#[expect(dead_code, reason = "other tests of the command use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod suspending;
mod workers;
