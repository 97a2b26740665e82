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
    /// What this session has, and none that had its name before or has it later.
    pub(super) opening: String,
    /// The name of the blob with its bytes.
    pub(super) blob: String,
    /// What it was before its last execution, once.
    pub(super) previous: Option<Previous>,
    /// Blobs that this state does not name any more. Whoever reads it removes them: then the engine has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stale: Vec<String>,
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
        let previous = Some(Previous { blob: self.blob.clone(), bytes, executions });
        let stale = self.previous.iter().map(|previous| previous.blob.clone()).collect();
        Self { session, opening: self.opening.clone(), blob, previous, stale }
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
        undone.stale = vec![self.blob.clone()];
        Some(undone)
    }

    /// What its next execution is called, for whoever must know one execution from all others: what is closed and opened again under the same
    /// name has another.
    pub(super) fn next_execution(&self) -> String {
        format!("{}-{}", self.opening, self.session.generation + 1)
    }
}

/// The directory of the blobs of a session. One that is opened again under its name has another: whoever comes late with closing the first
/// removes nothing of the second.
pub(super) fn blob_dir(name: &FleetName, opening: &str) -> String {
    format!("sessions/{name}/{opening}")
}

/// The name of the blob of a state. It says what is in it, so that two who write the same generation do not write over one another.
pub(super) fn blob_name(name: &FleetName, opening: &str, generation: u64, state: &[u8]) -> String {
    let digest: String = Sha256::digest(state).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}/{generation:010}-{digest}", blob_dir(name, opening))
}

/// From what a session's random numbers come.
pub(super) fn seed(name: &FleetName, opening: &str) -> u64 {
    let digest = Sha256::digest(format!("{name} {opening}"));
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
        State { session, opening: "0a".into(), blob: "sessions/notes/0a/1".into(), previous: None, stale: Vec::new() }
    }

    #[test]
    fn each_change_has_a_generation_of_its_own_and_undoing_is_one() {
        let first = state();
        let second = first.next(20, 1, Timestamp::from_unix_ms(6), "sessions/notes/0a/2".into());
        assert_eq!((second.session.generation, second.session.bytes, second.session.executions), (2, 20, 1));
        let undone = second.undone(Timestamp::from_unix_ms(7)).unwrap();
        assert_eq!((undone.session.generation, undone.session.bytes, undone.session.executions), (3, 10, 0));
        assert_eq!(undone.blob, first.blob);
        assert_eq!((first.stale.len(), second.stale.len()), (0, 0), "both are named");
        assert_eq!(undone.stale, std::slice::from_ref(&second.blob));
        let third = second.next(30, 2, Timestamp::from_unix_ms(8), "sessions/notes/0a/3".into());
        assert_eq!(third.stale, std::slice::from_ref(&first.blob));
        assert_eq!(undone.undone(Timestamp::from_unix_ms(8)), None, "not twice");
        assert_eq!(first.undone(Timestamp::from_unix_ms(8)), None, "nothing was executed");
        assert_ne!(undone.next_execution(), second.next_execution());
    }

    #[test]
    fn a_session_that_was_opened_again_has_nothing_in_common_with_the_one_before() {
        let name: FleetName = "team!notes".parse().unwrap();
        assert_ne!(seed(&name, "0a"), seed(&name, "0b"));
        assert_ne!(seed(&name, "0a"), seed(&"team!other".parse().unwrap(), "0a"));
        let mut again = state();
        again.opening = "0b".into();
        assert_ne!(again.next_execution(), state().next_execution());
        assert!(!blob_name(&name, "0b", 1, b"state").starts_with(&blob_dir(&name, "0a")));
    }

    #[test]
    fn a_blob_is_named_by_what_is_in_it() {
        let name: FleetName = "team!notes".parse().unwrap();
        let blob = blob_name(&name, "0a", 7, b"state");
        assert!(blob.starts_with("sessions/team!notes/0a/0000000007-"), "{blob}");
        assert_ne!(blob, blob_name(&name, "0a", 7, b"other"));
    }
}
