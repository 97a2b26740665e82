//! All tests of the engine, command and providers that do not need a separate process. They are one program, so that
//! Wasmtime is linked only once.
//!
//! `cargo test --test all fuel::` runs the tests in one file. Tests that measure memory run in a child process, which
//! is this program with the name of one test.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test program: a panic is a failed test, and bits are what is compared"
)]

mod attacks;
mod cancel;
mod capabilities;
mod checkpoints;
mod component;
mod daemon;
mod events;
mod execution_json;
mod fleet_engine;
mod fuel;
mod fuzz_smoke;
mod guarded;
mod guidance;
mod hibernate;
mod hostile_applications;
mod hostile_components;
mod house;
mod idle_session;
mod images;
mod intl;
mod limits;
mod manifests;
mod mcp;
mod metering;
mod names;
mod network;
mod persist;
mod public_programs;
mod recycled;
mod reference;
mod repository;
mod requests;
mod rewritten;
mod rollback;
mod runtimes;
mod security;
mod server;
mod session_files;
mod session_model;
mod session_threads;
mod session_variables;
mod sessions;
mod shared_workspace;
mod soak;
mod soak_sessions;
mod soft_stop;
mod stepping;
mod stored;
mod threads;
mod tool_stubs;
mod tools;
mod turns;
mod typescript;
mod unmetered;
mod values;
mod weave;
mod workspace;
