//! Which write of a session is meant.

use std::fmt;

use crate::entropy;

/// Which write of a session this is. Each write has another, that of equal bytes too, and that of a session which was removed and made
/// again. Only the store that gave it can tell what it means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredVersion(String);

impl StoredVersion {
    /// For stores: a version by the name that the store has for it, such as an object's ETag. It must differ for each write.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// For stores that name versions themselves: one that no other write has, 128 random bits in hexadecimal.
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

/// What must be in the store for a session to be written or removed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing, not even a damaged session.
    Absent,
    /// What this write stored, and nothing since.
    Version(StoredVersion),
    /// Anything, damaged or not: for importing over a damaged session, and for removing one.
    Any,
}
