//! Generates pseudo-random numbers from a seed. The printed seed reproduces a run.

/// A SplitMix64 generator: small, and good enough for test inputs.
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
