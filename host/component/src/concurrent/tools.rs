//! Implements interface `tools`: the host's tools, within the granted limits.

use wasmtime::component::{Accessor, HasSelf};

use super::{
    call::Call,
    wit_tools::{CallInfo, Host, HostWithStore},
};
use crate::{
    SandboxCtx,
    convert::SandboxFailure,
    quotas::QuotaUse,
    wit::types::{CallFailure, SandboxError, Tool, ToolError},
};

impl Host for SandboxCtx {
    fn list_tools(&mut self) -> wasmtime::Result<Vec<Tool>> {
        Ok(self.caller.list_tools())
    }
}

impl<T: Send + 'static> HostWithStore<T> for HasSelf<SandboxCtx> {
    async fn call(
        accessor: &Accessor<T, Self>,
        name: String,
        arguments: String,
        info: CallInfo,
    ) -> wasmtime::Result<Result<String, CallFailure>> {
        match call(accessor, name, arguments, &info).await {
            Ok(result) => Ok(result),
            Err(SandboxFailure::Error(error)) => Ok(Err(refused(error))),
            Err(SandboxFailure::Trap(trap)) => Err(trap),
        }
    }
}

/// Calls a tool on another thread. The quotas are charged for the arguments and for the largest possible result.
async fn call<T: Send + 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    name: String,
    arguments: String,
    info: &CallInfo,
) -> Result<Result<String, CallFailure>, SandboxFailure> {
    let bytes = name.len().saturating_add(arguments.len());
    let mut call = accessor.with(|mut access| Call::holding(access.get(), bytes as u64))?;
    let mut limits = call.caller.host.0.grant.0.limits.clone();
    call.bytes.push(call.caller.meter.take(QuotaUse::Bytes(limits.tool_bytes))?);
    if let Some(timeout_ms) = info.timeout_ms {
        limits.tool_timeout_ms = limits.tool_timeout_ms.min(timeout_ms).max(1);
    }
    call.run_now(move |call, cancel| Ok(call.caller.call_tool(&name, &arguments, &limits, cancel.clone()))).await
}

/// Returns the failure of a call that could not be made.
fn refused(error: SandboxError) -> CallFailure {
    match error {
        SandboxError::QuotaExceeded(message) => CallFailure { kind: ToolError::Limit, message },
        _ => {
            let message = "the host could not make the call; see the host's log".to_owned();
            CallFailure { kind: ToolError::Failed, message }
        }
    }
}
