//! What an execution may do: what was asked for, with every default filled in.

use std::collections::BTreeMap;

use glovebox_core::{
    Clock, Entropy, Limits, PolicyParts,
    session::{Checkpoints, OnUnwind, SessionPolicy},
    with_limits,
};

use crate::{
    World,
    bindings::types::{self, SandboxError},
};

/// Everything an execution may do.
///
/// Whoever embeds a provider is its caller, so that nothing is granted beside: what can be may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How much it may use.
    pub limits: Limits,
    /// The time it sees.
    pub clock: Clock,
    /// The randomness it sees.
    pub entropy: Entropy,
    /// Arguments after the script's name.
    pub args: Vec<String>,
    /// Environment variables, ascending.
    pub env: Vec<(String, String)>,
    /// How sessions keep and lose their state.
    pub session: SessionPolicy,
}

/// Takes one limit after the other: what is asked for, else the default.
macro_rules! limits {
    ($asked:expr, $default:expr, $($name:ident),*) => {{
        let (types::Limits { $($name),* }, mut limits): (types::Limits, Limits) = ($asked, $default);
        $(limits.$name = $name.unwrap_or(limits.$name);)*
        limits
    }};
}

/// Spells one limit after the other out.
macro_rules! spelled {
    ($limits:expr, $($name:ident),*) => {{
        let limits: &Limits = $limits;
        types::Limits { $($name: Some(limits.$name)),* }
    }};
}

/// The most that all sessions together may hold, whatever is asked for: it all lies in the shim's own memory, which has 4 GiB and
/// ends the instance where it is full.
const SESSION_TOTAL_BYTES_MOST: u64 = 2 << 30;

/// The limits, as far as a provider can keep what they allow.
fn held(limits: Limits) -> Limits {
    let mut held = limits;
    held.session_total_bytes = held.session_total_bytes.min(SESSION_TOTAL_BYTES_MOST);
    held
}

impl Policy {
    /// What holds where nothing is asked for: the clock where there is one, numbers from a seed.
    #[must_use]
    pub fn default_in(world: &World) -> Self {
        Self {
            limits: held(Limits::default()),
            clock: if world.clocks.is_some() { Clock::Host } else { Clock::Fixed(0) },
            entropy: Entropy::Seeded(0),
            args: Vec::new(),
            env: Vec::new(),
            session: SessionPolicy::default(),
        }
    }

    /// The policy that is asked for, if it can be.
    pub fn asked(world: &World, asked: types::Policy) -> Result<Self, SandboxError> {
        let types::Policy { limits, clock, entropy, args, env, session } = asked;
        let mut policy = Self::default_in(world);
        if let Some(limits) = limits {
            policy.limits = held(with_limits!(limits, limits, Limits::default()));
        }
        policy.clock = match clock {
            None => policy.clock,
            Some(types::Clock::Fixed(time_ns)) => Clock::Fixed(time_ns),
            Some(types::Clock::Host) if world.clocks.is_some() => Clock::Host,
            Some(types::Clock::Host) => {
                let text = "`clock`: this provider has no clock; ask for `fixed`";
                return Err(SandboxError::Unsupported(text.into()));
            }
        };
        policy.entropy = match entropy {
            None => policy.entropy,
            Some(types::Entropy::Seeded(seed)) => Entropy::Seeded(seed),
            Some(types::Entropy::Host) => {
                let text = "`entropy`: this provider has no randomness of its own; ask for `seeded`";
                return Err(SandboxError::Unsupported(text.into()));
            }
        };
        policy.args = args.unwrap_or_default();
        let mut variables = BTreeMap::new();
        for (key, value) in env.into_iter().flatten() {
            if variables.contains_key(&key) {
                let key: String = key.chars().take(100).collect();
                return Err(SandboxError::InvalidPolicy(format!("`env`: `{key}` is given twice")));
            }
            variables.insert(key, value);
        }
        if let Some(session) = session {
            policy.session = sessions(session);
        }
        let Self { limits, session, args, .. } = &policy;
        PolicyParts { limits, session, args, env: &variables }.check()?;
        policy.env = variables.into_iter().collect();
        Ok(policy)
    }

    /// Whether equal input gives equal executions, to the unit of fuel.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.clock.is_repeatable() && self.entropy.is_repeatable()
    }

    /// The policy in the contract's words, everything spelled out.
    #[must_use]
    pub fn spelled_out(&self) -> types::Policy {
        let Self { limits, clock, entropy, args, env, session } = self;
        types::Policy {
            limits: Some(with_limits!(spelled, limits)),
            clock: Some(match clock {
                Clock::Host => types::Clock::Host,
                Clock::Fixed(time_ns) => types::Clock::Fixed(*time_ns),
            }),
            entropy: Some(match entropy {
                Entropy::Host => types::Entropy::Host,
                Entropy::Seeded(seed) => types::Entropy::Seeded(*seed),
            }),
            args: Some(args.clone()),
            env: Some(env.clone()),
            session: Some(types::SessionPolicy {
                checkpoints: Some(match session.checkpoints {
                    Checkpoints::Auto => types::Checkpoints::Auto,
                    Checkpoints::Always => types::Checkpoints::Always,
                    Checkpoints::Every(count) => types::Checkpoints::Every(count),
                    Checkpoints::Never => types::Checkpoints::Never,
                }),
                checkpoint_auto_bytes: Some(session.checkpoint_auto_bytes),
                checkpoints_kept: Some(session.checkpoints_kept),
                on_unwind: Some(match session.on_unwind {
                    OnUnwind::RollBack => types::OnUnwind::GoBack,
                    OnUnwind::End => types::OnUnwind::End,
                }),
            }),
        }
    }
}

fn sessions(asked: types::SessionPolicy) -> SessionPolicy {
    let types::SessionPolicy { checkpoints, checkpoint_auto_bytes, checkpoints_kept, on_unwind } = asked;
    let mut session = SessionPolicy::default();
    if let Some(checkpoints) = checkpoints {
        session.checkpoints = match checkpoints {
            types::Checkpoints::Auto => Checkpoints::Auto,
            types::Checkpoints::Always => Checkpoints::Always,
            types::Checkpoints::Every(count) => Checkpoints::Every(count),
            types::Checkpoints::Never => Checkpoints::Never,
        };
    }
    session.checkpoint_auto_bytes = checkpoint_auto_bytes.unwrap_or(session.checkpoint_auto_bytes);
    session.checkpoints_kept = checkpoints_kept.unwrap_or(session.checkpoints_kept);
    if let Some(on_unwind) = on_unwind {
        session.on_unwind = match on_unwind {
            types::OnUnwind::GoBack => OnUnwind::RollBack,
            types::OnUnwind::End => OnUnwind::End,
        };
    }
    session
}
