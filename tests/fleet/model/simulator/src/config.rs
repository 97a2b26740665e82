//! Configuration of a simulation: users, costs and the fleet's policies.

use serde::{Deserialize, Serialize};

use crate::gaps::Part;

/// A kind of user.
#[derive(Clone, Debug, Deserialize)]
pub struct UserKind {
    /// The share of all sessions, 0 to 1.
    pub share: f64,
    /// The distribution of the time from the end of one execution to the start of the next, as a mixture.
    pub gaps: Vec<Part>,
    /// The median of the processor time that a script uses in addition to the measured time of a small step.
    /// Log-normal, capped at `work_max_s`.
    pub work_median_s: f64,
    /// The standard deviation of the logarithm of this processor time.
    pub work_sigma: f64,
    /// Maximum processor time of a script in addition to the measured time of a small step.
    pub work_max_s: f64,
}

/// The costs of sessions with one runtime and size.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The share of all sessions, 0 to 1.
    pub share: f64,
    /// The time of a small step in a session that is in memory.
    pub execute_s: f64,
    /// The time to serialize the session.
    pub hibernate_s: f64,
    /// The time to restore the session, including the extra time of its first step.
    pub resume_s: f64,
    /// The size of the serialized session.
    pub blob_bytes: f64,
    /// The size of the difference from the previous generation.
    pub delta_bytes: f64,
    /// The private memory of an idle session.
    pub warm_bytes: f64,
}

/// The latency and throughput of the object store. Latencies are log-normal, given as p50 and p99.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Store {
    /// The time to the first byte of a read.
    pub get_s: [f64; 2],
    /// The time of a write, without the transfer.
    pub put_s: [f64; 2],
    /// The throughput of a single transfer.
    pub bytes_per_s: f64,
}

/// The rule that chooses the node for an execution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// A random node.
    Random,
    /// The less busy of two random nodes.
    TwoChoices,
    /// The node given by the session's hash. If that node has failed, another hash chooses the next one.
    Hash,
    /// Like `Hash`, but also skips nodes with more than 1.25 times the mean number of executions, rounded up.
    BoundedHash,
    /// The session's last node, unless it has failed or already has `at_most` executions per processor. Otherwise the
    /// less busy of two random nodes.
    Warm {
        /// Maximum number of executions per processor.
        at_most: u32,
    },
}

/// The policy for writing a session's state to the object store.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Writes the full state before each answer.
    Every,
    /// Writes the difference before each answer, and the full state every `full_every` executions.
    Delta {
        /// The number of executions between two full saves.
        full_every: u16,
    },
    /// Writes after an idle period or a number of executions. Until then, the engine's journal contains the requests.
    Coalesced {
        /// Idle time before a save, in seconds.
        idle_s: f64,
        /// Maximum number of unsaved executions.
        at_most: u16,
        /// If set, a save writes only differences, except that every `full_every`-th save writes the full state. The
        /// difference of several executions is assumed to be the sum of their differences.
        full_every: Option<u16>,
    },
}

/// The activity of users by time of day.
#[derive(Clone, Copy, Debug)]
pub enum Intensity {
    /// Constant activity.
    Constant(f64),
    /// A daily wave with mean 1 and this amplitude, highest at noon and lowest at midnight, in steps of an hour.
    Daily(f64),
}

/// A simultaneous failure of all nodes in a zone.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The time of the failure.
    pub at_s: f64,
    /// The number of zones. A node whose number is a multiple of `zones` is in the failing zone.
    pub zones: u32,
    /// The time from the failure until the router notices it.
    pub noticed_s: f64,
    /// If set, other nodes resume the lost sessions without waiting for requests. The value is the rate per second and
    /// node.
    pub resume_all: Option<f64>,
}

/// The configuration of a simulation.
#[derive(Clone, Debug)]
pub struct Config {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of sessions, constant throughout the simulation.
    pub sessions: u32,
    /// The number of nodes.
    pub nodes: u32,
    /// Processors per node.
    pub cores: u32,
    /// Memory for sessions per node.
    pub memory_bytes: f64,
    /// The throughput of the link between a node and the store.
    pub link_bytes_per_s: f64,
    /// The idle time after which a session leaves memory.
    pub ttl_s: f64,
    /// The latency that the durable-execution engine adds to a call.
    pub call_s: f64,
    /// Kinds of users.
    pub kinds: Vec<UserKind>,
    /// Classes of sessions.
    pub classes: Vec<Class>,
    /// The latency and throughput of the object store.
    pub store: Store,
    /// The rule that chooses the node for an execution.
    pub placement: Placement,
    /// The policy for saving sessions.
    pub persistence: Persistence,
    /// The activity of users by time of day.
    pub intensity: Intensity,
    /// Warm-up time at the start, excluded from the results.
    pub settle_s: f64,
    /// The duration of the measured window after the warm-up.
    pub window_s: f64,
    /// The duration of one step in the timeline.
    pub step_s: f64,
    /// The injected failure, if any.
    pub failure: Option<Failure>,
    /// Maximum time to wait for a processor. Executions that would wait longer are rejected. `None` means no maximum.
    pub shed_s: Option<f64>,
}

impl Config {
    /// Returns the time at which the simulation ends.
    pub fn end_s(&self) -> f64 {
        self.settle_s + self.window_s
    }
}
