//! What a simulation counts.

use crate::config::Config;
use crate::histogram::Histogram;

/// A stretch of time.
#[derive(Clone)]
pub struct Step {
    /// How long executions took that were answered in it.
    pub latency: Histogram,
    /// How many had to resume.
    pub misses: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many sessions were resumed ahead.
    pub resumed_ahead: u64,
}

/// The sums over the window.
pub struct Report {
    /// Answered executions.
    pub executions: u64,
    /// Those whose session was not in the memory of their node.
    pub misses: u64,
    /// Those of them whose session was in the memory of another.
    pub moved: u64,
    /// Sessions that others have pushed out of memory.
    pub evicted: u64,
    /// Refused executions.
    pub refused: u64,
    /// Executions that were begun again, since their node ended.
    pub retried: u64,
    /// From asking to the answer.
    pub latency: Histogram,
    /// Of those that had to resume.
    pub cold_latency: Histogram,
    /// Of the others.
    pub warm_latency: Histogram,
    /// Requests to the store.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: f64,
    /// Requests to the store.
    pub gets: u64,
    /// Their bytes.
    pub get_bytes: f64,
    /// Memory of sessions, over all nodes and the window.
    pub warm_byte_s: f64,
    /// Sessions in memory, over all nodes and the window.
    pub warm_session_s: f64,
    /// Of each node: processor time.
    pub busy_s: Vec<f64>,
    /// From the begin of the simulation.
    pub timeline: Vec<Step>,
    /// Seconds of one step of it.
    step_s: f64,
    /// Events that happened.
    pub events: u64,
}

impl Report {
    /// Nothing has happened.
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

    /// The stretch that a moment is in.
    pub fn step(&mut self, now_s: f64) -> &mut Step {
        let last = self.timeline.len() - 1;
        &mut self.timeline[((now_s / self.step_s) as usize).min(last)]
    }

    /// The busiest node's processor time, by the mean.
    pub fn imbalance(&self) -> f64 {
        let sum: f64 = self.busy_s.iter().sum();
        self.busy_s.iter().copied().fold(0.0, f64::max) * self.busy_s.len() as f64 / sum
    }

    /// The share of executions that had to resume.
    pub fn miss_share(&self) -> f64 {
        self.misses as f64 / self.executions as f64
    }
}
