//! Conversions between core's types and the contract's, with the checks of requested policies.

use std::collections::BTreeMap;

use glovebox_core::{
    Clock, Entropy, Limits, PolicyParts, Refusal,
    contract::{ContractPolicy, Grant, PolicyRefusal, not_resumable, quoted},
    hibernate::ResumeError,
    session::SessionPolicy,
};
use glovebox_interpreters::DriverError;

use crate::{
    World,
    bindings::types::{self, SandboxError},
};

glovebox_core::contract_conversions!(crate::bindings::types);

/// Maximum bytes that all sessions together may hold, regardless of the request. Sessions are in the shim's own memory,
/// which is limited to 4 GiB and ends the instance when it is full.
const MAX_SESSION_TOTAL_BYTES: u64 = 2 << 30;

/// Reduces the limits to the maximum of a provider.
fn held(limits: Limits) -> Limits {
    let mut held = limits;
    held.session_total_bytes = held.session_total_bytes.min(MAX_SESSION_TOTAL_BYTES);
    held
}

/// A provider's caller is its embedder, so there is no separate grant: every valid policy may be requested.
impl World {
    /// Returns the policy of an empty request: the host's clock if there is one, and seeded random numbers.
    #[must_use]
    pub fn default_policy(&self) -> ContractPolicy {
        ContractPolicy {
            limits: held(Limits::default()),
            clock: if self.clocks.is_some() { Clock::Host } else { Clock::Fixed(0) },
            entropy: Entropy::Seeded(0),
            args: Vec::new(),
            env: BTreeMap::new(),
            inject_setup: true,
            auto_persist_globals: false,
            session: SessionPolicy::default(),
        }
    }

    /// Returns the requested policy, if it is valid.
    pub fn policy(&self, requested: types::Policy) -> Result<ContractPolicy, SandboxError> {
        let no_clock = || PolicyRefusal::Unsupported("`clock`: this provider has no clock; request `fixed`".into());
        let no_entropy = "`entropy`: this provider has no entropy source; request `seeded`";
        let mut policy = requested.from_wit(&Grant {
            defaults: self.default_policy(),
            is_ceiling: false,
            host_clock_refusal: self.clocks.is_none().then(no_clock),
            host_entropy_refusal: Some(PolicyRefusal::Unsupported(no_entropy.into())),
        })?;
        policy.limits = held(policy.limits);
        let ContractPolicy { limits, session, args, env, .. } = &policy;
        PolicyParts { limits, session, args, env }.check()?;
        Ok(policy)
    }
}

/// Returns the error for a variable that could not be read or set.
pub(crate) fn refused_variable(name: &str, refusal: Refusal) -> SandboxError {
    match refusal {
        Refusal::Guest(reason) => SandboxError::Variable(format!("`{}`: {reason}", quoted(name))),
        Refusal::Driver(error) => error.into(),
    }
}

impl From<ResumeError> for SandboxError {
    fn from(error: ResumeError) -> Self {
        Self::NotResumable(not_resumable(&error))
    }
}

impl From<DriverError> for SandboxError {
    /// The image and its driver do not match, because the component was woven incorrectly.
    fn from(error: DriverError) -> Self {
        Self::Unavailable(format!("the guest could not be run: {error}"))
    }
}
