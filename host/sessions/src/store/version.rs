//! Versions of stored sessions.

use std::fmt;

use crate::entropy;

/// Identifies one write of a session. Every write has a different version, even if the bytes are equal or the session
/// was removed and created again. Only the store that issued it can interpret it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredVersion(String);

impl StoredVersion {
    /// For stores: creates a version from the store's own name for it, such as an object's ETag. The name must differ
    /// for each write.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// For stores that name versions themselves: returns a unique version, 128 random bits in hexadecimal.
    #[must_use]
    pub fn random() -> Self {
        Self(entropy::random_id())
    }

    /// Returns the store's name for the version.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoredVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The precondition for writing or removing a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The session does not exist, not even a damaged one.
    Absent,
    /// The store has this version, with no write since.
    Version(StoredVersion),
    /// No precondition: for importing over a damaged session, or for removing it.
    Any,
}
