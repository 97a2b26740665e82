//! What a component may ask for: the policy that it is granted, and what it makes of it.

use glovebox_core::with_limits;

use super::wit::types::{self, SandboxError};
use crate::{Checkpoints, Clock, Entropy, Limits, OnUnwind, Policy, SessionPolicy};

/// The policy that components are granted: what they have where they ask for nothing, and the most that they may ask for.
#[derive(Debug)]
pub(super) struct Grant(pub(super) Policy);

/// Takes one limit after the other: what is asked for, if it is granted, else what is granted.
macro_rules! limits {
    ($asked:expr, $granted:expr, $($name:ident),*) => {{
        let (asked, mut limits): (types::Limits, Limits) = ($asked, $granted);
        let types::Limits { $($name),* } = asked;
        $(limits.$name = held($name, limits.$name, concat!("limits.", stringify!($name)))?;)*
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

/// What is asked for, or what is granted where nothing is.
fn held<T: Copy + PartialOrd + std::fmt::Display>(asked: Option<T>, granted: T, key: &str) -> Result<T, SandboxError> {
    match asked {
        Some(asked) if asked > granted => Err(beyond(key, &asked, &granted)),
        asked => Ok(asked.unwrap_or(granted)),
    }
}

fn beyond(key: &str, asked: &dyn std::fmt::Display, granted: &dyn std::fmt::Display) -> SandboxError {
    let key = key.replace('_', "-");
    SandboxError::InvalidPolicy(format!("`{key}`: {asked} is asked for, and at most {granted} is granted"))
}

/// About what the host holds for a policy's arguments and environment, of which a few bytes of text may be many: as they were
/// asked for, as they are, and as guests are given them.
pub(super) fn weight(asked: &types::Policy) -> u64 {
    const TEXT: usize = size_of::<String>() + 16;
    let texts = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| TEXT + text.len()).sum::<usize>();
    let args = texts(&mut asked.args.iter().flatten());
    let env = texts(&mut asked.env.iter().flatten().flat_map(|(key, value)| [key, value]));
    3 * (args + env) as u64
}

impl Grant {
    /// The policy that a component asks for.
    pub(super) fn policy(&self, asked: types::Policy) -> Result<Policy, SandboxError> {
        let Self(granted) = self;
        let types::Policy { limits, clock, entropy, args, env, session } = asked;
        let mut policy = granted.clone();
        if let Some(limits) = limits {
            policy.limits = with_limits!(limits, limits, granted.limits.clone());
        }
        policy.clock = match (clock, granted.clock) {
            (None, clock) => clock,
            (Some(types::Clock::Fixed(time_ns)), _) => Clock::Fixed(time_ns),
            (Some(types::Clock::Host), Clock::Host) => Clock::Host,
            (Some(types::Clock::Host), Clock::Fixed(_)) => return Err(beyond("clock", &"`host`", &"`fixed`")),
        };
        policy.entropy = match (entropy, granted.entropy) {
            (None, entropy) => entropy,
            (Some(types::Entropy::Seeded(seed)), _) => Entropy::Seeded(seed),
            (Some(types::Entropy::Host), Entropy::Host) => Entropy::Host,
            (Some(types::Entropy::Host), Entropy::Seeded(_)) => {
                return Err(beyond("entropy", &"`host`", &"`seeded`"));
            }
        };
        if let Some(args) = args {
            policy.args = args;
        }
        if let Some(env) = env {
            policy.env.clear();
            for (key, value) in env {
                if let Some(twice) = policy.env.insert(key.clone(), value).map(|_| key) {
                    let key: String = twice.chars().take(100).collect();
                    return Err(SandboxError::InvalidPolicy(format!("`env`: `{key}` is given twice")));
                }
            }
        }
        if let Some(session) = session {
            policy.session = sessions(session, &granted.session)?;
        }
        Ok(policy)
    }

    /// The granted policy, everything spelled out.
    pub(super) fn spelled_out(&self) -> types::Policy {
        let Policy { clock, entropy, args, limits, session, env, .. } = &self.0;
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
            env: Some(env.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
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

/// How sessions are kept: how much of them is granted, when they are saved is theirs to say.
fn sessions(asked: types::SessionPolicy, granted: &SessionPolicy) -> Result<SessionPolicy, SandboxError> {
    let types::SessionPolicy { checkpoints, checkpoint_auto_bytes, checkpoints_kept, on_unwind } = asked;
    let mut policy = granted.clone();
    if let Some(checkpoints) = checkpoints {
        policy.checkpoints = match checkpoints {
            types::Checkpoints::Auto => Checkpoints::Auto,
            types::Checkpoints::Always => Checkpoints::Always,
            types::Checkpoints::Every(count) => Checkpoints::Every(count),
            types::Checkpoints::Never => Checkpoints::Never,
        };
    }
    policy.checkpoint_auto_bytes =
        held(checkpoint_auto_bytes, granted.checkpoint_auto_bytes, "session.checkpoint_auto_bytes")?;
    policy.checkpoints_kept = held(checkpoints_kept, granted.checkpoints_kept, "session.checkpoints_kept")?;
    if let Some(on_unwind) = on_unwind {
        policy.on_unwind = match on_unwind {
            types::OnUnwind::GoBack => OnUnwind::RollBack,
            types::OnUnwind::End => OnUnwind::End,
        };
    }
    Ok(policy)
}
