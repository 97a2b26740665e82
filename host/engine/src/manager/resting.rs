//! Putting live sessions to rest.

use std::{
    io,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{Sessions, SessionsError, slots::Slots};
use crate::{CancelToken, SessionId};

/// What was put to rest.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RestReport {
    /// Sessions that are in the store now and no longer live.
    pub rested: Vec<SessionId>,
    /// Those that could not be written. They live on.
    pub errors: Vec<(SessionId, SessionsError)>,
}

impl Sessions {
    /// Puts a session to rest: it is written to the store and gives up its memory and its lock. Whether it was live here.
    /// One that is in use is left alone: that is an error.
    pub fn hibernate(&self, id: &SessionId) -> Result<bool, SessionsError> {
        let slot = self.0.slot(id);
        let mut state = slot.settled_unused(&self.0.storage)?;
        state.rest(&self.0.storage)
    }

    /// Puts the sessions to rest that were left alone for the policy's `idle_ms` at `now`.
    pub fn hibernate_idle(&self, now: Instant) -> RestReport {
        let idle = Duration::from_millis(self.0.storage.policy.idle_ms);
        self.rest_those(|used_at| now.saturating_duration_since(used_at) >= idle)
    }

    /// Puts every session to rest that is not in use: before the program ends, for those that are saved only then.
    pub fn hibernate_all(&self) -> RestReport {
        self.rest_those(|_| true)
    }

    /// Starts a thread that puts idle sessions to rest, looking for them at this interval. It ends when what is returned is
    /// dropped, or the last handle of the sessions.
    pub fn hibernate_idle_in_background(&self, every: Duration) -> io::Result<IdleThread> {
        let stop = CancelToken::new();
        let (stopped, slots) = (stop.clone(), Arc::downgrade(&self.0));
        let thread =
            std::thread::Builder::new().name("glovebox-idle".into()).spawn(move || look(&slots, &stopped, every));
        Ok(IdleThread { stop, thread: Some(thread?) })
    }

    fn rest_those(&self, is_due: impl Fn(Instant) -> bool) -> RestReport {
        let mut report = RestReport::default();
        for slot in self.0.all() {
            // Whoever has it at this moment uses it.
            let Some(mut state) = slot.try_state() else { continue };
            if !state.is_idle() || !is_due(state.used_at) {
                continue;
            }
            match state.rest(&self.0.storage) {
                Ok(true) => report.rested.push(slot.id.clone()),
                Ok(false) => {}
                Err(error) => report.errors.push((slot.id.clone(), error)),
            }
        }
        report
    }
}

/// The thread that puts idle sessions to rest; it ends with this.
#[derive(Debug)]
#[must_use = "the thread ends when this is dropped"]
pub struct IdleThread {
    stop: CancelToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for IdleThread {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; if it did, that is in the log.
            let _ = thread.join();
        }
    }
}

fn look(slots: &Weak<Slots>, stop: &CancelToken, every: Duration) {
    loop {
        if stop.wait_timeout(every) {
            return;
        }
        let Some(slots) = slots.upgrade() else { return };
        let report = Sessions(slots).hibernate_idle(Instant::now());
        for (id, error) in report.errors {
            tracing::warn!(target: "glovebox", session_id = id.as_str(), %error, "an idle session could not be saved");
        }
    }
}
