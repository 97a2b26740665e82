//! A tenant's sessions in a fleet: executed by its nodes, managed through its engine.
//!
//! This module has a tenant's scope, with its names, generations and errors, and the unsupported operations.
//! [`sessions`] opens, describes, undoes and closes sessions, and runs scripts in them.

mod sessions;

use std::fmt;

use glovebox::Timestamp;
use glovebox_fleet::{Expected, FleetClient, FleetError, FleetName, FleetSession};
use glovebox_sessions::{SessionId, SessionsError};

use super::{SessionSummary, Target};
use crate::ServiceError;

/// A tenant's scope in a fleet. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    client: FleetClient,
    scope: SessionId,
}

impl Fleet {
    pub(super) fn new(client: FleetClient, scope: SessionId) -> Self {
        Self { client, scope }
    }

    /// A session's name in the fleet.
    fn name(&self, id: &SessionId) -> FleetName {
        FleetName::new(Some(self.scope.clone()), id.clone())
    }
}

/// A session's generation as shown to clients.
fn generation(created_at: Timestamp, number: u64) -> String {
    format!("{}-{number}", created_at.unix_ms())
}

/// Parses the expected generation. Malformed text is treated as a generation that no state has.
fn expected(Target { id, expected }: &Target) -> Result<Option<Expected>, ServiceError> {
    let Some(text) = expected else { return Ok(None) };
    let parsed = text.split_once('-').and_then(|(created_ms, number)| {
        let created_at = Timestamp::from_unix_ms(created_ms.parse().ok()?);
        Some(Expected { created_at, generation: number.parse().ok()? })
    });
    parsed.map(Some).ok_or_else(|| FleetError::Changed(id.clone().into()).into())
}

/// Replaces the fleet's name of the session in an error by the tenant's name for it.
fn about(id: &SessionId) -> impl FnOnce(FleetError) -> ServiceError {
    let id = id.clone();
    move |error| match error {
        FleetError::NotFound(_) => SessionsError::NotFound { id }.into(),
        FleetError::Exists(_) => SessionsError::Exists { id }.into(),
        FleetError::NoUndo(_) => FleetError::NoUndo(id.into()).into(),
        FleetError::Changed(_) => FleetError::Changed(id.into()).into(),
        error => error.into(),
    }
}

impl From<FleetSession> for SessionSummary {
    fn from(session: FleetSession) -> Self {
        Self {
            id: session.name.id().clone(),
            language: session.language,
            runtime: session.runtime,
            version: session.version,
            created_at: session.created_at,
            updated_at: session.updated_at,
            executions: session.executions,
            generation: generation(session.created_at, session.generation),
            files: None,
            bytes: session.bytes,
            live: None,
        }
    }
}

/// An operation on stored sessions that fleet sessions do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotInFleet {
    /// Reading or changing files, or having them returned.
    Files,
    /// Getting and setting variables.
    Variables,
    /// Named checkpoints.
    Checkpoints,
    /// Forking a session.
    Fork,
    /// Exporting a session.
    Export,
    /// Importing a session.
    Import,
    /// Releasing a session's memory.
    Hibernate,
    /// Tools that the caller answers.
    Stepping,
}

impl NotInFleet {
    /// The operation, as messages name it.
    fn what(self) -> &'static str {
        match self {
            Self::Files => "files of sessions",
            Self::Variables => "variables of sessions",
            Self::Checkpoints => "checkpoints",
            Self::Fork => "forking sessions",
            Self::Export => "exporting sessions",
            Self::Import => "importing sessions",
            Self::Hibernate => "hibernating sessions",
            Self::Stepping => "tools without a `callback`",
        }
    }

    /// The alternative to suggest.
    fn instead(self) -> &'static str {
        match self {
            Self::Files => "read and write them in scripts of the session; pass input in `stdin` and `context`",
            Self::Variables => "print them in a script of the session, or set them from `context`",
            Self::Checkpoints => "`undo` without a `checkpoint` restores the state before the last execution",
            Self::Fork => "open another session and execute the same scripts in it",
            Self::Export | Self::Import => "use a server with a store of its own (`--store`)",
            Self::Hibernate => "not needed, because each state is stored before it is answered",
            Self::Stepping => "set a `callback` for each tool of a session, or execute outside of a session",
        }
    }
}

impl fmt::Display for NotInFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fleet does not support {}: {}", self.what(), self.instead())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(expected: &str) -> Target {
        Target { id: SessionId::new("s").unwrap(), expected: Some(expected.to_owned()) }
    }

    #[test]
    fn a_generation_is_read_as_it_is_written_and_what_is_none_is_no_state_of_the_session() {
        let created_at = Timestamp::from_unix_ms(1_700_000_000_000);
        let text = generation(created_at, 7);
        assert_eq!(expected(&target(&text)).unwrap(), Some(Expected { created_at, generation: 7 }));
        for none in ["", "7", "1-", "-7", "1-7-", "x-7", "1-18446744073709551616", "W/\"1-7"] {
            let error = expected(&target(none)).unwrap_err();
            assert_eq!((error.code(), error.status()), ("generation", 412), "{none}");
        }
        assert_eq!(expected(&Target { expected: None, ..target("") }).unwrap(), None);
    }

    #[test]
    fn whoever_asks_is_told_of_sessions_by_their_own_names() {
        let (id, name): (SessionId, FleetName) = (SessionId::new("notes").unwrap(), "team!notes".parse().unwrap());
        for (error, code, status) in [
            (FleetError::NotFound(name.clone()), "not-found", 404),
            (FleetError::Exists(name.clone()), "exists", 409),
            (FleetError::NoUndo(name.clone()), "no-checkpoint", 409),
            (FleetError::Changed(name), "generation", 412),
        ] {
            let error = about(&id)(error);
            assert_eq!((error.code(), error.status()), (code, status));
            assert!(error.public().to_string().contains("`notes`"), "{}", error.public());
        }
    }
}
