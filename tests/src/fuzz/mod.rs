//! The bodies of the fuzz targets, which are functions of a byte string.
//!
//! `cargo fuzz` calls them from `tests/fuzz/fuzz_targets/`. The smoke run in CI calls them from
//! `tests/tests/all/fuzz_smoke.rs`, with inputs generated from a printed seed.

mod hibernated;
mod manifest;
mod path_resolution;
mod saved_state;
mod snapshot;
mod suspended;
mod wasi_args;

pub use hibernated::{forged, hibernated};
pub use manifest::manifest;
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

/// The rest of a fuzzer's bytes, from which structured values are read. Numbers past the end are 0, and byte strings
/// stop there.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, max: usize) -> usize {
        usize::from(self.byte()) % max
    }

    /// Reads a length-prefixed byte string of at most `max` bytes.
    fn run(&mut self, max: usize) -> &'a [u8] {
        let wanted = usize::from(self.byte()).min(max);
        let (run, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        run
    }

    /// Reads a number from one, two or nine bytes. Prefers small numbers, numbers near `edge` or `u64::MAX`, and
    /// multiples of 256.
    fn number(&mut self, edge: u64) -> u64 {
        let near = u64::from(self.byte());
        match near >> 5 {
            0 | 1 => near & 0x1F,
            2 => u64::from(self.byte()),
            3 => edge.wrapping_sub(near & 0x1F),
            4 => edge.wrapping_add(near & 0x1F),
            5 => u64::MAX - (near & 0x1F),
            6 => 256 * u64::from(self.byte()),
            _ => (0..8).fold(0, |sum, _| (sum << 8) | u64::from(self.byte())),
        }
    }
}

/// A SplitMix64 generator of pseudo-random numbers: small, and good enough for test inputs. The printed seed reproduces a
/// run.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `max`, which must be at least 1.
    pub fn below(&mut self, max: usize) -> usize {
        usize::try_from(self.number() % max as u64).expect("the remainder fits into a usize")
    }

    /// Returns at most `max` random bytes.
    pub fn bytes(&mut self, max: usize) -> Vec<u8> {
        let len = self.below(max + 1);
        (0..len).map(|_| self.number().to_le_bytes()[0]).collect()
    }

    /// Returns a changed copy of `input`: bytes are overwritten, flipped, inserted or removed, or a range is
    /// duplicated.
    pub fn mutate(&mut self, input: &[u8]) -> Vec<u8> {
        let mut out = input.to_vec();
        for _ in 0..=self.below(6) {
            if out.is_empty() {
                out = self.bytes(32);
                continue;
            }
            let at = self.below(out.len());
            let byte = self.number().to_le_bytes()[0];
            match self.below(6) {
                0 => out[at] = byte,
                1 => out[at] ^= 1 << self.below(8),
                2 => out.insert(at, byte),
                3 => drop(out.remove(at)),
                4 => out.truncate(at),
                _ => {
                    let end = (at + 1 + self.below(64)).min(out.len());
                    let part = out[at..end].to_vec();
                    out.splice(at..at, part);
                }
            }
        }
        out
    }
}
