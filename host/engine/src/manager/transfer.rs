//! Forking, exporting and importing stored sessions.

use std::sync::Arc;

use glovebox_core::hibernate::{self, reseal};

use super::{SessionGuard, Sessions, SessionsError, slot::Live};
use crate::{
    Expected, HibernatedInfo, IfExists, SessionId, SessionLock, SessionOptions, SessionRecord, StoreError, Timestamp,
    block_on, events,
};

impl Sessions {
    /// Makes a second session of one: variables, functions and files as they are, and from then on neither sees what the other
    /// does. It is written to the store at once.
    pub fn fork(&self, id: &SessionId, fork: SessionId) -> Result<SessionGuard, SessionsError> {
        let original = self.open(id)?.activate()?;
        self.add(&fork, |storage| {
            let options = SessionOptions::default().id(fork.as_str()).scope(&storage.scope());
            let forked = original.fork_with(options)?;
            // It counts its forks, so that the next one has other random numbers, seeded too.
            original.save()?;
            Ok(forked)
        })?;
        events::session("session.created", &fork);
        Ok(self.guard(&fork))
    }

    /// A session as bytes, as [`Session::hibernate`](crate::Session::hibernate) gives them with this key: as it is, where it is live here,
    /// and otherwise as it was last saved. Needs no sandbox.
    pub fn export(&self, id: &SessionId) -> Result<Vec<u8>, SessionsError> {
        let live = self.0.slot(id).is_live();
        if live {
            self.guard(id).activate()?.save()?;
        }
        let stored =
            block_on(self.0.storage.store.get(id))?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
        reseal(&stored.state, self.0.storage.key.as_ref(), id.as_str(), "").map_err(|source| unusable(id, source))
    }

    /// Puts an exported session into the store. Its seal is checked; whether it fits its image and the policy's limits is
    /// found out when it is opened. Needs no sandbox.
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
            // One that is damaged, or is none, has no generation.
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
        // What it replaces is not saved any more. Until here it lives on, should this fail.
        slot.state().live = None;
        // And the lock with it, before anybody comes.
        drop(holder);
        drop(live);
        events::session("session.created", &id);
        Ok(self.guard(&id))
    }
}

/// Who has the right to write the session.
enum Holder<'a> {
    /// The live session.
    Live(&'a Arc<Live>),
    /// We, for the moment.
    Lock(SessionLock),
}

fn unusable(id: &SessionId, source: hibernate::ResumeError) -> SessionsError {
    SessionsError::Resume { id: id.clone(), source: Box::new(source.widened()) }
}
