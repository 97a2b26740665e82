//! What is told about sessions.

use serde::{Deserialize, Serialize};

use crate::Language;

/// Names a checkpoint within its session. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);

/// A state that a session can be set back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointInfo {
    /// Its name.
    pub id: CheckpointId,
    /// Whether the session took it by itself, before an execution. It is replaced by the next such one.
    pub automatic: bool,
    /// How many executions the state has behind it.
    pub executions: u64,
    /// Memory of its own: the pages that differ from the image's, in bytes. Checkpoints share those that are equal.
    pub private_bytes: u64,
}

/// The state that a session was rolled back to after an execution that was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The checkpoint whose state it is.
    pub checkpoint: CheckpointId,
    /// The number of executions before the unwound one that are lost with it: 0 if the checkpoint was taken right before it.
    pub executions_lost: u64,
}

/// A session, as its last execution left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// The language of its scripts.
    pub language: Language,
    /// The runtime's name in the manifest.
    pub runtime_name: String,
    /// The number of executions up to its current state: a rollback and undoing decrease it.
    pub executions: u64,
    /// Linear memory, the image's included, in bytes; as it last was, where the session has no instance just now.
    pub memory_bytes: u64,
    /// What of it is the session's own, as of its last checkpoint: the pages that differ from the image's, in bytes.
    pub private_bytes: u64,
    /// What it counts for under `limits.session_total_bytes`: memory beyond the image and pages of its own within it, its
    /// checkpoints, and what the host holds for it.
    pub held_bytes: u64,
    /// The number of states that it can be set back to.
    pub checkpoints: usize,
    /// The number of checkpoints that were due before an execution and were skipped, because `limits.session_total_bytes` had no
    /// room for them. A rollback then goes to an earlier one.
    pub checkpoints_skipped: u64,
    /// The number of rollbacks so far.
    pub rollbacks: u64,
    /// Why it has ended, if it has.
    pub ended: Option<String>,
}

impl SessionInfo {
    /// A session with this id in this runtime, of which nothing is known yet.
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
