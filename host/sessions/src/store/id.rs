//! Ids of stored sessions.

use glovebox_vfs::escaped;
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::entropy;

/// Id of a stored session: 1 to 64 letters, digits, `.`, `_` and `-`, not beginning with `.`. It is therefore valid as
/// a file name and as a part of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// The text is not a valid session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be a session's id; use 1 to 64 letters, digits, `.`, `_` or `-`, and no `.` in front", name = escaped(.0))]
pub struct SessionIdError(String);

impl SessionId {
    /// Maximum length: 64 bytes.
    pub const MAX_BYTES: usize = 64;

    /// Returns a new unique id: 128 random bits in hexadecimal.
    #[must_use]
    pub fn random() -> Self {
        Self(entropy::random_id())
    }

    /// Validates an id.
    ///
    /// # Errors
    /// [`SessionIdError`] if the text is not a valid id.
    pub fn new(id: impl Into<String>) -> Result<Self, SessionIdError> {
        let id = id.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins = id.bytes().next().is_some_and(|first| first != b'.');
        if begins && id.len() <= Self::MAX_BYTES && id.bytes().all(plain) {
            return Ok(Self(id));
        }
        // Truncated, because it appears in a message.
        Err(SessionIdError(id.chars().take(Self::MAX_BYTES).collect()))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(id: &str) -> Result<Self, SessionIdError> {
        Self::new(id)
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;

    fn try_from(id: String) -> Result<Self, SessionIdError> {
        Self::new(id)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_words() {
        let longest = "x".repeat(64);
        for id in ["a", "A-1", "_x", "-x", "0", "a..b", "a.session", &longest] {
            assert_eq!(SessionId::new(id).unwrap().as_str(), id);
        }
        let over = "x".repeat(65);
        for id in ["", ".", "..", ".hidden", "a/b", "../x", "a\\b", "a b", "a\0", "é", "a\n", "*", &over] {
            let error = SessionId::new(id).unwrap_err();
            assert!(!error.to_string().contains(|c: char| c.is_control()), "{error}");
            assert!(serde_json::from_value::<SessionId>(id.into()).is_err(), "{id}");
        }
        assert!(SessionId::new("x".repeat(1 << 20)).unwrap_err().to_string().len() < 300);
    }
}
