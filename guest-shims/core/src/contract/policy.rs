//! The part of a policy that the contract can express.

use std::{collections::BTreeMap, fmt::Display};

use serde::{Deserialize, Serialize};

use super::{key, quoted};
use crate::{Clock, Entropy, Limits, session::SessionPolicy};

/// The settings of a policy that the contract can express. Their JSON form uses the names of a policy file.
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
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Makes packages importable for Python scripts.
    pub inject_setup: bool,
    /// Loads globals from the workspace and saves them to it.
    pub auto_persist_globals: bool,
    /// The settings of sessions.
    pub session: SessionPolicy,
}

/// The policies that a backend grants.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The policy of an empty request.
    pub defaults: ContractPolicy,
    /// Makes the default limits the maximum.
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
    /// The request exceeds the default and [`is_ceiling`](Self::is_ceiling) is set.
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

/// The reason for refusing a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyRefusal {
    /// The policy is invalid or exceeds the grant.
    Invalid(String),
    /// The backend does not support a requested setting.
    Unsupported(String),
}

impl PolicyRefusal {
    /// Returns the refusal of a value that exceeds the grant.
    #[must_use]
    pub fn beyond(name: &str, requested: &dyn Display, granted: &dyn Display) -> Self {
        Self::Invalid(format!("`{}`: {requested} is requested, and at most {granted} is granted", key(name)))
    }
}

impl ContractPolicy {
    /// Returns whether equal input gives equal executions, to the unit of fuel.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.clock.is_repeatable() && self.entropy.is_repeatable()
    }

    /// Collects environment variables.
    ///
    /// # Errors
    /// A variable occurs twice.
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
