//! Slots of the sessions in use: one for each name.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::Instant,
};

use super::{
    SessionsError,
    slot::{HIBERNATING_MS, LivePlace, SessionSlot},
    storage::{POLL, Storage},
};
use crate::SessionId;
use glovebox::CancelToken;

/// All slots, and the number of live sessions.
pub(super) struct Slots {
    pub(super) storage: Storage,
    map: Mutex<HashMap<SessionId, Arc<SessionSlot>>>,
    live_count: Arc<AtomicUsize>,
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl Slots {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, map: Mutex::default(), live_count: Arc::default() }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<SessionSlot>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session's slot, or adds one.
    pub(super) fn slot(self: &Arc<Self>, id: &SessionId) -> SlotRef {
        let mut map = self.map();
        let slot = map.entry(id.clone()).or_insert_with(|| Arc::new(SessionSlot::new(id.clone())));
        SlotRef { slot: Arc::clone(slot), slots: Arc::clone(self) }
    }

    /// Returns every slot.
    pub(super) fn all(self: &Arc<Self>) -> Vec<SlotRef> {
        let map = self.map();
        map.values().map(|slot| SlotRef { slot: Arc::clone(slot), slots: Arc::clone(self) }).collect()
    }

    /// Returns a permit for a live session. Hibernates another session if all permits are taken. The caller holds the
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
                Eviction::Freed => continue,
                Eviction::Moving => self.storage.policy.lock_wait_ms.max(HIBERNATING_MS),
                Eviction::InUse => self.storage.policy.lock_wait_ms,
            };
            if self.storage.is_cancelled(cancel) || begun.elapsed().as_millis() >= u128::from(patience_ms) {
                return Err(SessionsError::TooManyLive { most });
            }
            let _ = self.storage.cancel.wait_timeout(POLL);
        }
    }

    /// Hibernates the least recently used session that can be saved, except the one with the id `except`. Returns the
    /// error of a failed save if no session could be hibernated.
    fn hibernate_oldest(self: &Arc<Self>, except: &SessionId) -> Result<Eviction, SessionsError> {
        let mut found = Eviction::InUse;
        let mut slots: Vec<(Instant, SlotRef)> = Vec::new();
        for slot in self.all().into_iter().filter(|slot| slot.id != *except) {
            let idle_since = match slot.try_state() {
                Some(state) if !state.is_changing() => state.is_idle().then_some(state.used_at),
                _ => {
                    found = Eviction::Moving;
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
                        // `Ok(false)` also frees a permit: the session has ended.
                        Ok(_) => return Ok(Eviction::Freed),
                        // A session that another process took over has freed its permit, too.
                        Err(error @ SessionsError::Fenced { .. }) => {
                            let id = slot.id.as_str();
                            tracing::warn!(target: "glovebox", session_id = id, %error, "a session was taken over");
                            return Ok(Eviction::Freed);
                        }
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                _ => found = Eviction::Moving,
            }
        }
        failed.map_or(Ok(found), Err)
    }
}

/// A reference to a slot. A name has the same slot as long as any reference to it exists.
pub(super) struct SlotRef {
    slot: Arc<SessionSlot>,
    pub(super) slots: Arc<Slots>,
}

impl fmt::Debug for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl Deref for SlotRef {
    type Target = SessionSlot;

    fn deref(&self) -> &SessionSlot {
        &self.slot
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        let mut map = self.slots.map();
        // References are created only under the map's lock: if the map and this value hold the only two, no thread can
        // add one.
        let is_last = Arc::strong_count(&self.slot) == 2;
        if is_last && self.slot.try_state().is_some_and(|state| state.live.is_none()) {
            map.remove(&self.slot.id);
        }
    }
}

/// The result of looking for a session to hibernate.
enum Eviction {
    /// A session was hibernated or had ended: a permit is free.
    Freed,
    /// No session is idle, but one is being hibernated or resumed.
    Moving,
    /// All live sessions are in use.
    InUse,
}
