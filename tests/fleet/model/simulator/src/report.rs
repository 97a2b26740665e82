//! The results of a simulation, with histograms of durations.

use crate::config::Config;

/// The results of one step in the timeline.
#[derive(Clone)]
pub struct Step {
    /// Latencies of the executions answered in the step.
    pub latency: Histogram,
    /// The number of executions that had to resume their session.
    pub misses: u64,
    /// The number of rejected executions.
    pub refused: u64,
    /// The number of sessions resumed ahead of their next request.
    pub resumed_ahead: u64,
}

/// Totals over the measured window.
pub struct Report {
    /// The number of answered executions.
    pub executions: u64,
    /// The number of answered executions whose session was not in their node's memory.
    pub misses: u64,
    /// The number of executions whose session was in another node's memory.
    pub moved: u64,
    /// The number of sessions evicted for lack of memory.
    pub evicted: u64,
    /// The number of rejected executions.
    pub refused: u64,
    /// The number of executions that restarted because their node failed.
    pub retried: u64,
    /// Latencies from request to answer.
    pub latency: Histogram,
    /// Latencies of executions that had to resume their session.
    pub cold_latency: Histogram,
    /// Latencies of executions whose session was in memory.
    pub warm_latency: Histogram,
    /// The number of writes to the store.
    pub puts: u64,
    /// Bytes written to the store.
    pub put_bytes: f64,
    /// The number of reads from the store.
    pub gets: u64,
    /// Bytes read from the store.
    pub get_bytes: f64,
    /// The memory of sessions, in byte-seconds over all nodes.
    pub warm_byte_s: f64,
    /// Sessions in memory, in session-seconds over all nodes.
    pub warm_session_s: f64,
    /// The processor time of each node.
    pub busy_s: Vec<f64>,
    /// All steps since the start of the simulation, including the warm-up.
    pub timeline: Vec<Step>,
    /// The duration of a step in the timeline.
    step_s: f64,
    /// The number of simulated events.
    pub events: u64,
}

impl Report {
    /// Creates an empty report.
    pub fn new(config: &Config) -> Self {
        let step = Step { latency: Histogram::default(), misses: 0, refused: 0, resumed_ahead: 0 };
        Self {
            executions: 0,
            misses: 0,
            moved: 0,
            evicted: 0,
            refused: 0,
            retried: 0,
            latency: Histogram::default(),
            cold_latency: Histogram::default(),
            warm_latency: Histogram::default(),
            puts: 0,
            put_bytes: 0.0,
            gets: 0,
            get_bytes: 0.0,
            warm_byte_s: 0.0,
            warm_session_s: 0.0,
            busy_s: Vec::new(),
            timeline: vec![step; (config.end_s() / config.step_s).ceil() as usize],
            step_s: config.step_s,
            events: 0,
        }
    }

    /// Returns the step of the timeline that contains `now_s`.
    pub fn step(&mut self, now_s: f64) -> &mut Step {
        let last = self.timeline.len() - 1;
        &mut self.timeline[((now_s / self.step_s) as usize).min(last)]
    }

    /// Returns the busiest node's processor time, divided by the mean over all nodes.
    pub fn imbalance(&self) -> f64 {
        let sum: f64 = self.busy_s.iter().sum();
        self.busy_s.iter().copied().fold(0.0, f64::max) * self.busy_s.len() as f64 / sum
    }

    /// Returns the share of executions that had to resume their session.
    pub fn miss_share(&self) -> f64 {
        self.misses as f64 / self.executions as f64
    }
}

/// The binary logarithm of the number of buckets per octave.
const PER_OCTAVE_BITS: u32 = 6;
/// The biased exponent of the first bucket: 2^-20 s, a microsecond.
const FIRST_EXPONENT: u64 = 1023 - 20;
/// The number of octaves. The last bucket ends at 2^14 s, four and a half hours.
const OCTAVES: usize = 34;

/// A histogram of durations, with buckets about one percent wide: the number of durations in each bucket.
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
