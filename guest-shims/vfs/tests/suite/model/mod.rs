//! Compares the file system with a simple model: a map of paths.

mod forged;
mod operations;
mod reference;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::support::seed;

/// Returns a test runner and prints its seed. Set the seed to repeat a failure. Proptest prints the smallest failing
/// input.
fn runner(test: &str) -> TestRunner {
    let seed = seed(test);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
