//! A session as it is described, wherever it is.

use glovebox::{Language, ListedPage, ListedSession, SessionId, SessionInfo, SessionRecord, Timestamp};

/// What is said of a session.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    /// Its name.
    pub id: SessionId,
    /// Its language.
    pub language: Language,
    /// Its runtime's name.
    pub runtime: String,
    /// The interpreter's version, if known.
    pub version: Option<String>,
    /// When it was opened, imported or forked.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// Executions so far.
    pub executions: u64,
    /// Which state it is: another one after each change, and for another session of the same name.
    pub generation: String,
    /// Files, directories and links in its workspace, where they were counted.
    pub files: Option<u64>,
    /// The size of its state in the store.
    pub bytes: u64,
    /// What it holds in memory of this process; none where it is not there.
    pub live: Option<SessionInfo>,
}

/// Sessions of a tenant.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    /// In the order of their names.
    pub sessions: Vec<SessionSummary>,
    /// The names of those that are damaged and can only be removed.
    pub damaged: Vec<SessionId>,
    /// After which name others come. `None` where these are the last.
    pub next: Option<SessionId>,
}

impl From<SessionRecord> for SessionSummary {
    fn from(record: SessionRecord) -> Self {
        Self {
            generation: generation(&record),
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

/// Which state of a session it is: another one after each change, and for another session of the same name.
pub(super) fn generation(record: &SessionRecord) -> String {
    format!("{}-{}", record.created_at.unix_ms(), record.generation)
}
