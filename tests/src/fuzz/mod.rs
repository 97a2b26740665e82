//! The bodies of the fuzz targets, each a function of bytes.
//!
//! `cargo fuzz` calls them from `tests/fuzz/fuzz_targets/`. The smoke run in CI calls them from `tests/fuzz_smoke.rs`,
//! with inputs made from a printed seed.

mod bytes;
mod hibernated;
mod manifest;
mod numbers;
mod path_resolution;
mod saved_state;
mod snapshot;
mod wasi_args;

pub use hibernated::{forged, hibernated};
pub use manifest::manifest;
pub use numbers::Numbers;
pub use path_resolution::path_resolution;
pub use saved_state::saved_state;
pub use snapshot::snapshot;
pub use wasi_args::wasi_args;

/// A target: its name, its body, and its seed inputs.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name for `cargo fuzz run`.
    pub name: &'static str,
    /// The body. A panic in it is a finding.
    pub body: fn(&[u8]),
    /// Valid inputs, for mutation.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 6] = [
    Target { name: "hibernated", body: hibernated, seeds: hibernated::seeds },
    Target { name: "manifest", body: manifest, seeds: manifest::seeds },
    Target { name: "path_resolution", body: path_resolution, seeds: path_resolution::seeds },
    Target { name: "saved_state", body: saved_state, seeds: saved_state::seeds },
    Target { name: "snapshot", body: snapshot, seeds: snapshot::seeds },
    Target { name: "wasi_args", body: wasi_args, seeds: wasi_args::seeds },
];
