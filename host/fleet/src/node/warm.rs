//! Sessions held in memory for their next execution.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use glovebox::Session;

use crate::FleetName;

/// Memory of an almost empty interpreter in bytes: its stack, its tables, and the pages that each execution writes.
const INSTANCE_BYTES: u64 = 1 << 20;

/// Sessions in memory, by name. Each is in the state of one blob, and serves only executions on that state.
#[derive(Debug)]
pub(super) struct Warm {
    max_count: usize,
    max_bytes: u64,
    held: Mutex<WarmSessions>,
}

#[derive(Debug, Default)]
struct WarmSessions {
    sessions: HashMap<FleetName, WarmSession>,
    bytes: u64,
    /// Use counter. The session with the lowest value was used least recently.
    uses: u64,
}

#[derive(Debug)]
struct WarmSession {
    session: Session,
    blob: String,
    bytes: u64,
    used: u64,
}

impl Warm {
    pub(super) fn new(max_count: usize, max_bytes: u64) -> Self {
        Self { max_count, max_bytes, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, WarmSessions> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the session in the state of this blob. A session in another state is dropped.
    pub(super) fn take(&self, name: &FleetName, blob: &str) -> Option<Session> {
        let place = self.held().remove(name)?;
        (place.blob == blob).then_some(place.session)
    }

    /// Adds a session in the state of this blob, and evicts the least recently used. `stored_bytes` is the size of the
    /// blob.
    pub(super) fn put(&self, name: FleetName, blob: String, stored_bytes: u64, session: Session) {
        // `held_bytes` does not include changed pages of the image, which the compressed blob does. Count the larger
        // value, plus the base cost of an instance.
        let bytes = session.info().held_bytes.max(stored_bytes).saturating_add(INSTANCE_BYTES);
        if self.max_count == 0 || bytes > self.max_bytes || session.ended().is_some() {
            return;
        }
        // Dropped after unlocking.
        let mut out = Vec::new();
        let mut held = self.held();
        out.extend(held.remove(&name));
        while held.sessions.len() >= self.max_count || held.bytes.saturating_add(bytes) > self.max_bytes {
            let Some(oldest) = held.oldest() else { break };
            out.extend(held.remove(&oldest));
        }
        held.uses += 1;
        held.bytes += bytes;
        let used = held.uses;
        held.sessions.insert(name, WarmSession { session, blob, bytes, used });
        drop(held);
        drop(out);
    }

    /// The names of the sessions, sorted.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.held().sessions.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// Drops a session.
    pub(super) fn forget(&self, name: &FleetName) {
        let forgotten = self.held().remove(name);
        drop(forgotten);
    }
}

impl WarmSessions {
    fn remove(&mut self, name: &FleetName) -> Option<WarmSession> {
        let place = self.sessions.remove(name)?;
        self.bytes -= place.bytes;
        Some(place)
    }

    fn oldest(&self) -> Option<FleetName> {
        self.sessions.iter().min_by_key(|(_, place)| place.used).map(|(name, _)| name.clone())
    }
}
