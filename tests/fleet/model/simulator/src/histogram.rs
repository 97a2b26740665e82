//! A histogram of durations, with buckets about one percent wide.

/// The binary logarithm of the number of buckets per octave.
const PER_OCTAVE_BITS: u32 = 6;
/// The biased exponent of the first bucket: 2^-20 s, a microsecond.
const FIRST_EXPONENT: u64 = 1023 - 20;
/// The number of octaves. The last bucket ends at 2^14 s, four and a half hours.
const OCTAVES: usize = 34;

/// The number of durations in each bucket.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u32>,
    total: u64,
    sum_s: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; OCTAVES << PER_OCTAVE_BITS], total: 0, sum_s: 0.0 }
    }
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&mut self, seconds: f64) {
        // The exponent and the highest bits of the fraction are adjacent in a float.
        let bits = seconds.max(0.0).to_bits() >> (52 - PER_OCTAVE_BITS);
        let index = bits.saturating_sub(FIRST_EXPONENT << PER_OCTAVE_BITS) as usize;
        let last = self.counts.len() - 1;
        self.counts[index.min(last)] += 1;
        self.total += 1;
        self.sum_s += seconds;
    }

    /// Returns the number of durations added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the mean duration in seconds.
    pub fn mean_s(&self) -> f64 {
        self.sum_s / self.total as f64
    }

    /// Returns a quantile in seconds, rounded up to the end of its bucket. Returns 0 for an empty histogram.
    pub fn quantile(&self, share: f64) -> f64 {
        let goal = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= goal && self.total > 0 {
                return f64::from_bits(
                    (index as u64 + 1 + (FIRST_EXPONENT << PER_OCTAVE_BITS)) << (52 - PER_OCTAVE_BITS),
                );
            }
        }
        0.0
    }
}
