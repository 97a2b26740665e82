//! A policy, as far as the contract can express it.

use std::{collections::BTreeMap, fmt::Display};

use serde::{Deserialize, Serialize};

use super::{key, quoted};
use crate::{Clock, Entropy, Limits, session::SessionPolicy};

/// Everything in a policy that the contract can express. As JSON it has the names of a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug)]
pub struct Grant {
    /// The policy of an empty request.
    pub defaults: ContractPolicy,
    /// Whether no limit may be requested beyond the default.
    pub is_ceiling: bool,
    /// Why `clock.host` may not be requested, if it may not.
    pub host_clock_refusal: Option<PolicyRefusal>,
    /// Why `entropy.host` may not be requested, if it may not.
    pub host_entropy_refusal: Option<PolicyRefusal>,
}

impl Grant {
    /// The limit `key`: what is requested, or the default if nothing is.
    pub fn limit<T: Copy + PartialOrd + Display>(
        &self,
        key: &str,
        requested: Option<T>,
        default: T,
    ) -> Result<T, PolicyRefusal> {
        match requested {
            Some(requested) if self.is_ceiling && requested > default => {
                Err(PolicyRefusal::beyond(key, &requested, &default))
            }
            requested => Ok(requested.unwrap_or(default)),
        }
    }
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
