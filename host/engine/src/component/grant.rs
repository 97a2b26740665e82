//! The granted policy, and the policies that components request within it.

use glovebox_core::contract::{self, ContractPolicy, PolicyRefusal};

use super::wit::types;
use crate::{Clock, Entropy, Policy};

/// The policy that components are granted: their defaults, and the upper bound of their requests.
#[derive(Debug)]
pub(super) struct Grant(pub(super) Policy);

/// Estimates the bytes that the host holds for a policy's arguments and environment. Each text is held three times: as
/// requested, as granted, and as passed to guests. Short texts take more memory than their length.
pub(super) fn weight(asked: &types::Policy) -> u64 {
    const TEXT: usize = size_of::<String>() + 16;
    let texts = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| TEXT + text.len()).sum::<usize>();
    let args = texts(&mut asked.args.iter().flatten());
    let env = texts(&mut asked.env.iter().flatten().flat_map(|(key, value)| [key, value]));
    3 * (args + env) as u64
}

impl Grant {
    /// Resolves a requested policy against the grant.
    pub(super) fn policy(&self, requested: types::Policy) -> Result<Policy, PolicyRefusal> {
        let ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } =
            requested.from_wit(&self.of_contract())?;
        let granted = self.0.clone();
        Ok(Policy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session, ..granted })
    }

    /// Converts the grant to the contract's terms, as a ceiling.
    fn of_contract(&self) -> contract::Grant {
        let (clock, entropy) = (self.0.clock, self.0.entropy);
        contract::Grant {
            defaults: self.granted(),
            is_ceiling: true,
            host_clock_refusal: matches!(clock, Clock::Fixed(_))
                .then(|| PolicyRefusal::beyond("clock", &"`host`", &"`fixed`")),
            host_entropy_refusal: matches!(entropy, Entropy::Seeded(_))
                .then(|| PolicyRefusal::beyond("entropy", &"`host`", &"`seeded`")),
        }
    }

    /// Returns the granted policy, as far as the contract can express it.
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
