//! A provider between a client and another provider. It forwards all calls and adds one rule: no execution takes longer
//! than a minute.

mod blob;
mod files;
mod session;
mod started;

use bindings::exports::glovebox::sandbox::sandbox::{BlobBorrow, Guest, Started};
use bindings::glovebox::sandbox::sandbox as inner;
use bindings::glovebox::sandbox::types::{
    Diagnostic, Execution, InputFile, Limits, Policy, ProviderInfo, Request, Runtime, SandboxError, Tool,
};

mod bindings {
    wit_bindgen::generate!({
        path: "../../../../wit",
        inline: "
            package glovebox:forward;

            world forward {
                import glovebox:sandbox/sandbox@0.2.0;
                export glovebox:sandbox/sandbox@0.2.0;
            }
        ",
        world: "glovebox:forward/forward",
        generate_all,
    });

    export!(Forward with_types_in self);

    use super::Forward;
}

/// The rule: the maximum timeout of an execution, in milliseconds.
const TIMEOUT_MS: u64 = 60_000;

struct Forward;

impl Guest for Forward {
    type Started = started::Forwarded;
    type Session = session::Forwarded;
    type Files = files::Forwarded;
    type Blob = blob::Forwarded;

    fn info() -> ProviderInfo {
        ProviderInfo { name: "forward".into(), version: env!("CARGO_PKG_VERSION").into(), ..inner::info() }
    }

    fn default_policy() -> Policy {
        let policy = inner::default_policy();
        let timeout_ms = |limits: &Limits| limits.timeout_ms.map(|timeout_ms| timeout_ms.min(TIMEOUT_MS));
        let limits = policy.limits.map(|limits| Limits { timeout_ms: timeout_ms(&limits), ..limits });
        Policy { limits, ..policy }
    }

    fn execute(runtime: Runtime, request: Request, policy: Policy) -> Result<Execution, SandboxError> {
        inner::execute(&runtime, &request, &held(policy)?)
    }

    fn validate(runtime: Runtime, request: Request, policy: Policy) -> Result<Vec<Diagnostic>, SandboxError> {
        inner::validate(&runtime, &request, &held(policy)?)
    }

    fn start(runtime: Runtime, request: Request, policy: Policy, tools: Vec<Tool>) -> Result<Started, SandboxError> {
        Ok(started::given(inner::start(&runtime, &request, &held(policy)?, &tools)?))
    }

    fn start_suspendable(
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Started, SandboxError> {
        Ok(started::given(inner::start_suspendable(&runtime, &request, &held(policy)?, &tools)?))
    }

    fn resume_suspended(
        runtime: Runtime,
        suspended: BlobBorrow<'_>,
        files: Vec<InputFile>,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Started, SandboxError> {
        let suspended = &suspended.get::<blob::Forwarded>().0;
        Ok(started::given(inner::resume_suspended(&runtime, suspended, &files, &held(policy)?, &tools)?))
    }
}

/// Applies the rule to a policy. An omitted time limit gets this provider's default. A time limit above the maximum is
/// rejected, as the contract requires, and never silently lowered.
fn held(mut policy: Policy) -> Result<Policy, SandboxError> {
    let limits = match &mut policy.limits {
        Some(limits) => limits,
        none => none.insert(no_limits()),
    };
    match limits.timeout_ms {
        Some(requested) if requested > TIMEOUT_MS => Err(SandboxError::InvalidPolicy(format!(
            "`limits.timeout-ms`: {requested} is requested, but the maximum is {TIMEOUT_MS}"
        ))),
        Some(_) => Ok(policy),
        None => {
            limits.timeout_ms = Forward::default_policy().limits.and_then(|limits| limits.timeout_ms);
            Ok(policy)
        }
    }
}

/// Returns limits without values: the inner provider's defaults apply.
fn no_limits() -> Limits {
    Limits {
        fuel: None,
        fuel_reserve: None,
        timeout_ms: None,
        timeout_reserve_ms: None,
        memory_bytes: None,
        stdout_bytes: None,
        stderr_bytes: None,
        display_bytes: None,
        source_bytes: None,
        stdin_bytes: None,
        workspace_bytes: None,
        workspace_inodes: None,
        open_files: None,
        tool_calls: None,
        tool_calls_at_once: None,
        tool_timeout_ms: None,
        tool_bytes: None,
        tool_record_bytes: None,
        persisted_bytes: None,
        session_count: None,
        session_total_bytes: None,
    }
}
