//! The functions of interface `sandbox` that need no handle, and interface `tools`. Both versions of the contract share
//! the methods of `Caller`.

use glovebox::{CancelToken, Sandbox};
use wasmtime::component::{Accessor, HasSelf, Resource};

use super::{
    call::{Call, runtime_bytes, tool_bytes},
    live::LiveExecution,
    started::ConcurrentExecution,
    wit::{Host, HostWithStore},
    wit_tools::{self, CallInfo},
};
use crate::{
    SandboxCtx,
    convert::{SandboxFailure, weight},
    quotas::QuotaUse,
    started::{StartRequest, result_share},
    wit::{
        sandbox,
        types::{
            CallFailure, Diagnostic, Execution, InputFile, Policy, ProviderInfo, Request, Runtime, SandboxError, Tool,
            ToolError,
        },
    },
};

impl Host for SandboxCtx {
    fn info(&mut self) -> wasmtime::Result<ProviderInfo> {
        sandbox::Host::info(self)
    }

    fn default_policy(&mut self) -> wasmtime::Result<Policy> {
        sandbox::Host::default_policy(self)
    }
}

impl<T: Send + 'static> HostWithStore<T> for HasSelf<SandboxCtx> {
    async fn execute(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        request: Request,
        policy: Policy,
    ) -> Result<Execution, SandboxFailure> {
        let call = accessor.with(|mut access| {
            let mut call = Call::begin(access.get(), &runtime, &request, &policy, &[])?;
            call.hold(&request)?;
            Ok::<_, SandboxFailure>(call)
        })?;
        call.run(move |call, cancel| call.execute(runtime, request, policy, cancel)).await
    }

    async fn validate(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        request: Request,
        policy: Policy,
    ) -> Result<Vec<Diagnostic>, SandboxFailure> {
        // Drops the parts that validation ignores, so that they are not charged.
        let request = request.for_validation();
        let call = accessor.with(|mut access| Call::begin(access.get(), &runtime, &request, &policy, &[]))?;
        call.run(move |call, cancel| call.caller.validate(runtime, request, policy, cancel)).await
    }

    async fn start(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
        let call = accessor.with(|mut access| Call::begin(access.get(), &runtime, &request, &policy, &tools))?;
        start(accessor, call, move |call| call.start(runtime, request, policy, &tools, false)).await
    }

    async fn start_suspendable(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
        let call = accessor.with(|mut access| Call::begin(access.get(), &runtime, &request, &policy, &tools))?;
        start(accessor, call, move |call| call.start(runtime, request, policy, &tools, true)).await
    }

    async fn resume_suspended(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        suspended: Vec<u8>,
        files: Vec<InputFile>,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
        let bytes = [suspended.len() as u64, runtime_bytes(&runtime), tool_bytes(&tools), weight(&policy)];
        let bytes = bytes.into_iter().fold(0, u64::saturating_add);
        let call = accessor.with(|mut access| Call::holding(access.get(), bytes))?;
        start(accessor, call, move |call| call.resume(runtime, &suspended, files, policy, &tools)).await
    }
}

/// Runs `begin`, which starts an execution, on the thread of `call`, without waiting for a turn. Returns a handle of
/// the execution.
async fn start<T: Send + 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    call: Call,
    begin: impl FnOnce(&mut Call) -> Result<ConcurrentExecution, SandboxFailure> + Send + 'static,
) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
    let handle = call.caller.meter.take(QuotaUse::Handle)?;
    // If this future is dropped, the thread drops the execution, which cancels it.
    let execution = call.run_now(move |call, _| begin(call)).await?;
    accessor.with(|mut access| access.get().check_present()?.put(handle, execution))
}

impl Call {
    /// Implements `execute`. Charges the output to the quota for held bytes, because a component can make several calls
    /// at the same time.
    fn execute(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        cancel: &CancelToken,
    ) -> Result<Execution, SandboxFailure> {
        self.begin_request(&mut request);
        let sandbox = self.caller.sandbox_for_request(runtime, &mut request, policy)?;
        let share = self.caller.output_share(&sandbox)?;
        let execution = self.caller.run_in(&sandbox, &request, cancel)?;
        self.bytes.push(result_share(share, &execution)?);
        Ok(execution.into())
    }

    fn start(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        tools: &[Tool],
        is_suspendable: bool,
    ) -> Result<ConcurrentExecution, SandboxFailure> {
        let sandbox = self.caller.sandbox_for_request(runtime, &mut request, policy)?;
        let request_share = self.take_request_share(&request)?;
        let start = StartRequest::new(&sandbox, &request, tools, is_suspendable);
        self.start_in(sandbox, StartRequest { request_share, ..start })
    }

    /// Implements `resume-suspended`.
    fn resume(
        &mut self,
        runtime: Runtime,
        suspended: &[u8],
        files: Vec<InputFile>,
        policy: Policy,
        tools: &[Tool],
    ) -> Result<ConcurrentExecution, SandboxFailure> {
        let sandbox = self.caller.sandbox_with_files(runtime, policy, files)?;
        let (suspended, suspendable) = self.caller.decode_suspended(suspended)?;
        let start = StartRequest::resume(&sandbox, &suspended, suspendable, tools)?;
        self.start_in(sandbox, start)
    }

    /// Starts an execution in `sandbox`. The execution's output, displays, calls and end wake the execution's
    /// observers.
    fn start_in(&mut self, sandbox: Sandbox, start: StartRequest<'_>) -> Result<ConcurrentExecution, SandboxFailure> {
        let tool_bytes = sandbox.policy().limits.tool_bytes;
        let started = self.take_started_share()?;
        let live = LiveExecution::default();
        let request = live.listen(start.request);
        let start = StartRequest { request, ..start };
        let stepped = self.caller.start(started, sandbox, start)?;
        live.observe(&stepped.started);
        Ok(ConcurrentExecution::new(stepped, live, tool_bytes))
    }
}

impl wit_tools::Host for SandboxCtx {
    fn list_tools(&mut self) -> wasmtime::Result<Vec<Tool>> {
        Ok(self.caller.list_tools())
    }
}

impl<T: Send + 'static> wit_tools::HostWithStore<T> for HasSelf<SandboxCtx> {
    async fn call(
        accessor: &Accessor<T, Self>,
        name: String,
        arguments: String,
        info: CallInfo,
    ) -> wasmtime::Result<Result<String, CallFailure>> {
        match call_tool(accessor, name, arguments, &info).await {
            Ok(result) => Ok(result),
            Err(SandboxFailure::Error(error)) => Ok(Err(refused(error))),
            Err(SandboxFailure::Trap(trap)) => Err(trap),
        }
    }
}

/// Calls a tool on another thread. The quotas are charged for the arguments and for the largest possible result.
async fn call_tool<T: Send + 'static>(
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
