//! How a node is set up.

use std::time::Duration;

use glovebox::{BlobStore, Clock, Engine, Entropy, Policy, PolicyError, SessionKey};
use glovebox_requests::callbacks::Callbacks;

use crate::FleetUrl;

/// How a node is set up. Make one with [`new`](Self::new) and change what differs.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeConfig {
    /// Runs the scripts.
    pub engine: Engine,
    /// The fleet's engine.
    pub fleet: FleetUrl,
    /// Where the states of sessions are. All nodes of a fleet have the same.
    pub blobs: BlobStore,
    /// Seals the states. All nodes have the same. Default: none.
    pub key: Option<SessionKey>,
    /// What scripts may do. All nodes should have the same. Clock and entropy are the session's own: see
    /// [`check_policy`](Self::check_policy).
    pub policy: Policy,
    /// The runtimes of new sessions, by name or alias; the first of a language is its default. Default: the default of each language.
    pub runtimes: Vec<String>,
    /// Calls the services that answer tools. Default: none, so that no request may bring tools along.
    pub callbacks: Option<Callbacks>,
    /// How many executions run at once; more wait. Default: four for each processor.
    pub running: usize,
    /// How many sessions stay in memory for their next execution. Default 256. With twice what runs at once they need as many places in the
    /// engine's pool.
    pub warm_count: usize,
    /// How many bytes they may hold together. Default 1 GiB. One counts as its stored state or what its memory has grown, and 1 MiB besides.
    pub warm_bytes: u64,
    /// For how long what runs may go on when the node is to end. Default 30 s. What has not ended then is begun anew elsewhere.
    pub drain: Duration,
    /// The engine's key: requests that it has not signed are refused. Default: none.
    pub identity_key: Option<String>,
}

impl NodeConfig {
    /// A node of this fleet that runs what it is given with this engine, and has states there.
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
            warm_count: 256,
            warm_bytes: 1 << 30,
            drain: Duration::from_secs(30),
            identity_key: None,
        }
    }

    /// How many executions run at once where nothing else is said: four for each processor, since some wait for tools.
    #[must_use]
    pub fn default_running() -> usize {
        4 * std::thread::available_parallelism().map_or(2, usize::from)
    }

    /// Whether nodes can have this policy. An execution is begun anew where a node fails, and must then do what it did: there are no host
    /// directories, no network, and fuel is counted. Clock and entropy are each session's own: its clock stands at the time at which it was
    /// opened, its random numbers come from a seed.
    ///
    /// # Errors
    /// What it has that cannot be repeated.
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

/// Nodes cannot have a policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodePolicyError {
    /// It cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It has something that does not come out the same when it is done again.
    #[error(
        "the policy has {0}, which an execution that is begun anew on another node would not find the same; leave it out"
    )]
    NotRepeatable(&'static str),
}

/// The longest that limits may say of a tool: a year.
const MAX_TOOL_TIMEOUT_MS: u64 = 365 * 24 * 3_600 * 1_000;

/// The policy of one session: what its nodes grant, with a clock that stands and random numbers from a seed.
pub(super) fn session_policy(policy: &Policy, opened_at_ms: u64, seed: u64) -> Policy {
    let mut policy = policy.clone();
    policy.clock = Clock::Fixed(opened_at_ms.saturating_mul(1_000_000));
    policy.entropy = Entropy::Seeded(seed);
    policy.session.checkpoints = glovebox::Checkpoints::Never;
    // The node times each call, from when it is made, and records what came of it. A clock of the interpreter's would not come out the same again.
    policy.limits.tool_timeout_ms = MAX_TOOL_TIMEOUT_MS;
    policy
}
