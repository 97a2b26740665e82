//! Suspends executions of a component, and restores the sessions of suspended executions.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use glovebox::{CancelToken, ResumeOptions, Sandbox, Step, SuspendError, Suspended, ToolRequest};
use glovebox_core::journal::{JOURNAL_BYTES, JournalEntry, MAX_ENTRIES};

use super::{
    convert::SandboxFailure,
    ctx::Caller,
    quotas::{Meter, QuotaError, QuotaShare, QuotaUse},
    sandbox::Bytes,
    session::SessionResource,
    started::{StartedResource, request_bytes},
    wit::types::{Request, SandboxError, Tool},
};

/// The size of a suspendable execution's request, and the request's share of the byte quota.
#[derive(Debug)]
pub(super) struct SuspendableRequest {
    /// The size of the request, or of the bytes from which the execution was resumed.
    pub(super) bytes: usize,
    /// The share of the byte quota for the request or the decoded bytes. The handle and the running execution hold the
    /// same share. `None` until the execution starts.
    pub(super) share: Option<Arc<QuotaShare>>,
}

/// The shares of the byte quota that a suspendable execution holds until its end, for its request and its journal.
#[derive(Debug)]
pub(super) struct SuspendableShares {
    _request: Option<Arc<QuotaShare>>,
    _journal: QuotaShare,
}

impl SuspendableRequest {
    pub(super) fn new(request: &Request) -> Self {
        Self { bytes: request_bytes(request), share: None }
    }

    /// Charges the request, which the handle keeps until it is dropped, and the journal.
    pub(super) fn charge(&mut self, meter: &Arc<Meter>) -> Result<SuspendableShares, QuotaError> {
        if self.share.is_none() {
            self.share = Some(Arc::new(meter.take(QuotaUse::Bytes(self.bytes as u64))?));
        }
        Ok(SuspendableShares {
            _request: self.share.clone(),
            _journal: meter.take(QuotaUse::Bytes(JOURNAL_MEMORY_BYTES))?,
        })
    }
}

/// Maximum size of a journal in the bytes of a suspended execution. The engine limits the journal's contents to 1 MiB,
/// and encoding adds at most half of that.
pub(super) const MAX_JOURNAL_BYTES: usize = 2 << 20;

/// Maximum memory of the journal of a running execution, in bytes. The capacity of the journal's list doubles when the
/// list grows.
pub(super) const JOURNAL_MEMORY_BYTES: u64 = JOURNAL_BYTES + (2 * MAX_ENTRIES * size_of::<JournalEntry>()) as u64;

impl StartedResource {
    /// Fails if the execution cannot be suspended, now or later.
    pub(super) fn check_suspendable(&self) -> Result<(), SuspendError> {
        match &self.suspendable {
            None => Err(SuspendError::NotSuspendable),
            Some(_) if self.started.has_ended() => Err(SuspendError::Ended),
            Some(_) => Ok(()),
        }
    }

    /// Suspends the execution and returns its bytes. Blocks the calling thread.
    pub(super) fn suspend(&self, meter: &Arc<Meter>) -> Result<Bytes, SandboxFailure> {
        let suspendable = self.suspendable.as_ref().ok_or(SuspendError::NotSuspendable)?;
        let calls_bytes: usize = match self.started.advance(Vec::new(), Some(Duration::ZERO))? {
            Step::NeedsTools(calls) => calls.iter().map(ToolRequest::suspended_bytes).sum(),
            Step::Running => return Err(SuspendError::Running.into()),
            Step::Done(_) => return Err(SuspendError::Ended.into()),
        };
        // The state does not change during the execution, so a later attempt uses it again.
        let mut state = self.state_before.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_in_session && state.is_none() {
            let mut encoded = Bytes::new(meter)?;
            if self.started.write_state_before(&mut encoded)? {
                *state = Some(encoded);
            }
        }
        let state_bytes = state.as_ref().map_or(0, |state| state.as_slice().len());
        let parts = [suspendable.bytes, state_bytes, calls_bytes, MAX_JOURNAL_BYTES];
        let max_bytes = parts.into_iter().fold(0, usize::saturating_add);
        if self.is_in_session {
            check_resumable(max_bytes)?;
        }
        // Reserves the memory first. If the bytes exceeded the quota afterwards, the suspended execution would be lost.
        let share = meter.take(QuotaUse::Bytes(max_bytes as u64))?;
        let mut state_share = None;
        let suspended = self.started.suspend_with(calls_bytes, |sandbox, before| match state.take() {
            Some(encoded) => {
                drop(before);
                let (bytes, share) = encoded.into_parts();
                state_share = Some(share);
                Ok(bytes)
            }
            None => before.encode(sandbox),
        })?;
        let bytes = suspended.to_bytes(None);
        drop((suspended, state_share));
        Ok(Bytes::with(bytes.into_boxed_slice().into_vec(), share)?)
    }
}

/// Fails if the bytes of a suspended execution could exceed the maximum that can be resumed.
fn check_resumable(max_bytes: usize) -> Result<(), SandboxError> {
    if max_bytes <= Suspended::MAX_BYTES {
        return Ok(());
    }
    let text = format!(
        "the suspended execution could have {max_bytes} bytes, but the maximum is {}; delete variables or files of the \
         session before the execution",
        Suspended::MAX_BYTES
    );
    Err(SandboxError::Unsupported(text))
}

impl Caller {
    /// Decodes the bytes of a suspended execution. The resumed execution holds the share of the quota for the decoded
    /// bytes.
    pub(super) fn decode_suspended(&self, bytes: &[u8]) -> Result<(Suspended, SuspendableRequest), SandboxFailure> {
        // Charges the memory first, because decoding needs several times the size of the bytes.
        let decoded_bytes = Suspended::peek(bytes).map_or(0, |unchecked| unchecked.memory_bytes);
        let share = self.meter.take(QuotaUse::Bytes(decoded_bytes as u64))?;
        let suspended = Suspended::from_bytes(bytes, None)?;
        Ok((suspended, SuspendableRequest { bytes: bytes.len(), share: Some(Arc::new(share)) }))
    }

    /// Restores the session of a suspended execution, in its state before the execution. `cancel` is the token of the
    /// call.
    pub(super) fn restore_suspended(
        &self,
        sandbox: &Sandbox,
        tools: &[Tool],
        suspended: &Suspended,
        cancel: &CancelToken,
    ) -> Result<SessionResource, SandboxFailure> {
        self.make(sandbox, |keeper| {
            keeper.call.set(cancel);
            let sandbox = self.with_tools(sandbox.clone(), tools)?;
            let session = sandbox.resume_suspended_session(suspended, ResumeOptions::default().scope(keeper))?;
            Ok::<_, SandboxFailure>(session)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_cannot_be_resumed_are_refused() {
        for (bytes, fits) in [(0, true), (Suspended::MAX_BYTES, true), (Suspended::MAX_BYTES + 1, false)] {
            assert_eq!(check_resumable(bytes).is_ok(), fits, "{bytes}");
        }
    }
}
