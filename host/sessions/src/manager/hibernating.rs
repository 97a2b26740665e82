//! Hibernating live sessions: the policy, writing them to the store, and freeing their memory and locks.

use std::{
    io,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use glovebox::CancelToken;
use serde::{Deserialize, Serialize};

use super::{Sessions, SessionsError, slots::Slots};
use crate::SessionId;

/// The result of hibernating several sessions.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct HibernateReport {
    /// Sessions that are saved in the store and no longer live.
    pub hibernated: Vec<SessionId>,
    /// Sessions that could not be saved. They stay live, except after [`SessionsError::Fenced`].
    pub errors: Vec<(SessionId, SessionsError)>,
}

impl Sessions {
    /// Writes a session to the store and frees its memory and its lock. Returns `false` if it was not live here.
    ///
    /// # Errors
    /// [`SessionsError::InUse`] if the session is in use. [`SessionsError::Fenced`] if another process took it over;
    /// its memory is freed without saving.
    pub fn hibernate(&self, id: &SessionId) -> Result<bool, SessionsError> {
        let slot = self.0.slot(id);
        let state = slot.settled_unused(&self.0.storage)?;
        slot.hibernate(state, &self.0.storage)
    }

    /// Hibernates the sessions that have been unused for the policy's `idle_ms` at `now`.
    pub fn hibernate_idle(&self, now: Instant) -> HibernateReport {
        let idle = Duration::from_millis(self.0.storage.policy.idle_ms);
        self.hibernate_those(|used_at| now.saturating_duration_since(used_at) >= idle)
    }

    /// Hibernates every session that is not in use. Call it before the program ends if the policy is
    /// [`Save::OnHibernate`](crate::Save::OnHibernate).
    pub fn hibernate_all(&self) -> HibernateReport {
        self.hibernate_those(|_| true)
    }

    /// Starts a thread that hibernates idle sessions and checks for them once per interval `every`. The thread ends
    /// when the returned value or the last handle of the sessions is dropped.
    pub fn hibernate_idle_in_background(&self, every: Duration) -> io::Result<IdleThread> {
        let stop = CancelToken::new();
        let (stopped, slots) = (stop.clone(), Arc::downgrade(&self.0));
        let thread =
            std::thread::Builder::new().name("glovebox-idle".into()).spawn(move || look(&slots, &stopped, every));
        Ok(IdleThread { stop, thread: Some(thread?) })
    }

    fn hibernate_those(&self, is_due: impl Fn(Instant) -> bool) -> HibernateReport {
        let mut report = HibernateReport::default();
        for slot in self.0.all() {
            // A locked state means that the session is in use.
            let Some(state) = slot.try_state() else { continue };
            if !state.is_idle() || !is_due(state.used_at) {
                continue;
            }
            match slot.hibernate(state, &self.0.storage) {
                Ok(true) => report.hibernated.push(slot.id.clone()),
                Ok(false) => {}
                Err(error) => report.errors.push((slot.id.clone(), error)),
            }
        }
        report
    }
}

/// The thread that hibernates idle sessions. Dropping this value stops the thread and waits for it.
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
            // The thread does not panic. A panic would be in the log.
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

/// When to write a live session to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Save {
    /// After each execution, before its result is returned. A crash of the process loses nothing that was reported.
    #[default]
    AfterEach,
    /// When the session is hibernated. A crash of the process loses all changes since then.
    OnHibernate,
}

/// The policy of [`Sessions`](crate::Sessions). Start from `default()` and change fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StorePolicy {
    /// When to write live sessions to the store. Default: after each execution.
    pub save: Save,
    /// Milliseconds without use after which a session counts as idle. Default 600,000: ten minutes.
    pub idle_ms: u64,
    /// Maximum number of live sessions. Activating another one hibernates the least recently used session. If all are
    /// in use for `lock_wait_ms`, activating fails with [`TooManyLive`](crate::SessionsError::TooManyLive). Default
    /// 100; 0 counts as 1.
    pub live_count: usize,
    /// Milliseconds to wait for a session that another process holds, or until fewer than `live_count` sessions are
    /// live.
    ///
    /// Default 0: waits at most 50 ms, because other processes hold the lock briefly to inspect a session.
    pub lock_wait_ms: u64,
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self { save: Save::default(), idle_ms: 600_000, live_count: 100, lock_wait_ms: 0 }
    }
}
