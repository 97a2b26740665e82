//! What an execution may do: what was requested, with every default filled in.

use std::{collections::BTreeMap, fmt::Display};

use glovebox_core::{
    Clock, Entropy, Limits, PolicyParts,
    contract::{ContractPolicy, Grant, PolicyRefusal},
    session::SessionPolicy,
};

use crate::{
    World,
    bindings::types::{self, SandboxError},
};

/// The most that all sessions together may hold, whatever is requested: it all lies in the shim's own memory, which has 4 GiB and
/// ends the instance where it is full.
const MAX_SESSION_TOTAL_BYTES: u64 = 2 << 30;

/// The limits, as far as a provider can keep what they allow.
fn held(limits: Limits) -> Limits {
    let mut held = limits;
    held.session_total_bytes = held.session_total_bytes.min(MAX_SESSION_TOTAL_BYTES);
    held
}

impl Grant for World {
    fn check_limit<T: Copy + PartialOrd + Display>(&self, _: &str, _: T, _: T) -> Result<(), PolicyRefusal> {
        Ok(())
    }

    fn check_host_clock(&self) -> Result<(), PolicyRefusal> {
        match &self.clocks {
            Some(_) => Ok(()),
            None => Err(PolicyRefusal::Unsupported("`clock`: this provider has no clock; request `fixed`".into())),
        }
    }

    fn check_host_entropy(&self) -> Result<(), PolicyRefusal> {
        Err(PolicyRefusal::Unsupported("`entropy`: this provider has no entropy source; request `seeded`".into()))
    }
}

/// Whoever embeds a provider is its caller, so that nothing is granted beside: every valid policy may be requested.
impl World {
    /// The policy of an empty request: the clock if there is one, and random numbers from a seed.
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

    /// The requested policy, if it is valid.
    pub fn policy(&self, requested: types::Policy) -> Result<ContractPolicy, SandboxError> {
        let mut policy = requested.from_wit(self, &self.default_policy())?;
        policy.limits = held(policy.limits);
        let ContractPolicy { limits, session, args, env, .. } = &policy;
        PolicyParts { limits, session, args, env }.check()?;
        Ok(policy)
    }
}
