//! Forking, exporting and importing stored sessions.

use glovebox_core::hibernate::{self, reseal};

use super::{SessionGuard, Sessions, SessionsError};
use crate::{HibernatedInfo, IfExists, SessionId, SessionOptions, SessionRecord, Timestamp, events};

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
        let stored = self.0.storage.store.get(id)?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
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
        let taken;
        let lock = match &live {
            Some(live) => live.lock(),
            None => {
                taken = self.0.storage.lock(&id, None)?;
                &taken
            }
        };
        if if_exists == IfExists::Fail && self.0.storage.is_stored(&id)? {
            return Err(SessionsError::Exists { id });
        }
        let now = Timestamp::now();
        // One that is damaged has no generation.
        let replaced = self.0.storage.store.record(&id).ok().flatten().map_or(0, |record| record.generation);
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
        self.0.storage.store.put(lock, &record, &state)?;
        // What it replaces is not saved any more. Until here it lives on, should this fail.
        slot.state().live = None;
        drop(live);
        events::session("session.created", &id);
        Ok(self.guard(&id))
    }
}

fn unusable(id: &SessionId, source: hibernate::ResumeError) -> SessionsError {
    SessionsError::Resume { id: id.clone(), source: Box::new(source.widened()) }
}
