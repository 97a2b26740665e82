//! Per-session locks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use glovebox_sessions::SessionId;

/// Per-session async mutexes, so that waiting requests do not occupy a thread.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(super) fn of(&self, id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(id.clone(), Arc::downgrade(&turn));
        turn
    }
}
