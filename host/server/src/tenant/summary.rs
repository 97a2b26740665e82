//! Descriptions of sessions, whether they are in a store or in a fleet.

use glovebox::{Language, SessionInfo, Timestamp};
use glovebox_sessions::{ListedPage, ListedSession, SessionId, SessionRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The description of a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionAnswer)]
pub struct SessionSummary {
    /// The session's name, unique within the tenant.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// The language of the session's scripts.
    #[schema(value_type = String)]
    pub language: Language,
    /// The name of the session's runtime.
    pub runtime: String,
    /// The interpreter's version, if known.
    pub version: Option<String>,
    /// The time when the session was opened, imported or forked (RFC 3339).
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    /// The time when the session was last saved (RFC 3339).
    #[schema(value_type = String)]
    pub updated_at: Timestamp,
    /// The number of executions in the session so far.
    pub executions: u64,
    /// Identifies the current state of the session. Changes with every change to the session, and differs between
    /// sessions that used the same name. Over HTTP, `ETag` contains it, and `If-Match` can require it.
    pub generation: String,
    /// The number of files, directories and links in the workspace, if known.
    pub files: Option<u64>,
    /// The size of the stored state, in bytes. 0 if the session is only in memory.
    pub bytes: u64,
    /// The description of the live session, if it is in the server's or a worker's memory.
    #[schema(value_type = Option<serde_json::Value>)]
    pub live: Option<SessionInfo>,
}

/// A page of a tenant's sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionsAnswer)]
pub struct SessionPage {
    /// The sessions, sorted by name.
    pub sessions: Vec<SessionSummary>,
    /// The names of damaged sessions. They can only be removed.
    #[schema(value_type = Vec<String>)]
    pub damaged: Vec<SessionId>,
    /// The name after which the next page starts, if there is one.
    #[schema(value_type = Option<String>)]
    pub next: Option<SessionId>,
}

impl From<SessionRecord> for SessionSummary {
    fn from(record: SessionRecord) -> Self {
        Self {
            generation: generation(record.created_at, record.generation),
            id: record.id,
            language: record.language,
            runtime: record.runtime,
            version: record.version,
            created_at: record.created_at,
            updated_at: record.updated_at,
            executions: record.executions,
            files: record.files,
            bytes: record.bytes,
            live: None,
        }
    }
}

impl From<ListedPage> for SessionPage {
    fn from(page: ListedPage) -> Self {
        Self { next: page.next, ..page.sessions.into() }
    }
}

impl From<Vec<ListedSession>> for SessionPage {
    fn from(list: Vec<ListedSession>) -> Self {
        let mut all = Self::default();
        for ListedSession { stored, live, .. } in list {
            match stored.record {
                Some(record) => all.sessions.push(SessionSummary { live, ..record.into() }),
                None => all.damaged.push(stored.id),
            }
        }
        all
    }
}

/// Returns the identifier of a session's current state. It changes with every change to the session, and differs
/// between sessions that used the same name.
pub(crate) fn generation(created_at: Timestamp, number: u64) -> String {
    format!("{}-{number}", created_at.unix_ms())
}
