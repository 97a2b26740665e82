//! What an execution may do: what was requested, with every default filled in.

use std::fmt::Display;

use glovebox_core::{
    Clock, Entropy, Limits, PolicyParts,
    contract::{ContractPolicy, Grant, PolicyRefusal},
    session::SessionPolicy,
};

use crate::{
    World,
    bindings::types::{self, SandboxError},
};

/// Everything an execution may do.
///
/// Whoever embeds a provider is its caller, so that nothing is granted beside: every valid policy may be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How much it may use.
    pub limits: Limits,
    /// The time it sees.
    pub clock: Clock,
    /// The randomness it sees.
    pub entropy: Entropy,
    /// Arguments after the script's name.
    pub args: Vec<String>,
    /// Environment variables, ascending.
    pub env: Vec<(String, String)>,
    /// Whether Python scripts find packages.
    pub inject_setup: bool,
    /// Whether globals are loaded from the workspace and saved there.
    pub auto_persist_globals: bool,
    /// How sessions keep and lose their state.
    pub session: SessionPolicy,
}

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

impl Policy {
    /// The policy of an empty request: the clock if there is one, and random numbers from a seed.
    #[must_use]
    pub fn default_in(world: &World) -> Self {
        Self {
            limits: held(Limits::default()),
            clock: if world.clocks.is_some() { Clock::Host } else { Clock::Fixed(0) },
            entropy: Entropy::Seeded(0),
            args: Vec::new(),
            env: Vec::new(),
            inject_setup: true,
            auto_persist_globals: false,
            session: SessionPolicy::default(),
        }
    }

    /// The requested policy, if it is valid.
    pub fn from_wit(world: &World, requested: types::Policy) -> Result<Self, SandboxError> {
        let ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } =
            requested.from_wit(world, &Self::default_in(world).into_contract())?;
        let limits = held(limits);
        PolicyParts { limits: &limits, session: &session, args: &args, env: &env }.check()?;
        let env = env.into_iter().collect();
        Ok(Self { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session })
    }

    /// Whether equal input gives equal executions, to the unit of fuel.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.clock.is_repeatable() && self.entropy.is_repeatable()
    }

    /// The policy as the contract has it, with every default filled in.
    #[must_use]
    pub fn to_wit(&self) -> types::Policy {
        self.clone().into_contract().into()
    }

    fn into_contract(self) -> ContractPolicy {
        let Self { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = self;
        let env = env.into_iter().collect();
        ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session }
    }
}
