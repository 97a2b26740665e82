//! A component's call, which runs on its own thread, concurrently with the component's other calls.

use std::{panic, sync::Arc};

use crate::{
    CancelToken, ExecuteError,
    component::{
        SandboxCtx,
        convert::{SandboxFailure, weight},
        ctx::Caller,
        quotas::{QuotaError, QuotaShare, QuotaUse},
        started::request_bytes,
        thread_call::ThreadCall,
        wit::types::{Policy, Request, Runtime, Tool},
    },
};

/// A call with its shares of the quotas. The call's thread holds the shares, so a dropped call counts against the
/// quotas until its script has ended.
pub(super) struct Call {
    pub(super) caller: Arc<Caller>,
    /// The shares of the byte quota for the arguments and for the output of `execute`.
    pub(super) bytes: Vec<QuotaShare>,
    /// The share of the `started` quota, dropped last. `start` moves the share to the execution.
    pub(super) started: Option<QuotaShare>,
}

impl Call {
    /// Takes the call's shares of the quotas. Fails if the component has too many calls and started executions, or if
    /// the host already holds too many bytes for it.
    pub(super) fn begin(
        ctx: &mut SandboxCtx,
        runtime: &Runtime,
        request: &Request,
        policy: &Policy,
        tools: &[Tool],
    ) -> Result<Self, SandboxFailure> {
        let bytes = [request_bytes(request) as u64, runtime_bytes(runtime), tool_bytes(tools), weight(policy)];
        Self::holding(ctx, bytes.into_iter().fold(0, u64::saturating_add))
    }

    /// Like [`begin`](Self::begin), for a call with `bytes` bytes of arguments.
    pub(super) fn holding(ctx: &mut SandboxCtx, bytes: u64) -> Result<Self, SandboxFailure> {
        let meter = &ctx.check_present()?.caller.meter;
        let started = meter.take(QuotaUse::Started)?;
        let bytes = meter.take(QuotaUse::Bytes(bytes))?;
        Ok(Self { caller: Arc::clone(&ctx.caller), bytes: vec![bytes], started: Some(started) })
    }

    /// Takes the share for the arguments out of the call and shrinks the share to the size of the request. The
    /// execution keeps the share until the execution ends.
    pub(super) fn take_request_share(&mut self, request: &Request) -> Result<Option<QuotaShare>, SandboxFailure> {
        let mut share = self.bytes.pop();
        if let Some(share) = &mut share {
            share.resize(request_bytes(request) as u64)?;
        }
        Ok(share)
    }

    /// Takes the call's share of the `started` quota, for the execution that the call starts.
    pub(super) fn take_started_share(&mut self) -> Result<QuotaShare, QuotaError> {
        match self.started.take() {
            Some(share) => Ok(share),
            None => self.caller.meter.take(QuotaUse::Started),
        }
    }

    /// Runs `work` on a new thread, with a token that is cancelled if the future is dropped.
    pub(super) async fn run<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Self, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<R, SandboxFailure> {
        let cancel = self.caller.cancel.child();
        let there = cancel.clone();
        let call = ThreadCall::spawn(self, cancel, move |call| work(call, &there));
        let call = call.map_err(|(source, _)| ExecuteError::System { what: "thread", source })?;
        let (_call, result) = call.await;
        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }
}

/// Returns the size of a runtime's name in bytes.
pub(super) fn runtime_bytes(runtime: &Runtime) -> u64 {
    match runtime {
        Runtime::Python | Runtime::Javascript => 0,
        Runtime::Named(name) => name.len() as u64,
    }
}

/// Returns the size of tool definitions in bytes.
pub(super) fn tool_bytes(tools: &[Tool]) -> u64 {
    let bytes = tools.iter().map(|Tool { name, description, arguments_schema }| {
        size_of::<Tool>() + name.len() + description.len() + arguments_schema.as_ref().map_or(0, String::len)
    });
    bytes.fold(0, |sum, bytes| sum.saturating_add(bytes as u64))
}
