//! A policy, as far as the contract can express it.

use std::{collections::BTreeMap, fmt::Display};

use super::{key, quoted};
use crate::{Clock, Entropy, Limits, session::SessionPolicy};

/// Everything in a policy that the contract can express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractPolicy {
    /// How much an execution may use.
    pub limits: Limits,
    /// The time it sees.
    pub clock: Clock,
    /// The randomness it sees.
    pub entropy: Entropy,
    /// Arguments after the script's name.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Whether Python scripts find packages.
    pub inject_setup: bool,
    /// Whether globals are loaded from the workspace and saved there.
    pub auto_persist_globals: bool,
    /// How sessions keep and lose their state.
    pub session: SessionPolicy,
}

/// What a backend grants of a requested policy.
pub trait Grant {
    /// Whether this value may be requested under `key`, where `granted` is the default.
    fn check_limit<T: Copy + PartialOrd + Display>(
        &self,
        key: &str,
        requested: T,
        granted: T,
    ) -> Result<(), PolicyRefusal>;

    /// Whether `clock.host` may be requested.
    fn check_host_clock(&self) -> Result<(), PolicyRefusal>;

    /// Whether `entropy.host` may be requested.
    fn check_host_entropy(&self) -> Result<(), PolicyRefusal>;
}

/// Why a policy is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyRefusal {
    /// It is invalid, or beyond what is granted.
    Invalid(String),
    /// The backend lacks something that it requests.
    Unsupported(String),
}

impl PolicyRefusal {
    /// More is requested than is granted.
    #[must_use]
    pub fn beyond(name: &str, requested: &dyn Display, granted: &dyn Display) -> Self {
        Self::Invalid(format!("`{}`: {requested} is requested, and at most {granted} is granted", key(name)))
    }
}

impl ContractPolicy {
    /// Whether equal input gives equal executions, to the unit of fuel.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.clock.is_repeatable() && self.entropy.is_repeatable()
    }

    /// What is requested, or what is granted if nothing is.
    pub fn limit<T: Copy + PartialOrd + Display>(
        grant: &impl Grant,
        key: &str,
        requested: Option<T>,
        granted: T,
    ) -> Result<T, PolicyRefusal> {
        let Some(requested) = requested else { return Ok(granted) };
        grant.check_limit(key, requested, granted)?;
        Ok(requested)
    }

    /// Environment variables, of which none is given twice.
    pub fn variables(env: Vec<(String, String)>) -> Result<BTreeMap<String, String>, PolicyRefusal> {
        let mut variables = BTreeMap::new();
        for (name, value) in env {
            if variables.contains_key(&name) {
                let name: String = quoted(&name).chars().take(100).collect();
                return Err(PolicyRefusal::Invalid(format!("`env`: `{name}` is given twice")));
            }
            variables.insert(name, value);
        }
        Ok(variables)
    }
}
