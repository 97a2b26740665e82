//! Implements `started.suspend` and `session.resume-suspended`.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use glovebox::CancelToken;

use super::{call::Call, started::ConcurrentExecution};
use crate::{
    convert::SandboxFailure,
    ctx::Caller,
    quotas::Meter,
    sandbox::Bytes,
    session::SessionResource,
    started::SessionStartRequest,
    wit::types::{Policy, Runtime, SandboxError, Tool},
};

/// The bytes of a suspended execution. The execution keeps the bytes, because a caller that drops a call to `suspend`
/// would otherwise lose the execution.
#[derive(Debug, Default)]
pub(super) struct SuspendedBytes {
    bytes: OnceLock<Bytes>,
    /// `true` while a call suspends the execution or copies the bytes.
    is_in_use: AtomicBool,
}

/// A guard that marks an execution as used by a call to `suspend`. Without the guard, two concurrent suspensions could
/// receive each other's results, for which they have reserved no memory.
struct SuspendGuard(ConcurrentExecution);

impl Drop for SuspendGuard {
    fn drop(&mut self) {
        self.0.suspended().is_in_use.store(false, Ordering::Release);
    }
}

impl SuspendGuard {
    /// Suspends the execution, keeps its bytes, and returns a copy of them.
    fn suspend(&self, meter: &Arc<Meter>) -> Result<Vec<u8>, SandboxFailure> {
        let bytes = self.0.stepped().suspend(meter)?;
        Ok(self.0.suspended().bytes.get_or_init(|| bytes).as_slice().to_vec())
    }
}

impl ConcurrentExecution {
    fn suspending(&self) -> Result<SuspendGuard, SandboxError> {
        if self.suspended().is_in_use.swap(true, Ordering::Acquire) {
            let text = "another call to `suspend` is still suspending this execution; try again";
            return Err(SandboxError::SessionBusy(text.into()));
        }
        Ok(SuspendGuard(self.clone()))
    }

    /// Suspends the execution on another thread, and returns its bytes. If the future is dropped, the thread continues,
    /// and a later call returns the bytes.
    pub(super) async fn suspend(&self, caller: Arc<Caller>) -> Result<Vec<u8>, SandboxFailure> {
        let suspending = self.suspending()?;
        if let Some(bytes) = self.suspended().bytes.get() {
            return Ok(bytes.as_slice().to_vec());
        }
        // Only executions that have not ended get a thread, so the `started` quota limits the number of threads.
        self.stepped().check_suspendable()?;
        // The execution already has a share of the `started` quota.
        let call = Call::without_shares(caller);
        call.run_now(move |call, _| suspending.suspend(&call.caller.meter)).await
    }
}

impl Call {
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
