//! Random numbers that are identical on every machine: the generator's algorithm is fixed, and `libm` replaces the
//! system's math library.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Creates the stream for a seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Samples uniformly from `(0, 1]`. The result is never 0, so its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Samples an integer uniformly from `0..n`.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from((self.0.next_u64() >> 32) as u32) * u64::from(n)) >> 32) as u32
    }

    /// Samples the standard normal distribution with the Box-Muller transform.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.unit(), self.unit());
        (-2.0 * libm::log(radius)).sqrt() * libm::cos(core::f64::consts::TAU * angle)
    }

    /// Samples a log-normal distribution.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * libm::exp(sigma * self.normal())
    }

    /// Samples an index by weights that sum to 1.
    pub fn index(&mut self, weights: impl Iterator<Item = f64>) -> usize {
        let mut left = self.unit();
        let mut last = 0;
        for (index, weight) in weights.enumerate() {
            last = index;
            left -= weight;
            if left <= 0.0 {
                break;
            }
        }
        last
    }
}

/// Hashes a session and the number of an attempt with SplitMix64's finalizer.
pub fn hash(session: u32, attempt: u32) -> u64 {
    let mut z = (u64::from(session) << 32 | u64::from(attempt)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
