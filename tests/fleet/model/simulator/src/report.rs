//! The results of a simulation.

use crate::{config::Config, histogram::Histogram};

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
