//! The policy for saving and hibernating sessions.

use serde::{Deserialize, Serialize};

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
