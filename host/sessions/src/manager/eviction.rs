//! Evicts idle sessions when their memory is needed.

use std::time::Instant;

use glovebox::SessionInfo;

use super::{sessions::Sessions, slots::SlotRef};
use crate::SessionId;

impl Sessions {
    /// Returns `true` if the session is live in this process.
    #[must_use]
    pub fn is_live(&self, id: &SessionId) -> bool {
        self.0.slot(id).is_live()
    }

    /// Returns the description of the session, or `None` if it is not live in this process or is being changed.
    #[must_use]
    pub fn live_info(&self, id: &SessionId) -> Option<SessionInfo> {
        let slot = self.0.slot(id);
        let state = slot.try_state()?;
        Some(state.live.as_ref()?.session.info())
    }

    /// Returns the time when the least recently used idle session, other than `except`, was last used. `None` if no
    /// session is idle.
    #[must_use]
    pub fn idle_since(&self, except: Option<&SessionId>) -> Option<Instant> {
        self.least_recently_used(except).map(|(used_at, _)| used_at)
    }

    /// Hibernates the least recently used idle session, other than `except`. A session that cannot be saved is dropped:
    /// the store still has its last saved state. Returns `false` if no session was evicted.
    pub fn evict_idle(&self, except: Option<&SessionId>) -> bool {
        let Some((_, slot)) = self.least_recently_used(except) else { return false };
        let Some(state) = slot.try_state().filter(|state| state.is_idle()) else { return false };
        let Err(error) = slot.hibernate(state, &self.0.storage) else { return true };
        let id = slot.id.as_str();
        tracing::warn!(target: "glovebox", session_id = id, %error, "a session was evicted without its unsaved changes");
        let Some(mut state) = slot.try_state().filter(|state| state.is_idle()) else { return false };
        state.live = None;
        true
    }

    fn least_recently_used(&self, except: Option<&SessionId>) -> Option<(Instant, SlotRef)> {
        let others = self.0.all().into_iter().filter(|slot| Some(&slot.id) != except);
        let idle = others.filter_map(|slot| {
            let used_at = slot.try_state().filter(|state| state.is_idle()).map(|state| state.used_at)?;
            Some((used_at, slot))
        });
        idle.min_by_key(|(used_at, _)| *used_at)
    }
}
