//! The functions of the interface that need no handle. They share their implementation with version 0.2.0.

use std::{sync::Arc, task::Waker};

use wasmtime::component::{Accessor, HasSelf, Resource};

use super::{
    call::Call,
    observers::Observers,
    started::ConcurrentExecution,
    wit::{Host, HostWithStore},
};
use crate::{
    CancelToken,
    component::{
        SandboxCtx,
        convert::{self, SandboxFailure},
        quotas::QuotaUse,
        sandbox::fuel_of_an_execution,
        started::StartRequest,
        wit::{
            sandbox,
            types::{Diagnostic, Execution, Policy, ProviderInfo, Request, Runtime, Tool},
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
        let call = accessor.with(|mut access| Call::begin(access.get(), &request, &policy, &[]))?;
        call.run(move |call, cancel| call.execute(runtime, request, policy, cancel)).await
    }

    async fn validate(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        request: Request,
        policy: Policy,
    ) -> Result<Vec<Diagnostic>, SandboxFailure> {
        // Drops the ignored parts before the call is charged.
        let request = request.for_validation();
        let call = accessor.with(|mut access| Call::begin(access.get(), &request, &policy, &[]))?;
        call.run(move |call, cancel| call.caller.validate(runtime, request, policy, cancel)).await
    }

    async fn start(
        accessor: &Accessor<T, Self>,
        runtime: Runtime,
        request: Request,
        policy: Policy,
        tools: Vec<Tool>,
    ) -> Result<Resource<ConcurrentExecution>, SandboxFailure> {
        let (call, handle) = accessor.with(|mut access| {
            let call = Call::begin(access.get(), &request, &policy, &tools)?;
            let handle = call.caller.meter.take(QuotaUse::Handle)?;
            Ok::<_, SandboxFailure>((call, handle))
        })?;
        // If this future is dropped, the thread drops the execution, which cancels it.
        let execution = call.run(move |call, _| call.start(runtime, request, policy, &tools)).await?;
        accessor.with(|mut access| access.get().here()?.put(handle, execution))
    }
}

impl Call {
    /// Implements `execute`. The output is charged, because a component can make several calls at the same time.
    fn execute(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        cancel: &CancelToken,
    ) -> Result<Execution, SandboxFailure> {
        let sandbox = self.caller.sandbox_for_request(runtime, &mut request, policy)?;
        self.bytes.push(self.caller.output_share(&sandbox)?);
        self.caller.execute_in(&sandbox, &request, cancel)
    }

    fn start(
        &mut self,
        runtime: Runtime,
        mut request: Request,
        policy: Policy,
        tools: &[Tool],
    ) -> Result<ConcurrentExecution, SandboxFailure> {
        let sandbox = self.caller.sandbox_for_request(runtime, &mut request, policy)?;
        let fuel = fuel_of_an_execution(&sandbox, &request);
        let tool_bytes = sandbox.policy().limits.tool_bytes;
        let started = match self.started.take() {
            Some(share) => share,
            None => self.caller.meter.take(QuotaUse::Started)?,
        };
        let observers = Arc::new(Observers::default());
        let there = Arc::clone(&observers);
        let request = convert::request(&request).on_output(move |_, _| there.wake_all());
        let start = StartRequest { retains_files: false, ..StartRequest::new(request, fuel, tools) };
        let stepped = self.caller.start(started, sandbox, start)?;
        stepped.started.pending().observe(Waker::from(Arc::clone(&observers)));
        Ok(ConcurrentExecution::new(stepped, observers, tool_bytes))
    }
}
