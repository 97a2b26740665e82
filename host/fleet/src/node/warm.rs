//! Sessions that stay in memory for their next execution.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use glovebox::Session;

use crate::FleetName;

/// What an interpreter takes that has next to nothing of its own: its stack, tables and the pages that each execution writes.
const INSTANCE_BYTES: u64 = 1 << 20;

/// Sessions in memory, by name. Each is in the state of one blob: it is used only for whoever needs that one.
#[derive(Debug)]
pub(super) struct Warm {
    max_count: usize,
    max_bytes: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    sessions: HashMap<FleetName, Place>,
    bytes: u64,
    /// Counts uses: the lowest is used longest ago.
    uses: u64,
}

#[derive(Debug)]
struct Place {
    session: Session,
    blob: String,
    bytes: u64,
    used: u64,
}

impl Warm {
    pub(super) fn new(max_count: usize, max_bytes: u64) -> Self {
        Self { max_count, max_bytes, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the session in the state of this blob. One in another state is of no use to anybody and goes.
    pub(super) fn take(&self, name: &FleetName, blob: &str) -> Option<Session> {
        let place = self.held().remove(name)?;
        (place.blob == blob).then_some(place.session)
    }

    /// Puts a session in, in the state of this blob, which has so many bytes. Those used longest ago make room.
    pub(super) fn put(&self, name: FleetName, blob: String, stored_bytes: u64, session: Session) {
        // What it has changed in its image is not counted as long as nobody saves it, and then compressed: that and what an instance takes.
        let bytes = session.info().held_bytes.max(stored_bytes).saturating_add(INSTANCE_BYTES);
        if self.max_count == 0 || bytes > self.max_bytes || session.ended().is_some() {
            return;
        }
        // Dropped when nobody waits for the lock.
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
        held.sessions.insert(name, Place { session, blob, bytes, used });
        drop(held);
        drop(out);
    }

    /// The sessions, in the order of their names.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.held().sessions.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// Forgets a session.
    pub(super) fn forget(&self, name: &FleetName) {
        let forgotten = self.held().remove(name);
        drop(forgotten);
    }
}

impl Held {
    fn remove(&mut self, name: &FleetName) -> Option<Place> {
        let place = self.sessions.remove(name)?;
        self.bytes -= place.bytes;
        Some(place)
    }

    fn oldest(&self) -> Option<FleetName> {
        self.sessions.iter().min_by_key(|(_, place)| place.used).map(|(name, _)| name.clone())
    }
}
