//! The guest's random bytes.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::Host;

/// The source of the guest's random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// The host's generator.
    Host,
    /// ChaCha20 with this key, stream 0, from its beginning: the same bytes in every run.
    Seeded([u8; 32]),
}

impl Entropy {
    /// Returns the generator for a small seed. The key is the seed in eight bytes, little-endian, followed by zeros.
    pub fn seeded(seed: u64) -> Self {
        let mut key = [0; 32];
        for (to, from) in key.iter_mut().zip(seed.to_le_bytes()) {
            *to = from;
        }
        Self::Seeded(key)
    }
}

/// The generator with its position. A clone continues from the same position.
#[derive(Clone, Debug)]
pub(crate) enum Generator {
    Host,
    // Boxed: the generator keeps a block of output, a third of a kilobyte.
    Seeded(Box<ChaCha20Rng>),
}

impl Generator {
    pub(crate) fn new(entropy: Entropy) -> Self {
        match entropy {
            Entropy::Host => Self::Host,
            Entropy::Seeded(key) => Self::Seeded(Box::new(ChaCha20Rng::from_seed(key))),
        }
    }

    pub(crate) fn fill<H: Host + ?Sized>(&mut self, host: &mut H, into: &mut [u8]) {
        match self {
            Self::Host => host.fill_random(into),
            Self::Seeded(generator) => generator.fill_bytes(into),
        }
    }

    /// Returns the position in 32-bit words from the beginning of the stream.
    pub(crate) fn position(&self) -> Option<u128> {
        match self {
            Self::Host => None,
            Self::Seeded(generator) => Some(generator.get_word_pos()),
        }
    }

    pub(crate) fn set_position(&mut self, words: u128) {
        if let Self::Seeded(generator) = self {
            generator.set_word_pos(words);
        }
    }
}
