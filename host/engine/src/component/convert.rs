//! Conversions between the engine's types and the contract's, and the policies that components request within the
//! granted one.

use std::time::Duration;

use glovebox_core::contract::{self, ContractPolicy, PolicyRefusal, nanoseconds};

use super::wit::{sandbox::OutputStream, types};
use crate::{Clock, Entropy, Execution, Policy, Request, Stream};

glovebox_core::contract_conversions!(crate::component::wit::types);

/// Converts a request without checking it. `files` are left out, because they belong to the sandbox.
pub(super) fn request(request: &types::Request) -> Request<'_> {
    let types::Request { source, name, kind, stdin, context, files: _, deadline_ms } = request;
    let mut converted = Request::new(source);
    if let Some(name) = name {
        converted = converted.name(name);
    }
    if let Some(kind) = kind {
        converted = converted.kind((*kind).into());
    }
    if let Some(stdin) = stdin {
        converted = converted.stdin(stdin);
    }
    if let Some(json) = context {
        converted = converted.context_json(json);
    }
    if let Some(deadline_ms) = deadline_ms {
        converted = converted.cancel_after(Duration::from_millis(*deadline_ms));
    }
    converted
}

impl From<Execution> for types::Execution {
    fn from(execution: Execution) -> Self {
        let Execution {
            outcome,
            interrupted,
            value,
            displays,
            displays_dropped,
            stdout,
            stderr,
            fuel_consumed,
            memory_used_bytes,
            duration,
            files_created,
            files_modified,
            files_deleted,
            tool_calls,
            workspace_path: _,
            session_id,
            rolled_back_to,
            guidance,
            metadata,
            files: _,
        } = execution;
        Self {
            outcome: outcome.into(),
            interrupted: interrupted.map(Into::into),
            value: value.map(Into::into),
            displays: displays.into_iter().map(Into::into).collect(),
            displays_dropped,
            stdout: stdout.into(),
            stderr: stderr.into(),
            fuel_consumed,
            memory_used_bytes,
            duration_ns: nanoseconds(duration),
            files_created,
            files_modified,
            files_deleted,
            tool_calls: tool_calls.into_iter().map(Into::into).collect(),
            session_id,
            rolled_back_to: rolled_back_to.map(Into::into),
            guidance: guidance.into(),
            metadata: metadata.into(),
        }
    }
}

impl From<OutputStream> for Stream {
    fn from(stream: OutputStream) -> Self {
        match stream {
            OutputStream::Stdout => Self::Stdout,
            OutputStream::Stderr => Self::Stderr,
        }
    }
}

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
