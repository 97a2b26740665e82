//! When sessions are written to their store, and when they are hibernated.

use serde::{Deserialize, Serialize};

/// When a live session is written to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Save {
    /// After each execution, before its result is returned: nothing that was reported is lost, whatever happens to the
    /// process.
    #[default]
    AfterEach,
    /// When it is hibernated. A process that dies loses what its live sessions did since.
    OnHibernate,
}

/// How [`Sessions`](crate::Sessions) treat their sessions. Make one with `default()` and change what differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StorePolicy {
    /// When live sessions are written to the store. Default: after each execution.
    pub save: Save,
    /// For how many milliseconds a session is left alone before it counts as idle. Default 600,000: ten minutes.
    pub idle_ms: u64,
    /// How many sessions are live at once. One more hibernates the least recently used one. If all are in
    /// use for `lock_wait_ms`, that is an error. Default 100; 0 counts as 1.
    pub live_count: usize,
    /// For how many milliseconds a session that another process has is waited for, or a place among the live ones.
    /// Default 0: only for the 50 that it may take another process to look at the session.
    pub lock_wait_ms: u64,
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self { save: Save::default(), idle_ms: 600_000, live_count: 100, lock_wait_ms: 0 }
    }
}
