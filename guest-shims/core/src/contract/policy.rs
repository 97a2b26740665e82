//! The policy settings that the contract can express, and their conversions.

use std::{collections::BTreeMap, fmt::Display};

use serde::{Deserialize, Serialize};

use super::{key, quoted};
use crate::{Clock, Entropy, Limits, session::SessionPolicy};

/// The policy settings that the contract can express. Their JSON form uses the names of a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractPolicy {
    /// The limits of an execution.
    pub limits: Limits,
    /// The time that the guest sees.
    pub clock: Clock,
    /// The randomness that the guest sees.
    pub entropy: Entropy,
    /// Arguments after the script's name.
    pub args: Vec<String>,
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// `true` if Python scripts can import the packages at `/app/site-packages`.
    pub inject_setup: bool,
    /// `true` if globals are loaded from the workspace before a script, and saved there afterwards.
    pub auto_persist_globals: bool,
    /// The settings of sessions.
    pub session: SessionPolicy,
}

/// The operator's defaults, and the bounds of requested policies.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The policy for a request without settings.
    pub defaults: ContractPolicy,
    /// `true` if no limit can exceed its default.
    pub is_ceiling: bool,
    /// The reason for refusing `clock.host`; `None` if it is granted.
    pub host_clock_refusal: Option<PolicyRefusal>,
    /// The reason for refusing `entropy.host`; `None` if it is granted.
    pub host_entropy_refusal: Option<PolicyRefusal>,
}

impl Grant {
    /// Returns the limit `key` as requested, or the default if it is omitted.
    ///
    /// # Errors
    /// Fails if the request exceeds the default and [`is_ceiling`](Self::is_ceiling) is set.
    pub fn limit<T: Copy + PartialOrd + Display>(
        &self,
        key: &str,
        requested: Option<T>,
        default: T,
    ) -> Result<T, PolicyRefusal> {
        match requested {
            Some(requested) if self.is_ceiling && requested > default => {
                Err(PolicyRefusal::excess(key, &requested, &default))
            }
            requested => Ok(requested.unwrap_or(default)),
        }
    }
}

/// The reason why a backend refuses a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyRefusal {
    /// The policy is invalid or exceeds the grant.
    Invalid(String),
    /// The backend does not support a requested setting.
    Unsupported(String),
}

impl PolicyRefusal {
    /// Returns the refusal of a value above the granted maximum.
    pub fn excess(name: &str, requested: &dyn Display, granted: &dyn Display) -> Self {
        Self::Invalid(format!("`{}`: {requested} is requested, but the maximum is {granted}", key(name)))
    }
}

impl ContractPolicy {
    /// Returns `true` if equal requests always run identically, including the fuel that they use.
    pub fn is_repeatable(&self) -> bool {
        self.clock.is_repeatable() && self.entropy.is_repeatable()
    }

    /// Converts a list of environment variables to a map.
    ///
    /// # Errors
    /// Fails if a variable occurs more than once.
    pub fn variables(env: Vec<(String, String)>) -> Result<BTreeMap<String, String>, PolicyRefusal> {
        let mut variables = BTreeMap::new();
        for (name, value) in env {
            if variables.contains_key(&name) {
                let name: String = quoted(&name).chars().take(100).collect();
                return Err(PolicyRefusal::Invalid(format!("`env`: `{name}` is set twice")));
            }
            variables.insert(name, value);
        }
        Ok(variables)
    }
}

/// The part of [`contract_conversions!`](crate::contract_conversions) for policies.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_policy {
    () => {
        impl From<contract::ContractPolicy> for types::Policy {
            fn from(policy: contract::ContractPolicy) -> Self {
                let contract::ContractPolicy {
                    limits,
                    clock,
                    entropy,
                    args,
                    env,
                    inject_setup,
                    auto_persist_globals,
                    session,
                } = policy;
                Self {
                    limits: Some($crate::with_limits!(limits_into_wit, limits)),
                    clock: Some(clock.into()),
                    entropy: Some(entropy.into()),
                    args: Some(args),
                    env: Some(env.into_iter().collect()),
                    inject_setup: Some(inject_setup),
                    auto_persist_globals: Some(auto_persist_globals),
                    session: Some(types::SessionPolicy {
                        checkpoints: Some(session.checkpoints.into()),
                        checkpoint_auto_bytes: Some(session.checkpoint_auto_bytes),
                        checkpoints_retained: Some(session.checkpoints_retained),
                        on_unwind: Some(session.on_unwind.into()),
                    }),
                }
            }
        }

        impl types::Policy {
            /// Returns the requested policy, with the grant's defaults for omitted settings.
            pub(crate) fn from_wit(
                self,
                grant: &contract::Grant,
            ) -> Result<contract::ContractPolicy, contract::PolicyRefusal> {
                let Self { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = self;
                let mut policy = grant.defaults.clone();
                if let Some(limits) = limits {
                    $crate::with_limits!(limits_from_wit, limits, policy.limits, grant);
                }
                match clock {
                    None => {}
                    Some(types::Clock::Fixed(time_ns)) => policy.clock = $crate::Clock::Fixed(time_ns),
                    Some(types::Clock::Host) => {
                        grant.host_clock_refusal.clone().map_or(Ok(()), Err)?;
                        policy.clock = $crate::Clock::Host;
                    }
                }
                match entropy {
                    None => {}
                    Some(types::Entropy::Seeded(seed)) => policy.entropy = $crate::Entropy::Seeded(seed),
                    Some(types::Entropy::Host) => {
                        grant.host_entropy_refusal.clone().map_or(Ok(()), Err)?;
                        policy.entropy = $crate::Entropy::Host;
                    }
                }
                policy.args = args.unwrap_or(policy.args);
                if let Some(env) = env {
                    policy.env = contract::ContractPolicy::variables(env)?;
                }
                policy.inject_setup = inject_setup.unwrap_or(policy.inject_setup);
                policy.auto_persist_globals = auto_persist_globals.unwrap_or(policy.auto_persist_globals);
                if let Some(session) = session {
                    let types::SessionPolicy { checkpoints, checkpoint_auto_bytes, checkpoints_retained, on_unwind } =
                        session;
                    let session = &mut policy.session;
                    session.checkpoints = checkpoints.map_or(session.checkpoints, Into::into);
                    session.checkpoint_auto_bytes = grant.limit(
                        "session.checkpoint_auto_bytes",
                        checkpoint_auto_bytes,
                        session.checkpoint_auto_bytes,
                    )?;
                    session.checkpoints_retained = grant.limit(
                        "session.checkpoints_retained",
                        checkpoints_retained,
                        session.checkpoints_retained,
                    )?;
                    session.on_unwind = on_unwind.map_or(session.on_unwind, Into::into);
                }
                Ok(policy)
            }
        }
    };
}

/// Builds limits from a request, with the grant's defaults for omitted limits. Fails if a limit exceeds the grant.
#[doc(hidden)]
#[macro_export]
macro_rules! limits_from_wit {
    ($requested:expr, $limits:expr, $grant:expr, $($name:ident),*) => {{
        let types::Limits { $($name),* } = $requested;
        $($limits.$name = $grant.limit(
            concat!("limits.", stringify!($name)),
            $name,
            $limits.$name,
        )?;)*
    }};
}

/// Builds the contract's `limits` record from [`Limits`](crate::Limits).
#[doc(hidden)]
#[macro_export]
macro_rules! limits_into_wit {
    ($limits:expr, $($name:ident),*) => {{
        let limits: $crate::Limits = $limits;
        types::Limits { $($name: Some(limits.$name)),* }
    }};
}
