//! The policy that components are granted, and what one of them requests of it.

use std::fmt::Display;

use glovebox_core::contract::{self, ContractPolicy, PolicyRefusal};

use super::wit::types;
use crate::{Clock, Entropy, Policy};

/// The policy that components are granted: what they have where they request nothing, and the most that they may request.
#[derive(Debug)]
pub(super) struct Grant(pub(super) Policy);

impl contract::Grant for Grant {
    fn check_limit<T: Copy + PartialOrd + Display>(
        &self,
        key: &str,
        requested: T,
        granted: T,
    ) -> Result<(), PolicyRefusal> {
        if requested > granted { Err(PolicyRefusal::beyond(key, &requested, &granted)) } else { Ok(()) }
    }

    fn check_host_clock(&self) -> Result<(), PolicyRefusal> {
        match self.0.clock {
            Clock::Host => Ok(()),
            Clock::Fixed(_) => Err(PolicyRefusal::beyond("clock", &"`host`", &"`fixed`")),
        }
    }

    fn check_host_entropy(&self) -> Result<(), PolicyRefusal> {
        match self.0.entropy {
            Entropy::Host => Ok(()),
            Entropy::Seeded(_) => Err(PolicyRefusal::beyond("entropy", &"`host`", &"`seeded`")),
        }
    }
}

/// About what the host holds for a policy's arguments and environment, where a few bytes of text may take many: as
/// requested, as granted, and as given to guests.
pub(super) fn weight(asked: &types::Policy) -> u64 {
    const TEXT: usize = size_of::<String>() + 16;
    let texts = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| TEXT + text.len()).sum::<usize>();
    let args = texts(&mut asked.args.iter().flatten());
    let env = texts(&mut asked.env.iter().flatten().flat_map(|(key, value)| [key, value]));
    3 * (args + env) as u64
}

impl Grant {
    /// The policy that a component requests.
    pub(super) fn policy(&self, requested: types::Policy) -> Result<Policy, PolicyRefusal> {
        let ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } =
            requested.from_wit(self, &self.granted())?;
        let granted = self.0.clone();
        Ok(Policy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session, ..granted })
    }

    /// The granted policy, as far as the contract can express it.
    pub(super) fn granted(&self) -> ContractPolicy {
        let Policy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session, .. } = &self.0;
        ContractPolicy {
            limits: limits.clone(),
            clock: *clock,
            entropy: *entropy,
            args: args.clone(),
            env: env.clone(),
            inject_setup: *inject_setup,
            auto_persist_globals: *auto_persist_globals,
            session: session.clone(),
        }
    }
}
