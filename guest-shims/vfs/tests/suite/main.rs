//! Tests of the file system: hazards, random operations against a model, and random paths.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a failed expectation should fail the test"
)]

mod fuzz_resolution;
mod hazards;
mod model;
mod support;
