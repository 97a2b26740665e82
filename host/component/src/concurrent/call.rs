//! A component's call, which runs on another thread, concurrently with the component's other calls.

use std::{
    io, panic,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{CancelToken, ExecuteError};

use crate::{
    SandboxCtx,
    convert::{SandboxFailure, weight},
    ctx::Caller,
    quotas::{QuotaError, QuotaShare, QuotaUse},
    started::request_bytes,
    thread_call::ThreadCall,
    wit::types::{Policy, Request, Runtime, Tool},
};

/// A call with its shares of the quotas. Once the call has begun, its thread holds the shares, so a dropped call counts
/// against the quotas until its script has ended.
pub(super) struct Call {
    pub(super) caller: Arc<Caller>,
    /// The shares of the byte quota for the arguments, and for the output or the result of `execute`.
    pub(super) bytes: Vec<QuotaShare>,
    /// The share of the byte quota for input files, until the sandbox takes its own share for them.
    files: Option<QuotaShare>,
    /// The deadline of the request, counted from the call.
    due: Option<Instant>,
    /// The share of the `started` quota, dropped last. `start` moves the share to the execution.
    pub(super) started: Option<QuotaShare>,
}

/// A call that waits for its turn, or runs on another thread.
type CallFuture<R> = ThreadCall<Call, Result<R, SandboxFailure>>;

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
        Ok(Self { bytes: vec![bytes], started: Some(started), ..Self::without_shares(Arc::clone(&ctx.caller)) })
    }

    /// Creates a call without shares of the quotas, for an execution that has these shares.
    pub(super) fn without_shares(caller: Arc<Caller>) -> Self {
        Self { caller, bytes: Vec::new(), files: None, due: None, started: None }
    }

    /// Charges the files of a request that may wait for its turn, and sets the call's deadline. Calls that do not wait
    /// charge the files when they use them.
    pub(super) fn hold(&mut self, request: &Request) -> Result<(), QuotaError> {
        self.due = request.deadline_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let files = request.files.iter().flatten();
        let bytes = files.map(|file| (file.path.len() as u64).saturating_add(file.bytes.len() as u64));
        self.files = Some(self.caller.meter.take(QuotaUse::Bytes(bytes.fold(0, u64::saturating_add)))?);
        Ok(())
    }

    /// Prepares the request of a call whose turn has come. The time until then counts towards the deadline.
    pub(super) fn begin_request(&mut self, request: &mut Request) {
        self.files = None;
        if let Some(due) = self.due {
            let left = due.saturating_duration_since(Instant::now());
            request.deadline_ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).ok();
        }
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

    /// Runs `work` on another thread when it is the call's turn, with a token that is cancelled if the future is
    /// dropped. No other call may need the result of `work` in order to end: such a call would wait for a call that
    /// waits for its turn. Other calls use [`run_now`](Self::run_now).
    pub(super) async fn run<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Self, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<R, SandboxFailure> {
        let (queue, cancel) = (Arc::clone(&self.caller.queue), self.caller.cancel.child());
        let (due, there) = (self.due, cancel.clone());
        result(ThreadCall::enqueue(&queue, due, self, cancel, move |call| work(call, &there))).await
    }

    /// Like [`run`](Self::run), but does not wait for a turn. The `started` quota limits the number of threads.
    pub(super) async fn run_now<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Self, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<R, SandboxFailure> {
        let (threads, cancel) = (Arc::clone(self.caller.queue.threads()), self.caller.cancel.child());
        let there = cancel.clone();
        result(ThreadCall::spawn(&threads, self, cancel, move |call| work(call, &there))).await
    }
}

/// Waits for the result of a call. Continues a panic of its work.
async fn result<R: Send + 'static>(
    call: Result<CallFuture<R>, (io::Error, Option<Call>)>,
) -> Result<R, SandboxFailure> {
    let call = call.map_err(|(source, _)| ExecuteError::System { what: "thread", source })?;
    let (_call, result) = call.await;
    result.unwrap_or_else(|payload| panic::resume_unwind(payload))
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
