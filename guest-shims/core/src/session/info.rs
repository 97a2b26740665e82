//! What is told about sessions.

use serde::Serialize;

/// Names a checkpoint within its session. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rollback {
    /// The checkpoint whose state it is.
    pub checkpoint: CheckpointId,
    /// The number of executions before the unwound one that are lost with it: 0 if the checkpoint was taken right before it.
    pub executions_lost: u64,
}
