//! Forking, exporting and importing stored sessions.

use std::sync::Arc;

use glovebox_core::hibernate::{self, reseal};

use super::{SessionGuard, Sessions, SessionsError, slot::Live};
use crate::{Expected, SessionId, SessionLock, SessionRecord, StoreError, block_on, events};
use glovebox::{HibernatedInfo, IfExists, SessionOptions, Timestamp};

impl Sessions {
    /// Forks a session: the fork starts with the same variables, functions and files, and from then on the two are
    /// independent. The fork is written to the store at once.
    pub fn fork(&self, id: &SessionId, fork: SessionId) -> Result<SessionGuard, SessionsError> {
        let original = self.open(id)?.activate()?;
        self.add(&fork, |storage| {
            let options = SessionOptions::default().id(fork.as_str()).cancel(&storage.stop);
            let forked = original.fork_with(options)?;
            // Save the original, whose fork counter has changed: the counter gives the next fork other random numbers,
            // even with a fixed seed.
            original.save()?;
            Ok(forked)
        })?;
        events::session("session.created", &fork);
        Ok(self.guard(&fork))
    }

    /// Returns a session in the format of [`Session::hibernate`](glovebox::Session::hibernate), sealed with this store's
    /// key.
    ///
    /// A session that is live in this process is saved first; otherwise its last saved state is returned. Needs no
    /// sandbox.
    pub fn export(&self, id: &SessionId) -> Result<Vec<u8>, SessionsError> {
        let live = self.0.slot(id).is_live();
        if live {
            self.guard(id).activate()?.save()?;
        }
        let stored =
            block_on(self.0.storage.store.get(id))?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
        reseal(&stored.state, self.0.storage.key.as_ref(), id.as_str(), "").map_err(|source| unusable(id, source))
    }

    /// Writes an exported session to the store, after checking its seal. Needs no sandbox.
    ///
    /// The image and the policy's limits are checked when the session is resumed.
    ///
    /// # Errors
    /// [`SessionsError::Exists`] if there is a session of this name and `if_exists` is [`IfExists::Fail`].
    /// [`SessionsError::Resume`] if the bytes cannot be read or their seal is wrong.
    pub fn import(&self, id: SessionId, bytes: &[u8], if_exists: IfExists) -> Result<SessionGuard, SessionsError> {
        let state =
            reseal(bytes, self.0.storage.key.as_ref(), "", id.as_str()).map_err(|source| unusable(&id, source))?;
        let info = HibernatedInfo::read(&state).map_err(|source| unusable(&id, source))?;
        let slot = self.0.slot(&id);
        let mut place = slot.settled_unused(&self.0.storage)?;
        let live = place.alive();
        if if_exists == IfExists::Fail && (live.is_some() || self.0.storage.is_stored(&id)?) {
            return Err(SessionsError::Exists { id });
        }
        let _change = slot.change(place);
        let store = self.store();
        let holder = match &live {
            Some(live) => Holder::Live(live),
            None => Holder::Lock(self.0.storage.lock(&id, None)?),
        };
        let (expected, replaced) = match block_on(store.record(&id)) {
            Ok(None) => (Expected::Absent, 0),
            Ok(Some(stored)) => (Expected::Version(stored.version), stored.record.generation),
            // A damaged record, or something else in its place, has no generation.
            Err(StoreError::Damaged { .. } | StoreError::Directory(_)) => (Expected::Any, 0),
            Err(error) => return Err(error.into()),
        };
        if if_exists == IfExists::Fail && expected != Expected::Absent {
            return Err(SessionsError::Exists { id });
        }
        let now = Timestamp::now();
        let record = SessionRecord {
            id: id.clone(),
            created_at: now,
            updated_at: now,
            language: info.language,
            runtime: info.runtime,
            version: info.version,
            image_sha256: info.image_sha256,
            executions: info.executions,
            generation: replaced.saturating_add(1),
            files: None,
            workspace: None,
            bytes: state.len() as u64,
        };
        match &holder {
            Holder::Live(live) => {
                live.replace(store, &record, &state).inspect_err(|_| slot.state().drop_fenced(live))?;
            }
            Holder::Lock(lock) => drop(block_on(store.put(lock, &expected, &record, &state))?),
        }
        // Drop the replaced session only now: if writing failed, it had to stay live.
        slot.state().live = None;
        // Free the lock before other threads can see the change as settled.
        drop(holder);
        drop(live);
        events::session("session.created", &id);
        Ok(self.guard(&id))
    }
}

/// The holder of the right to write the session.
enum Holder<'a> {
    /// The live session.
    Live(&'a Arc<Live>),
    /// The lock, taken for this import.
    Lock(SessionLock),
}

fn unusable(id: &SessionId, source: hibernate::ResumeError) -> SessionsError {
    SessionsError::Resume { id: id.clone(), source: Box::new(source.widened()) }
}
