//! A call into a session, which can run concurrently with calls into other sessions.

use wasmtime::component::{Accessor, HasSelf, Resource};

use super::{call::Call, live::LiveExecution, started::ConcurrentExecution};
use crate::{
    CancelToken,
    component::{
        SandboxCtx,
        convert::SandboxFailure,
        quotas::{QuotaShare, QuotaUse},
        session::{BusyGuard, SessionResource, SessionUseGuard},
        started::{SessionStartRequest, StartedResource},
        wit::types::SandboxError,
    },
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

    /// Charges the quota for the handle or the stream that the call returns.
    pub(super) fn with_handle(self) -> Result<(Self, QuotaShare), SandboxFailure> {
        let handle = self.call.caller.meter.take(QuotaUse::Handle)?;
        Ok((self, handle))
    }

    /// Returns a second guard for [`run_busy`](Self::run_busy). The session is busy until either guard is dropped.
    pub(super) fn second_guard(&self) -> BusyGuard {
        self.stepping.second()
    }

    /// Runs `work` on a new thread, after all dropped calls have left the session. The token is cancelled if the future
    /// is dropped.
    pub(super) async fn run<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Call, UsedSession, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<R, SandboxFailure> {
        self.run_busy(work).await.map(|(result, _)| result)
    }

    /// Like [`run`](Self::run). The session stays busy until the returned guard is dropped.
    pub(super) async fn run_busy<R: Send + 'static>(
        self,
        work: impl FnOnce(&mut Call, UsedSession, &CancelToken) -> Result<R, SandboxFailure> + Send + 'static,
    ) -> Result<(R, BusyGuard), SandboxFailure> {
        let Self { call, session, stepping } = self;
        let result = call.run(move |call, cancel| {
            let is_dropped = || cancel.is_cancelled() && !call.caller.cancel.is_cancelled();
            let Some(running) = session.run_call(cancel, is_dropped) else {
                return Err(SandboxError::Unavailable("the call was dropped".into()).into());
            };
            session.keeper().call.set(cancel);
            work(call, UsedSession { resource: session, running }, cancel)
        });
        Ok((result.await?, stepping))
    }
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
