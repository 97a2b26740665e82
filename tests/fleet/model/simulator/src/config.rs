//! What is simulated: who uses the fleet, what things cost, and how the fleet decides.

use serde::{Deserialize, Serialize};

use crate::gaps::Part;

/// A kind of user.
#[derive(Clone, Debug, Deserialize)]
pub struct Kind {
    /// How many of the sessions.
    pub share: f64,
    /// From the end of an execution to the next.
    pub gaps: Vec<Part>,
    /// What scripts compute beyond the measured step: processor time, log-normal, at most `work_max_s`.
    pub work_median_s: f64,
    /// The standard deviation of its logarithm.
    pub work_sigma: f64,
    /// At which scripts are stopped.
    pub work_max_s: f64,
}

/// Sessions of one runtime and size, with what they cost.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// How many of the sessions.
    pub share: f64,
    /// A small step of a session in memory.
    pub execute_s: f64,
    /// Making the bytes.
    pub hibernate_s: f64,
    /// Making a session of the bytes, and what its first step takes longer.
    pub resume_s: f64,
    /// The bytes.
    pub blob_bytes: f64,
    /// The bytes that differ from the generation before.
    pub delta_bytes: f64,
    /// Private memory of a session that waits.
    pub warm_bytes: f64,
}

/// How the object store answers: log-normal times by their p50 and p99, and the rate of one transfer.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Store {
    /// Reading, first byte.
    pub get_s: [f64; 2],
    /// Writing, without the transfer.
    pub put_s: [f64; 2],
    /// Of one transfer.
    pub bytes_per_s: f64,
}

/// Which node executes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Any.
    Random,
    /// Of two, the one that executes less.
    TwoChoices,
    /// By the session's hash; the next by another hash where that one is gone.
    Hash,
    /// The same, and the next also where a node executes more than 1.25 times the mean, rounded up.
    BoundedHash,
    /// Where the session was last, unless more than so many wait there for each processor; then of two the one that executes less.
    Warm {
        /// Executions for each processor.
        at_most: u32,
    },
}

/// When a session's state reaches the object store.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// All of it before each answer.
    Every,
    /// What differs before each answer; all of it every so many executions.
    Delta {
        /// Executions.
        full_every: u16,
    },
    /// Once the session has been idle, or has executed so often; the engine's journal has the requests until then.
    Coalesced {
        /// Seconds.
        idle_s: f64,
        /// Executions.
        at_most: u16,
        /// Only what differs, but for every so-manieth time. What several executions write is taken to be as much as each writes.
        full_every: Option<u16>,
    },
}

/// How busy people are, by time of day.
#[derive(Clone, Copy, Debug)]
pub enum Intensity {
    /// Always as busy.
    Constant(f64),
    /// 1 in the mean of a day, more by so much at noon and less at midnight, in steps of an hour.
    Daily(f64),
}

/// All nodes of a zone end at once.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// When.
    pub at_s: f64,
    /// How many zones there are: every so-manieth node is in the one that ends.
    pub zones: u32,
    /// How long it takes to be noticed.
    pub noticed_s: f64,
    /// Whether other nodes resume at once what was in memory there, and at most how many a second each.
    pub resume_all: Option<f64>,
}

/// One simulation.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of random numbers.
    pub seed: u64,
    /// How many sessions there are, always.
    pub sessions: u32,
    /// How many nodes.
    pub nodes: u32,
    /// Processors of each.
    pub cores: u32,
    /// Memory of each for sessions.
    pub memory_bytes: f64,
    /// What each reads from the store and writes to it, a second.
    pub link_bytes_per_s: f64,
    /// Idle sessions leave memory after this time.
    pub ttl_s: f64,
    /// What a call through the engine adds.
    pub call_s: f64,
    /// The kinds of users.
    pub kinds: Vec<Kind>,
    /// The kinds of sessions.
    pub classes: Vec<Class>,
    /// The object store.
    pub store: Store,
    /// Where.
    pub placement: Placement,
    /// When it is saved.
    pub persistence: Persistence,
    /// How busy.
    pub intensity: Intensity,
    /// What is not counted, at the begin.
    pub settle_s: f64,
    /// What is counted, after that.
    pub window_s: f64,
    /// Seconds of one step of the timeline.
    pub step_s: f64,
    /// What fails.
    pub failure: Option<Failure>,
    /// Refuse an execution that would wait longer for a processor.
    pub shed_s: Option<f64>,
}

impl Config {
    /// When the simulation ends.
    pub fn end_s(&self) -> f64 {
        self.settle_s + self.window_s
    }
}
