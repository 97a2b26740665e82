//! The bodies of the fuzz targets, which are functions of a byte string.
//!
//! `cargo fuzz` calls them from `tests/fuzz/fuzz_targets/`. The smoke run in CI calls them from
//! `tests/tests/all/fuzz_smoke.rs`, with inputs generated from a printed seed.

mod bytes;
mod hibernated;
mod manifest;
mod numbers;
mod path_resolution;
mod saved_state;
mod snapshot;
mod suspended;
mod wasi_args;

pub use hibernated::{forged, hibernated};
pub use manifest::manifest;
pub use numbers::Numbers;
pub use path_resolution::path_resolution;
pub use saved_state::saved_state;
pub use snapshot::snapshot;
pub use suspended::suspended;
pub use wasi_args::wasi_args;

/// A fuzz target: its name, its body and its seed inputs.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name that `cargo fuzz run` uses.
    pub name: &'static str,
    /// The function under test. A panic is a finding.
    pub body: fn(&[u8]),
    /// Returns valid inputs to mutate.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All fuzz targets.
pub const TARGETS: [Target; 7] = [
    Target { name: "hibernated", body: hibernated, seeds: hibernated::seeds },
    Target { name: "manifest", body: manifest, seeds: manifest::seeds },
    Target { name: "path_resolution", body: path_resolution, seeds: path_resolution::seeds },
    Target { name: "saved_state", body: saved_state, seeds: saved_state::seeds },
    Target { name: "snapshot", body: snapshot, seeds: snapshot::seeds },
    Target { name: "suspended", body: suspended, seeds: suspended::seeds },
    Target { name: "wasi_args", body: wasi_args, seeds: wasi_args::seeds },
];
