//! The sessions in use: one slot for a name.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::Instant,
};

use super::{
    SessionsError,
    slot::{HIBERNATING_MS, LivePlace, Slot},
    storage::{POLL, Storage},
};
use crate::{CancelToken, SessionId};

/// All slots, and how many of the sessions are live.
pub(super) struct Slots {
    pub(super) storage: Storage,
    map: Mutex<HashMap<SessionId, Arc<Slot>>>,
    live_count: Arc<AtomicUsize>,
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl Slots {
    /// None yet.
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, map: Mutex::default(), live_count: Arc::default() }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Slot>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's slot.
    pub(super) fn slot(self: &Arc<Self>, id: &SessionId) -> SlotRef {
        let mut map = self.map();
        let slot = map.entry(id.clone()).or_insert_with(|| Arc::new(Slot::new(id.clone())));
        SlotRef { slot: Arc::clone(slot), slots: Arc::clone(self) }
    }

    /// Every slot, whoever holds it.
    pub(super) fn all(self: &Arc<Self>) -> Vec<SlotRef> {
        let map = self.map();
        map.values().map(|slot| SlotRef { slot: Arc::clone(slot), slots: Arc::clone(self) }).collect()
    }

    /// A place for the session to be live in. Another session is hibernated for it if none is free. The caller holds the
    /// session's [`Change`](super::slot::Change).
    pub(super) fn place(
        self: &Arc<Self>,
        id: &SessionId,
        cancel: Option<&CancelToken>,
    ) -> Result<LivePlace, SessionsError> {
        let most = self.storage.policy.live_count.max(1);
        let begun = Instant::now();
        loop {
            if let Some(place) = LivePlace::take(&self.live_count, most) {
                return Ok(place);
            }
            let patience_ms = match self.hibernate_oldest(id)? {
                Found::Freed => continue,
                Found::Moving => self.storage.policy.lock_wait_ms.max(HIBERNATING_MS),
                Found::InUse => self.storage.policy.lock_wait_ms,
            };
            if self.storage.is_cancelled(cancel) || begun.elapsed().as_millis() >= u128::from(patience_ms) {
                return Err(SessionsError::TooManyLive { most });
            }
            self.storage.cancel.wait(Instant::now() + POLL, true, || false);
        }
    }

    /// Hibernates the least recently used session of those that can be saved, except the one of this name. Returns the error
    /// of one that could not be saved if no other could be hibernated.
    fn hibernate_oldest(self: &Arc<Self>, except: &SessionId) -> Result<Found, SessionsError> {
        let mut found = Found::InUse;
        let mut slots: Vec<(Instant, SlotRef)> = Vec::new();
        for slot in self.all().into_iter().filter(|slot| slot.id != *except) {
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
                Some(state) if state.is_idle() => {
                    match slot.hibernate(state, &self.storage) {
                        // One that has ended gave its place up, which is as good.
                        Ok(_) => return Ok(Found::Freed),
                        // So did one that another process has taken over.
                        Err(error @ SessionsError::Fenced { .. }) => {
                            let id = slot.id.as_str();
                            tracing::warn!(target: "glovebox", session_id = id, %error, "a session was taken over");
                            return Ok(Found::Freed);
                        }
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                _ => found = Found::Moving,
            }
        }
        failed.map_or(Ok(found), Err)
    }
}

/// A slot in use. There is one slot for a name as long as anybody has it.
pub(super) struct SlotRef {
    slot: Arc<Slot>,
    pub(super) slots: Arc<Slots>,
}

impl fmt::Debug for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl Deref for SlotRef {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        let mut map = self.slots.map();
        // References are made under this lock only: where the map's and ours are the only ones, nobody comes to it.
        let is_last = Arc::strong_count(&self.slot) == 2;
        if is_last && self.slot.try_state().is_some_and(|state| state.live.is_none()) {
            map.remove(&self.slot.id);
        }
    }
}

/// What was found among the live sessions.
enum Found {
    /// An idle one, which is hibernated now.
    Freed,
    /// None, but one is being hibernated or resumed.
    Moving,
    /// All are in use.
    InUse,
}
