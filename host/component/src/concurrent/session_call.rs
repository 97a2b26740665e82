//! A call into a session, which can run concurrently with calls into other sessions.

use std::sync::Arc;

use glovebox::{CancelToken, internal::ThreadPool};
use wasmtime::component::{Accessor, HasSelf, Resource};

use super::{call::Call, live::LiveExecution, started::ConcurrentExecution};
use crate::{
    SandboxCtx,
    convert::SandboxFailure,
    quotas::{QuotaShare, QuotaUse},
    sandbox::Bytes,
    session::{BusyGuard, SessionResource, SessionUseGuard},
    started::{SessionStartRequest, StartedResource},
    wit::types::{Policy, Request, Runtime, SandboxError, Tool},
};

/// A call into a session. The session is busy until the call returns or is dropped.
pub(super) struct SessionCall {
    call: Call,
    session: SessionResource,
    stepping: BusyGuard,
}

/// A session and the guard that excludes other calls.
pub(super) struct UsedSession {
    pub(super) resource: SessionResource,
    pub(super) running: SessionUseGuard,
}

impl SessionCall {
    /// Takes the shares of a call with `bytes` bytes of arguments. Fails if the session is busy, or if a quota would be
    /// exceeded.
    pub(super) fn begin(
        ctx: &mut SandboxCtx,
        session: &Resource<SessionResource>,
        bytes: usize,
    ) -> Result<Self, SandboxFailure> {
        let session = ctx.check_present()?.get(session)?.clone();
        Self::admit(Call::holding(ctx, bytes as u64)?, session)
    }

    /// Like [`begin`](Self::begin), for a call that already has its shares.
    pub(super) fn admit(call: Call, session: SessionResource) -> Result<Self, SandboxFailure> {
        let stepping = session.begin_call()?;
        Ok(Self { call, session, stepping })
    }

    /// Sets the deadline of the call's request.
    pub(super) fn with_deadline(mut self, request: &Request) -> Result<Self, SandboxFailure> {
        self.call.hold(request)?;
        Ok(self)
    }

    /// Charges the quota for the handle or the stream that the call returns.
    pub(super) fn with_handle(self) -> Result<(Self, QuotaShare), SandboxFailure> {
        let handle = self.call.caller.meter.take(QuotaUse::Handle)?;
        Ok((self, handle))
    }

    /// Returns a second guard for [`run_now`](Self::run_now). The session is busy until either guard is dropped.
    pub(super) fn second_guard(&self) -> BusyGuard {
        self.stepping.second()
    }

    /// Runs `work` on another thread, when it is the call's turn and all dropped calls have left the session. The token
    /// is cancelled if the future is dropped.
    pub(super) async fn run<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Call, UsedSession, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<R, SandboxFailure> {
        let Self { call, session, stepping: _stepping } = self;
        let threads = Arc::clone(call.caller.queue.threads());
        let session = WaitingSession { session: Some(session), threads };
        call.run(move |call, cancel| session.enter(call, work, cancel)).await
    }

    /// Like [`run`](Self::run), but does not wait for a turn, for calls that start an execution. The session stays busy
    /// until the returned guard is dropped.
    pub(super) async fn run_now<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Call, UsedSession, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<(R, BusyGuard), SandboxFailure> {
        let Self { call, session, stepping } = self;
        let result = call.run_now(move |call, cancel| enter(session, call, work, cancel)).await?;
        Ok((result, stepping))
    }
}

/// The session of a call that waits for its turn. If the call is dropped, the session can be the last reference. It is
/// then dropped on another thread, because that can take a long time.
struct WaitingSession {
    session: Option<SessionResource>,
    threads: Arc<ThreadPool>,
}

impl WaitingSession {
    fn enter<R>(
        mut self,
        call: &mut Call,
        work: impl FnOnce(&mut Call, UsedSession, &CancelToken) -> Result<R, SandboxFailure>,
        cancel: &CancelToken,
    ) -> Result<R, SandboxFailure> {
        match self.session.take() {
            Some(session) => enter(session, call, work, cancel),
            None => Err(dropped_call()),
        }
    }
}

impl Drop for WaitingSession {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.threads.drop_later(session.into_session());
        }
    }
}

/// Performs a call in a session, after all dropped calls have left the session.
fn enter<R>(
    session: SessionResource,
    call: &mut Call,
    work: impl FnOnce(&mut Call, UsedSession, &CancelToken) -> Result<R, SandboxFailure>,
    cancel: &CancelToken,
) -> Result<R, SandboxFailure> {
    let is_dropped = || cancel.is_cancelled() && !call.caller.cancel.is_cancelled();
    let running = session.run_call(cancel, is_dropped).ok_or_else(dropped_call)?;
    session.keeper().call.set(cancel);
    work(call, UsedSession { resource: session, running }, cancel)
}

fn dropped_call() -> SandboxFailure {
    SandboxError::Unavailable("the call was dropped".into()).into()
}

/// An execution that has begun in a session.
pub(super) struct SessionExecution {
    stepped: StartedResource,
    live: LiveExecution,
    tool_bytes: u64,
}

impl SessionExecution {
    /// Adds the guard that keeps the session busy until the component drops the execution.
    pub(super) fn with_guard(mut self, stepping: BusyGuard) -> ConcurrentExecution {
        self.stepped.stepping = Some(stepping);
        ConcurrentExecution::new(self.stepped, self.live, self.tool_bytes)
    }
}

impl Call {
    /// Starts an execution in a session. The execution's output, displays, calls and end wake the execution's
    /// observers. `until_end` is dropped when the execution has ended.
    pub(super) fn start_in_session(
        &mut self,
        session: SessionResource,
        start: SessionStartRequest<'_>,
        until_end: impl Send + 'static,
    ) -> Result<SessionExecution, SandboxFailure> {
        let started = self.take_started_share()?;
        let live = LiveExecution::default();
        let SessionStartRequest { request, suspendable } = start;
        let start = SessionStartRequest { request: live.listen(request), suspendable };
        let tool_bytes = session.session().sandbox().policy().limits.tool_bytes;
        let stepped = self.caller.start_in_session(session, started, start, until_end)?;
        live.observe(&stepped.started);
        Ok(SessionExecution { stepped, live, tool_bytes })
    }

    /// Implements `session.resume-suspended`. `cancel` is the token of the call.
    pub(super) fn resume_in_session(
        &mut self,
        runtime: Runtime,
        suspended: Bytes,
        policy: Policy,
        tools: &[Tool],
        cancel: &CancelToken,
    ) -> Result<(SessionResource, ConcurrentExecution), SandboxFailure> {
        let sandbox = self.caller.sandbox_for(runtime, policy)?;
        let (decoded, suspendable) = self.caller.decode_suspended(suspended.as_slice())?;
        drop(suspended);
        let session = self.caller.restore_suspended(&sandbox, tools, &decoded, cancel)?;
        let (stepping, running) = session.step()?;
        let until_end = (running, stepping.second());
        let start = SessionStartRequest { request: decoded.request(), suspendable: Some(suspendable) };
        let execution = self.start_in_session(session.clone(), start, until_end)?;
        Ok((session, execution.with_guard(stepping)))
    }
}

/// Runs a call that creates a session, and returns the session's handle.
pub(super) async fn create<T: Send + 'static>(
    accessor: &Accessor<T, HasSelf<SandboxCtx>>,
    call: Call,
    handle: QuotaShare,
    make: impl FnOnce(&mut Call, &CancelToken) -> Result<SessionResource, SandboxFailure> + Send + 'static,
) -> Result<Resource<SessionResource>, SandboxFailure> {
    let session = call.run(make).await?;
    accessor.with(|mut access| access.get().check_present()?.put(handle, session))
}
