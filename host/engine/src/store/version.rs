//! Versions of stored sessions.

use std::fmt;

use crate::entropy;

/// Identifies one write of a session. Every write has a different version, even if the bytes are equal or the session was removed and
/// created again. Only the store that issued it can interpret it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredVersion(String);

impl StoredVersion {
    /// For stores: a version from the store's own name for it, such as an object's ETag. It must differ for each write.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// For stores that name versions themselves: a unique version, 128 random bits in hexadecimal.
    #[must_use]
    pub fn random() -> Self {
        Self(entropy::random_id())
    }

    /// The store's name for it.
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

/// What must be in the store for a session to be written or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing, not even a damaged session.
    Absent,
    /// This version, with no write since.
    Version(StoredVersion),
    /// Anything, damaged or not: for importing over a damaged session, or removing it.
    Any,
}
