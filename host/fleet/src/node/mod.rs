//! A node, which runs the executions of a fleet's sessions.
//!
//! | module | purpose |
//! |---|---|
//! | `object` | a session as a virtual object of the engine, its handlers, and the state that the engine stores |
//! | `attempt` | one attempt at an execution: replays the recorded journal steps, then continues |
//! | `suspending` | suspends executions that wait for their caller, and reads suspended executions |
//! | `machine` | this node's interpreters, session states, and sessions held in memory for their next execution |
//! | `services` | the session object under 256 names, and an object per image, which receives forwarded executions |
//! | `serve` | connections, and registration with the engine's admin API |

mod attempt;
mod machine;
mod object;
mod serve;
mod services;
mod suspending;
#[cfg(test)]
mod tests;

use std::time::Duration;

use glovebox::{Clock, Engine, Entropy, Policy, PolicyError, SessionKey};
use glovebox_object_stores::BlobStore;
use glovebox_requests::callbacks::Callbacks;

use crate::FleetUrl;

pub(crate) use object::STATE_KEY;
pub use serve::{Node, NodeError, Registration};

/// The configuration of a node. Create it with [`new`](Self::new) and change fields.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeConfig {
    /// The engine that runs the scripts.
    pub engine: Engine,
    /// The URL of the fleet's engine.
    pub fleet: FleetUrl,
    /// The store of session states. All nodes must use the same store.
    pub blobs: BlobStore,
    /// The key that seals the states. All nodes must use the same key. Default: states are not sealed.
    pub key: Option<SessionKey>,
    /// The scripts' policy, which should be the same on all nodes. Clock and entropy are set per session: see
    /// [`check_policy`](Self::check_policy).
    pub policy: Policy,
    /// The names or aliases of the runtimes for new sessions. The first runtime of a language is the default for that
    /// language. Default: the default runtime of each language.
    pub runtimes: Vec<String>,
    /// The client for the services that answer tool calls. Default: none. Without a client, requests with tools are
    /// rejected.
    pub callbacks: Option<Callbacks>,
    /// Maximum number of concurrent executions. Further executions wait. Default: four per processor.
    pub running: usize,
    /// Maximum time that an execution waits to run. After that, the engine retries the execution, perhaps on another
    /// node. Default: 20 s.
    pub queue: Duration,
    /// Maximum number of sessions held in memory for their next execution. Default: 256. The pool of
    /// [`engine`](Self::engine) needs a slot for each held session, and two per concurrent execution.
    pub warm_count: usize,
    /// Maximum memory of all held sessions in bytes. Default: 1 GiB. A session is charged for its stored state or its
    /// memory growth, whichever is larger, plus 1 MiB.
    pub warm_bytes: u64,
    /// Maximum time for running executions to finish at shutdown. Unfinished executions restart on another node.
    /// Default: 30 s.
    pub drain: Duration,
    /// Maximum time to suspend an execution. Default: the scripts' time limit, at least `queue`, because a busy node needs
    /// time for the session's state even if scripts may run only for a moment.
    pub(crate) suspension_time: Option<Duration>,
    /// The engine's public key. With it, requests that the engine did not sign are rejected. Default: none.
    pub identity_key: Option<String>,
}

impl NodeConfig {
    /// Returns the defaults for a node of this fleet.
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
            suspension_time: None,
            identity_key: None,
        }
    }

    /// Returns the default of [`running`](Self::running): four per processor, because some executions wait for tools.
    pub fn default_running() -> usize {
        4 * std::thread::available_parallelism().map_or(2, usize::from)
    }

    /// Checks that nodes can use this policy.
    ///
    /// When a node fails, its executions restart on another node and must repeat exactly. Therefore the policy must
    /// meter fuel, and must have no host directories and no network. It must leave clock and entropy at their defaults,
    /// because nodes set these per session. The clock is fixed at the time of opening, and random numbers come from a
    /// seed.
    ///
    /// # Errors
    /// [`NodePolicyError`] if the policy is invalid or has a setting that is not repeatable.
    pub fn check_policy(policy: &Policy) -> Result<(), NodePolicyError> {
        policy.check()?;
        let has = |setting| Err(NodePolicyError::NotRepeatable(setting));
        match policy {
            _ if policy.workspace.is_some() => has("`workspace`"),
            _ if !policy.mounts.is_empty() => has("`mounts`"),
            _ if policy.network.is_on() => has("`network`"),
            _ if policy.metering != glovebox::Metering::Fuel => has("`metering`"),
            _ if policy.clock != Policy::default().clock => has("`clock`"),
            _ if policy.entropy != Policy::default().entropy => has("`entropy`"),
            _ => Ok(()),
        }
    }
}

/// The reason why nodes cannot use a policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodePolicyError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy has a setting that prevents another node from repeating an execution exactly.
    #[error("the policy sets {0}: an execution repeated on another node could differ; remove {0}")]
    NotRepeatable(&'static str),
}

/// The maximum of `tool_timeout_ms`: a year.
const MAX_TOOL_TIMEOUT_MS: u64 = 365 * 24 * 3_600 * 1_000;

/// Returns the policy of one session: the nodes' policy with a fixed clock, seeded random numbers, and no checkpoints.
fn session_policy(policy: &Policy, opened_at_ms: u64, seed: u64) -> Policy {
    let mut policy = policy.clone();
    policy.clock = Clock::Fixed(opened_at_ms.saturating_mul(1_000_000));
    policy.entropy = Entropy::Seeded(seed);
    policy.session.checkpoints = glovebox::Checkpoints::Never;
    // The node measures the timeout of each call from its start and records the outcome. A timeout in the interpreter
    // would not be repeatable.
    policy.limits.tool_timeout_ms = MAX_TOOL_TIMEOUT_MS;
    policy
}
