//! A session's ID, its policy, and its description.

use serde::{Deserialize, Serialize};

use crate::Language;

/// The ID of a checkpoint within its session. Later checkpoints have greater IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);

impl From<CheckpointId> for u64 {
    fn from(CheckpointId(id): CheckpointId) -> Self {
        id
    }
}

/// The description of a checkpoint: a state that a session can return to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// The checkpoint's ID.
    pub id: CheckpointId,
    /// `true` if the session took the checkpoint automatically before an execution. The next automatic checkpoint
    /// replaces it.
    pub automatic: bool,
    /// The number of executions before this state.
    pub executions: u64,
    /// The size of the pages that differ from the image, in bytes. Checkpoints share equal pages.
    pub private_bytes: u64,
}

/// A session's rollback after an unwound execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The checkpoint to which the session returned.
    pub checkpoint: CheckpointId,
    /// The number of earlier executions that are lost with the unwound one; 0 if the checkpoint was taken right before
    /// the unwound execution.
    pub executions_lost: u64,
}

/// The state of a session after its last execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The session's ID.
    pub id: String,
    /// The language of the session's scripts.
    pub language: Language,
    /// The runtime's name in the manifest.
    pub runtime_name: String,
    /// The number of executions up to the current state. Rollback and undo decrease it.
    pub executions: u64,
    /// Linear memory including the image, in bytes; the last known size while the session has no instance.
    pub memory_bytes: u64,
    /// The size of the pages that differ from the image, in bytes, as of the last checkpoint.
    pub private_bytes: u64,
    /// The session's share of `limits.session_total_bytes`: memory beyond the image, private pages within the image,
    /// checkpoints, and other host state.
    pub held_bytes: u64,
    /// The number of checkpoints that the session can return to.
    pub checkpoints: usize,
    /// The number of checkpoints that were skipped because they did not fit into `limits.session_total_bytes`. If any
    /// were skipped, a rollback returns to an earlier checkpoint.
    pub checkpoints_skipped: u64,
    /// The number of rollbacks so far.
    pub rollbacks: u64,
    /// The reason for the session's end; `None` if it has not ended.
    pub ended: Option<String>,
}

impl SessionInfo {
    /// Creates the description of a session that has not run a script yet.
    pub fn new(id: &str, language: Language, runtime_name: &str) -> Self {
        Self {
            id: id.to_owned(),
            language,
            runtime_name: runtime_name.to_owned(),
            executions: 0,
            memory_bytes: 0,
            private_bytes: 0,
            held_bytes: 0,
            checkpoints: 0,
            checkpoints_skipped: 0,
            rollbacks: 0,
            ended: None,
        }
    }
}

/// Maximum length of a session ID in bytes.
pub const MAX_SESSION_ID_BYTES: usize = 64;

/// Returns `true` if a string is a valid session ID. An ID has 1 to 64 characters, which are letters, digits, `.`, `_`
/// or `-`, and does not start with `.`.
pub fn is_session_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_SESSION_ID_BYTES).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_plain)
}

/// The rule for when a session takes automatic checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoints {
    /// Takes a checkpoint before every execution while the session's private memory is at most
    /// [`SessionPolicy::checkpoint_auto_bytes`]. Up to twice that size, takes one before every second execution; up to
    /// three times that size, before every third; and so on. The average cost of checkpoints therefore stays constant.
    #[default]
    Auto,
    /// Takes a checkpoint before every execution.
    Always,
    /// Takes a checkpoint before every n-th execution. The minimum is 1.
    Every(u32),
    /// Takes a checkpoint only when the embedder requests one.
    Never,
}

/// The handling of a session whose guest was unwound: stopped at a limit, cancelled, trapped, or damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnwind {
    /// The session returns to its last checkpoint, in a new instance, and continues. It ends if it has no checkpoint.
    #[default]
    RollBack,
    /// The session ends.
    End,
}

/// Session settings: the `[session]` table of a policy file.
///
/// The cost of a checkpoint, a rollback or a fork grows with the session's private memory. An idle Python session has
/// 0.3 MiB of private memory, an idle JavaScript session 0.1 MiB. For a checkpoint, the host reads the page map and
/// compares pages. This adds less than 0.1 ms to an execution in a small session, and about 8 ms with 64 MiB of private
/// memory; `docs/performance.md` lists measurements. On systems without a page map, all memory is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionPolicy {
    /// The schedule of automatic checkpoints. Default: `"auto"`.
    pub checkpoints: Checkpoints,
    /// Maximum private memory, in bytes, for a checkpoint before every execution under `"auto"`. Default: 4 MiB.
    pub checkpoint_auto_bytes: u64,
    /// Maximum number of requested checkpoints; the oldest is dropped first. Default: 8.
    pub checkpoints_retained: u32,
    /// The handling of a session whose guest was unwound. Default: `"roll-back"`.
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
    fn session_id_must_be_a_plain_name() {
        for (id, fits) in [
            ("a", true),
            ("A-b_c.9", true),
            (&"x".repeat(64), true),
            (&"x".repeat(65), false),
            ("", false),
            (".", false),
            ("..", false),
            (".a", false),
            ("a/b", false),
            ("a\\b", false),
            ("a b", false),
            ("a\0", false),
            ("é", false),
        ] {
            assert_eq!(is_session_id(id), fits, "{id:?}");
        }
    }

    #[test]
    fn large_checkpoints_are_taken_less_often() {
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
