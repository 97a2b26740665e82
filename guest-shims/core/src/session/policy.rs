//! The session settings of a policy.

use serde::{Deserialize, Serialize};

/// When a session takes automatic checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoints {
    /// Before every execution while the session has at most [`SessionPolicy::checkpoint_auto_bytes`] of private memory.
    /// Beyond that, before every second execution up to twice as much, before every third up to three times, and so on.
    /// The average cost of checkpoints therefore stays constant.
    #[default]
    Auto,
    /// Before every execution.
    Always,
    /// Before every n-th execution. At least 1.
    Every(u32),
    /// Only on request of the embedder.
    Never,
}

/// The consequence for a session whose guest was unwound: stopped at a limit or cancelled, trapped, or damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnwind {
    /// The session returns to its last checkpoint, in a new instance, and continues. Without a checkpoint it ends.
    #[default]
    RollBack,
    /// The session ends.
    End,
}

/// Session settings. In a policy file: `[session]`.
///
/// The cost of a checkpoint before an execution grows with the private memory of the session. An idle Python session
/// has 0.3 MiB of it, and a JavaScript session 0.1 MiB. The table has medians (AMD EPYC, 2 threads) of the added time,
/// which is for reading the page map and comparing pages:
///
/// | additional private memory | checkpoint, Python | JavaScript |
/// |---|---|---|
/// | nothing | 0.14 ms | 0.03 ms |
/// | 0.5 MiB | 0.15 ms | 0.05 ms |
/// | 1 MiB | 0.17 ms | 0.06 ms |
/// | 4 MiB | 0.28 ms | 0.16 ms |
/// | 16 MiB | 1.6 ms | 1.2 ms |
/// | 64 MiB | 7.8 ms | 7.0 ms |
///
/// At 1 MiB, a rollback takes 0.8 ms and a fork 0.2 ms. Both grow with the pages, to some 60 ms and 90 ms at 64 MiB.
/// `glovebox-bench` measures checkpoints and forks. On systems without a page map, all of the memory is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionPolicy {
    /// When the session takes automatic checkpoints. Default: `"auto"`.
    pub checkpoints: Checkpoints,
    /// Maximum private memory, in bytes, for a checkpoint before every execution under `"auto"`. Default 4 MiB.
    pub checkpoint_auto_bytes: u64,
    /// Number of requested checkpoints that are retained; the oldest is dropped first. Default 8.
    pub checkpoints_retained: u32,
    /// The consequence for a session whose guest was unwound. Default: `"roll-back"`.
    pub on_unwind: OnUnwind,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            checkpoints: Checkpoints::default(),
            checkpoint_auto_bytes: 4 << 20,
            checkpoints_retained: 8,
            on_unwind: OnUnwind::default(),
        }
    }
}

impl SessionPolicy {
    /// Returns the number of executions after which a checkpoint is due; `None` for no automatic checkpoints.
    #[must_use]
    pub fn interval(&self, private_bytes: u64) -> Option<u64> {
        match self.checkpoints {
            Checkpoints::Always => Some(1),
            Checkpoints::Every(count) => Some(u64::from(count.max(1))),
            Checkpoints::Auto => Some(private_bytes.div_ceil(self.checkpoint_auto_bytes.max(1)).max(1)),
            Checkpoints::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_checkpoints_get_rarer_as_they_get_larger() {
        let policy = SessionPolicy { checkpoint_auto_bytes: 100, ..SessionPolicy::default() };
        for (bytes, interval) in [(0, 1), (99, 1), (100, 1), (101, 2), (200, 2), (201, 3), (10_000, 100)] {
            assert_eq!(policy.interval(bytes), Some(interval), "{bytes}");
        }
        let always = SessionPolicy { checkpoints: Checkpoints::Always, ..policy.clone() };
        assert_eq!(always.interval(1 << 40), Some(1));
        assert_eq!(SessionPolicy { checkpoints: Checkpoints::Every(10), ..policy.clone() }.interval(0), Some(10));
        assert_eq!(SessionPolicy { checkpoints: Checkpoints::Never, ..policy }.interval(0), None);
    }
}
