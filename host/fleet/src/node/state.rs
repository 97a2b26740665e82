//! What the engine stores of a session.

use glovebox::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{FleetName, FleetSession};

/// Under which name the engine has it.
pub(crate) const STATE_KEY: &str = "session";
/// Under which name it has the invocation that is executing.
pub(super) const RUNNING_KEY: &str = "running";
/// Under which name it has what whoever asked calls that.
pub(super) const ID_KEY: &str = "running-id";

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// What it is now.
    pub(super) session: FleetSession,
    /// The name of the blob with its bytes.
    pub(super) blob: String,
    /// What it was before its last execution, once.
    pub(super) previous: Option<Previous>,
}

/// What a session was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Previous {
    pub(super) blob: String,
    pub(super) bytes: u64,
    pub(super) executions: u64,
}

impl State {
    /// The session after its next change.
    pub(super) fn next(&self, bytes: u64, executions: u64, at: Timestamp, blob: String) -> Self {
        let session = FleetSession {
            generation: self.session.generation + 1,
            bytes,
            executions,
            updated_at: at,
            ..self.session.clone()
        };
        let (bytes, executions) = (self.session.bytes, self.session.executions);
        Self { session, blob, previous: Some(Previous { blob: self.blob.clone(), bytes, executions }) }
    }

    /// The session as it is, as another generation: an execution was, and left nothing.
    pub(super) fn unchanged(&self, at: Timestamp) -> Self {
        let mut unchanged = self.clone();
        unchanged.session.generation += 1;
        unchanged.session.updated_at = at;
        unchanged
    }

    /// The session before its last execution.
    pub(super) fn undone(&self, at: Timestamp) -> Option<Self> {
        let Previous { blob, bytes, executions } = self.previous.clone()?;
        let mut undone = self.next(bytes, executions, at, blob);
        undone.previous = None;
        Some(undone)
    }

    /// What its next execution is called, for whoever must know one execution from all others: what is closed and opened again under the same
    /// name has another.
    pub(super) fn next_execution(&self) -> String {
        format!("{}-{}", self.session.created_at.unix_ms(), self.session.generation + 1)
    }
}

/// The directory of a session's blobs.
pub(super) fn blob_dir(name: &FleetName) -> String {
    format!("sessions/{name}")
}

/// The name of the blob of a state. It says what is in it, so that two who write the same generation do not write over one another.
pub(super) fn blob_name(name: &FleetName, generation: u64, state: &[u8]) -> String {
    let digest: String = Sha256::digest(state).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}/{generation:010}-{digest}", blob_dir(name))
}

/// From what a session's random numbers come.
pub(super) fn seed(name: &FleetName, opened_at: Timestamp) -> u64 {
    let digest = Sha256::digest(format!("{name} {}", opened_at.unix_ms()));
    digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use glovebox::Language;

    use super::*;

    fn state() -> State {
        let at = Timestamp::from_unix_ms(5);
        let session = FleetSession {
            name: "notes".parse().unwrap(),
            language: Language::Python,
            runtime: "python-3.12".into(),
            version: None,
            image_sha256: "ab".into(),
            generation: 1,
            executions: 0,
            bytes: 10,
            created_at: at,
            updated_at: at,
            is_running: false,
        };
        State { session, blob: "sessions/notes/1".into(), previous: None }
    }

    #[test]
    fn each_change_has_a_generation_of_its_own_and_undoing_is_one() {
        let first = state();
        let second = first.next(20, 1, Timestamp::from_unix_ms(6), "sessions/notes/2".into());
        assert_eq!((second.session.generation, second.session.bytes, second.session.executions), (2, 20, 1));
        let undone = second.undone(Timestamp::from_unix_ms(7)).unwrap();
        assert_eq!((undone.session.generation, undone.session.bytes, undone.session.executions), (3, 10, 0));
        assert_eq!(undone.blob, first.blob);
        assert_eq!(undone.undone(Timestamp::from_unix_ms(8)), None, "not twice");
        assert_eq!(first.undone(Timestamp::from_unix_ms(8)), None, "nothing was executed");
        assert_ne!(undone.next_execution(), second.next_execution());
    }

    #[test]
    fn a_session_that_was_opened_again_draws_other_numbers_and_calls_its_executions_otherwise() {
        let name: FleetName = "team!notes".parse().unwrap();
        let (early, late) = (Timestamp::from_unix_ms(1), Timestamp::from_unix_ms(2));
        assert_ne!(seed(&name, early), seed(&name, late));
        assert_ne!(seed(&name, early), seed(&"team!other".parse().unwrap(), early));
        let mut again = state();
        again.session.created_at = late;
        assert_ne!(again.next_execution(), state().next_execution());
    }

    #[test]
    fn a_blob_is_named_by_what_is_in_it() {
        let name: FleetName = "team!notes".parse().unwrap();
        let blob = blob_name(&name, 7, b"state");
        assert!(blob.starts_with("sessions/team!notes/0000000007-"), "{blob}");
        assert_ne!(blob, blob_name(&name, 7, b"other"));
    }
}
