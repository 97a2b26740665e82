//! Descriptions of sessions and checkpoints.

use serde::{Deserialize, Serialize};

use crate::Language;

/// The id of a checkpoint within its session. Later checkpoints have greater ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);

/// Description of a checkpoint, a state that a session can return to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointInfo {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// `true` if the session took the checkpoint automatically, before an execution. The next automatic one replaces
    /// it.
    pub automatic: bool,
    /// The number of executions before this state.
    pub executions: u64,
    /// Memory in the pages that differ from the image, in bytes. Checkpoints share equal pages.
    pub private_bytes: u64,
}

/// The rollback of a session after an unwound execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The checkpoint that the session returned to.
    pub checkpoint: CheckpointId,
    /// The number of earlier executions that are lost with the unwound one. 0 if the checkpoint was taken right before
    /// it.
    pub executions_lost: u64,
}

/// Description of a session after its last execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// The session's id.
    pub id: String,
    /// The language of its scripts.
    pub language: Language,
    /// The runtime's name in the manifest.
    pub runtime_name: String,
    /// The number of executions up to the current state. Rollback and undo decrease it.
    pub executions: u64,
    /// Linear memory including the image, in bytes. The last known size if the session has no instance at the moment.
    pub memory_bytes: u64,
    /// The session's private memory as of its last checkpoint, in bytes: the pages that differ from the image.
    pub private_bytes: u64,
    /// The session's share of `limits.session_total_bytes`: memory beyond the image, private pages within the image,
    /// checkpoints, and other host state.
    pub held_bytes: u64,
    /// The number of checkpoints that the session can return to.
    pub checkpoints: usize,
    /// The number of checkpoints that were skipped because they did not fit into `limits.session_total_bytes`. A
    /// rollback then returns to an earlier one.
    pub checkpoints_skipped: u64,
    /// The number of rollbacks so far.
    pub rollbacks: u64,
    /// The reason for the session's end, if it has ended.
    pub ended: Option<String>,
}

impl SessionInfo {
    /// Creates the description of a session that has not run yet.
    #[must_use]
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
