//! Putting live sessions to rest.

use std::{
    io,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{
    Sessions, SessionsError,
    sessions::{Inner, SlotRef},
    slot::Found,
};
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
        let mut state = slot.settled_unused(&self.0)?;
        state.rest(&self.0)
    }

    /// Puts the sessions to rest that were left alone for the policy's `idle_ms` at `now`.
    pub fn hibernate_idle(&self, now: Instant) -> RestReport {
        let idle = Duration::from_millis(self.0.policy.idle_ms);
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
        let (stopped, inner) = (stop.clone(), Arc::downgrade(&self.0));
        let thread =
            std::thread::Builder::new().name("glovebox-idle".into()).spawn(move || look(&inner, &stopped, every));
        Ok(IdleThread { stop, thread: Some(thread?) })
    }

    fn rest_those(&self, is_due: impl Fn(Instant) -> bool) -> RestReport {
        let mut report = RestReport::default();
        for slot in self.0.slots() {
            // Whoever has it at this moment uses it.
            let Some(mut state) = slot.try_state() else { continue };
            if !state.is_idle() || !is_due(state.used_at) {
                continue;
            }
            match state.rest(&self.0) {
                Ok(true) => report.rested.push(slot.id.clone()),
                Ok(false) => {}
                Err(error) => report.errors.push((slot.id.clone(), error)),
            }
        }
        report
    }
}

impl Inner {
    /// Puts the session to rest that was used longest ago, of those that can be saved. The session's own slot is left alone.
    /// That one cannot be saved is an error where no other can rest.
    pub(super) fn rest_oldest(self: &Arc<Self>, except: &SessionId) -> Result<Found, SessionsError> {
        let mut found = Found::InUse;
        let mut slots: Vec<(Instant, SlotRef)> = Vec::new();
        for slot in self.slots().into_iter().filter(|slot| slot.id != *except) {
            let idle_since = match slot.try_state() {
                Some(state) if !state.is_changing() => state.is_idle().then_some(state.used_at),
                _ => {
                    found = Found::Moving;
                    None
                }
            };
            slots.extend(idle_since.map(|used_at| (used_at, slot)));
        }
        slots.sort_by_key(|(used_at, _)| *used_at);
        let mut failed = None;
        for (_, slot) in slots {
            match slot.try_state() {
                Some(mut state) if state.is_idle() => {
                    match state.rest(self) {
                        // One that has ended gave its place up, which is as good.
                        Ok(_) => return Ok(Found::Rested),
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                _ => found = Found::Moving,
            }
        }
        failed.map_or(Ok(found), Err)
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

fn look(inner: &Weak<Inner>, stop: &CancelToken, every: Duration) {
    loop {
        if stop.wait_timeout(every) {
            return;
        }
        let Some(inner) = inner.upgrade() else { return };
        let report = Sessions(inner).hibernate_idle(Instant::now());
        for (id, error) in report.errors {
            tracing::warn!(target: "glovebox", session_id = id.as_str(), %error, "an idle session could not be saved");
        }
    }
}
