//! Configuration of a node.

use std::time::Duration;

use glovebox::{BlobStore, Clock, Engine, Entropy, Policy, PolicyError, SessionKey};
use glovebox_requests::callbacks::Callbacks;

use crate::FleetUrl;

/// Configuration of a node. Create it with [`new`](Self::new) and change fields.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeConfig {
    /// Runs the scripts.
    pub engine: Engine,
    /// The fleet's engine.
    pub fleet: FleetUrl,
    /// The store of session states. Must be the same on all nodes.
    pub blobs: BlobStore,
    /// Seals the states. Same on all nodes. Default: none.
    pub key: Option<SessionKey>,
    /// What scripts may do. Should be the same on all nodes. Clock and entropy are set per session: see
    /// [`check_policy`](Self::check_policy).
    pub policy: Policy,
    /// Runtimes for new sessions, by name or alias. The first of a language is its default. Default: each language's default.
    pub runtimes: Vec<String>,
    /// Calls the services that answer tools. Default: none, so requests cannot offer tools.
    pub callbacks: Option<Callbacks>,
    /// Maximum concurrent executions; more wait. Default: four per processor.
    pub running: usize,
    /// How long an execution waits for its turn before the engine retries it, perhaps on another node. Default: 20 s.
    pub queue: Duration,
    /// Maximum sessions held in memory for their next execution. Default 256. The engine's pool needs a slot for each, plus two per
    /// concurrent execution.
    pub warm_count: usize,
    /// Maximum bytes they hold together. Default 1 GiB. A session counts as its stored state or its memory growth, plus 1 MiB.
    pub warm_bytes: u64,
    /// How long running executions may take to finish at shutdown. Default 30 s. Others restart on another node.
    pub drain: Duration,
    /// The engine's public key: requests it did not sign are rejected. Default: none.
    pub identity_key: Option<String>,
}

impl NodeConfig {
    /// Defaults for a node of this fleet that runs scripts with this engine.
    #[must_use]
    pub fn new(fleet: FleetUrl, engine: Engine, blobs: BlobStore) -> Self {
        Self {
            engine,
            fleet,
            blobs,
            key: None,
            policy: Policy::default(),
            runtimes: Vec::new(),
            callbacks: None,
            running: Self::default_running(),
            queue: Duration::from_secs(20),
            warm_count: 256,
            warm_bytes: 1 << 30,
            drain: Duration::from_secs(30),
            identity_key: None,
        }
    }

    /// Default concurrent executions: four per processor, since some wait for tools.
    #[must_use]
    pub fn default_running() -> usize {
        4 * std::thread::available_parallelism().map_or(2, usize::from)
    }

    /// Checks that nodes can use this policy. If a node fails, its executions restart and must repeat what they did. So there are no host
    /// directories and no network, and fuel is metered. Clock and entropy are set per session: the clock is fixed at the time of opening,
    /// random numbers come from a seed.
    ///
    /// # Errors
    /// If it is invalid or has what cannot be repeated.
    pub fn check_policy(policy: &Policy) -> Result<(), NodePolicyError> {
        policy.check()?;
        let has = |what| Err(NodePolicyError::NotRepeatable(what));
        match policy {
            _ if policy.workspace.is_some() => has("a host directory as workspace"),
            _ if !policy.mounts.is_empty() => has("mounts"),
            _ if policy.network.is_on() => has("the network"),
            _ if policy.metering != glovebox::Metering::Fuel => has("no metering"),
            _ if policy.clock != Policy::default().clock => has("a clock of its own"),
            _ if policy.entropy != Policy::default().entropy => has("an entropy of its own"),
            _ => Ok(()),
        }
    }
}

/// Nodes cannot use a policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodePolicyError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It has something that does not repeat identically.
    #[error(
        "the policy has {0}, which an execution that is begun anew on another node would not find the same; leave it out"
    )]
    NotRepeatable(&'static str),
}

/// The maximum of `tool_timeout_ms`: a year.
const MAX_TOOL_TIMEOUT_MS: u64 = 365 * 24 * 3_600 * 1_000;

/// The policy of one session: the nodes' policy with a fixed clock and seeded random numbers.
pub(super) fn session_policy(policy: &Policy, opened_at_ms: u64, seed: u64) -> Policy {
    let mut policy = policy.clone();
    policy.clock = Clock::Fixed(opened_at_ms.saturating_mul(1_000_000));
    policy.entropy = Entropy::Seeded(seed);
    policy.session.checkpoints = glovebox::Checkpoints::Never;
    // The node times each call from its start and records the outcome. A timeout in the interpreter would not be repeatable.
    policy.limits.tool_timeout_ms = MAX_TOOL_TIMEOUT_MS;
    policy
}
