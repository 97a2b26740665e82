//! The policy that components are granted, and what one of them requests of it.

use glovebox_core::contract::{self, ContractPolicy, PolicyRefusal};

use super::wit::types;
use crate::{Clock, Entropy, Policy};

/// The policy that components are granted: what they have where they request nothing, and the most that they may request.
#[derive(Debug)]
pub(super) struct Grant(pub(super) Policy);

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
            requested.from_wit(&self.of_contract())?;
        let granted = self.0.clone();
        Ok(Policy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session, ..granted })
    }

    /// The same in the contract's terms: nothing may be requested beyond it.
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
