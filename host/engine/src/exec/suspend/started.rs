//! Suspends a started execution.

use std::{io::Write, sync::Arc, time::Instant};

use super::{StateBefore, SuspendError, Suspended, Suspension};
use crate::{HibernateError, Sandbox, Started, exec::request::RequestParts, internal::ByteCount, tools::Progress};

/// The parts of an execution that a suspension needs.
pub(in crate::exec) struct SuspensionParts {
    pub(in crate::exec) suspension: Arc<Suspension>,
    pub(in crate::exec) sandbox: Sandbox,
    pub(in crate::exec) request: Arc<RequestParts<'static>>,
    /// The suspended execution that this execution resumes.
    pub(in crate::exec) replay: Option<Arc<Suspended>>,
}

impl Started {
    /// Suspends the execution: stops it and returns it as a value that can be stored. Call this when
    /// [`advance`](Self::advance) has returned [`Step::NeedsTools`](crate::Step::NeedsTools). [`Suspended::request`]
    /// resumes the execution.
    ///
    /// Afterwards, `advance` returns an execution with the outcome [`Cancelled`](crate::Outcome::Cancelled), and without
    /// changes to files.
    ///
    /// # Errors
    /// Fails if the request was not [`suspendable`](crate::Request::suspendable), if the script does not wait for
    /// answers, or if a tool's handler is running. Also fails if a limit or a cancellation has interrupted the script,
    /// or if the journal is too large. The execution then continues, except after [`SuspendError::Session`].
    pub fn suspend(&self) -> Result<Suspended, SuspendError> {
        self.suspend_within(usize::MAX)
    }

    /// Like [`suspend`](Self::suspend), but limits the unanswered calls to `max_calls_bytes` in total
    /// ([`ToolRequest::suspended_bytes`](crate::ToolRequest::suspended_bytes)). A script that polls for its answers can
    /// make further calls after [`advance`](Self::advance) has returned.
    ///
    /// # Errors
    /// Fails like [`suspend`](Self::suspend), and with [`SuspendError::Running`] if the calls exceed the limit.
    pub fn suspend_within(&self, max_calls_bytes: usize) -> Result<Suspended, SuspendError> {
        self.suspend_with(max_calls_bytes, |sandbox, before| before.encode(sandbox))
    }

    /// Like [`suspend_within`](Self::suspend_within). After the execution has ended, `encode` returns the serialized
    /// state of the session before the execution. `encode` is not called outside sessions, or for a resumed execution.
    #[doc(hidden)]
    pub fn suspend_with(
        &self,
        max_calls_bytes: usize,
        encode: impl FnOnce(&Sandbox, StateBefore) -> Result<Vec<u8>, HibernateError>,
    ) -> Result<Suspended, SuspendError> {
        let SuspensionParts { suspension, sandbox, request, replay } =
            self.suspendable.as_ref().ok_or(SuspendError::NotSuspendable)?;
        match self.pending().0.wait(Some(Instant::now())) {
            Progress::Waits(_) => {}
            Progress::Runs => return Err(SuspendError::Running),
            Progress::Ended => return Err(SuspendError::Ended),
        }
        let recording = suspension.request(max_calls_bytes, || self.cancel_token().wake())?;
        // After this wait, `advance` no longer returns the calls, and the execution's session can be used again.
        suspension.wait_for_end();
        let replayed = replay.as_ref().and_then(|suspended| suspended.session());
        let before = match (suspension.take_before(), replayed) {
            (Some(before), _) => Some(encode(sandbox, before).map_err(Arc::new).map_err(SuspendError::Session)?),
            (None, replayed) => replayed.map(<[u8]>::to_vec),
        };
        let mut request = Arc::clone(request);
        if before.is_some() {
            // The session's saved state already contains `context`.
            Arc::make_mut(&mut request).context = None;
        }
        Ok(Suspended::new(sandbox, request, before, recording))
    }

    /// Returns the size in bytes of the serialized state of the session before the execution, which a suspended
    /// execution contains. Serializes the state. Returns `None` outside sessions, for a resumed execution, and if the
    /// execution has not begun or has ended.
    ///
    /// # Errors
    /// Fails if the state cannot be serialized. The execution continues.
    pub fn state_before_bytes(&self) -> Result<Option<u64>, HibernateError> {
        let mut count = ByteCount::default();
        Ok(self.write_state_before(&mut count)?.then_some(count.0 as u64))
    }

    /// Writes the serialized state of the session before the execution. Returns `false` and writes nothing outside
    /// sessions, for a resumed execution, and if the execution has not begun or has ended.
    ///
    /// # Errors
    /// Fails if the state cannot be serialized or written. The execution continues.
    #[doc(hidden)]
    pub fn write_state_before(&self, into: &mut dyn Write) -> Result<bool, HibernateError> {
        let Some(SuspensionParts { suspension, sandbox, .. }) = &self.suspendable else { return Ok(false) };
        let Some(state) = suspension.state_before() else { return Ok(false) };
        sandbox.hibernate_checkpoint(state, into)?;
        Ok(true)
    }
}

impl StateBefore {
    /// Serializes the state, and releases its memory.
    ///
    /// # Errors
    /// Fails if the state cannot be serialized.
    pub fn encode(self, sandbox: &Sandbox) -> Result<Vec<u8>, HibernateError> {
        let Self { state, reservation } = self;
        let mut bytes = Vec::new();
        sandbox.hibernate_checkpoint(state, &mut bytes)?;
        drop(reservation);
        Ok(bytes)
    }
}
