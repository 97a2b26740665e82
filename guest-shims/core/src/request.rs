//! The language of a request, and the checks against its limits before anything runs.

use std::{fmt, str::FromStr};

use glovebox_vfs::escaped;
use serde::{Deserialize, Serialize};

use crate::Limits;

/// Maximum length of a script's name in bytes, as for any path.
const MAX_NAME_BYTES: usize = 4096;

/// A request that is invalid or exceeds its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The source exceeds `limits.source_bytes`.
    #[error("the source is {bytes} bytes; `limits.source_bytes` is {most}")]
    SourceTooLarge {
        /// The size of the source.
        bytes: u64,
        /// The value of the limit.
        most: u64,
    },
    /// The standard input exceeds `limits.stdin_bytes`.
    #[error("standard input is {bytes} bytes; `limits.stdin_bytes` is {most}")]
    StdinTooLarge {
        /// The size of the input.
        bytes: u64,
        /// The value of the limit.
        most: u64,
    },
    /// The script's name contains a NUL byte or is too long. Holds the beginning of the name.
    #[error("the script's name `{name}` cannot be used; it must be at most 4096 bytes without NUL", name = escaped(.0))]
    Name(String),
}

/// Checks a request against the limits.
///
/// # Errors
/// The source or the input is too large, or the name is invalid.
pub fn check_request(limits: &Limits, source: &str, name: &str, stdin: &[u8]) -> Result<(), RequestError> {
    let (source, stdin) = (source.len() as u64, stdin.len() as u64);
    if source > limits.source_bytes {
        return Err(RequestError::SourceTooLarge { bytes: source, most: limits.source_bytes });
    }
    if stdin > limits.stdin_bytes {
        return Err(RequestError::StdinTooLarge { bytes: stdin, most: limits.stdin_bytes });
    }
    if name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(RequestError::Name(name.chars().take(100).collect()));
    }
    Ok(())
}

/// A script language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python, run by CPython.
    Python,
    /// JavaScript, run by QuickJS-NG.
    JavaScript,
}

impl Language {
    /// All languages, in the order of listings.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// Returns the lower-case name: `python` or `javascript`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }

    /// Returns the language of a file name extension: `.py` and `.pyw` for Python; `.js`, `.mjs`, `.cjs`, and
    /// TypeScript's `.ts`, `.mts` and `.cts` for JavaScript.
    #[must_use]
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "py" | "pyw" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an unknown language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown language `{name}`; use `python` or `javascript`", name = escaped(.0))]
pub struct UnknownLanguage(pub String);

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "python" | "py" => Ok(Self::Python),
            "javascript" | "js" => Ok(Self::JavaScript),
            _ => Err(UnknownLanguage(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_has_bounds() {
        let limits = Limits { source_bytes: 2, stdin_bytes: 3, ..Limits::default() };
        for (source, fits) in [("", true), ("12", true), ("123", false)] {
            assert_eq!(check_request(&limits, source, "", b"").is_ok(), fits, "{source}");
        }
        assert_eq!(check_request(&limits, "123", "", b""), Err(RequestError::SourceTooLarge { bytes: 3, most: 2 }));
        assert_eq!(check_request(&limits, "", "", b"123"), Ok(()));
        assert_eq!(check_request(&limits, "", "", b"1234"), Err(RequestError::StdinTooLarge { bytes: 4, most: 3 }));
        for (name, fits) in [("n".repeat(4095), true), ("n".repeat(4096), true), ("n".repeat(4097), false)] {
            assert_eq!(check_request(&limits, "", &name, b"").is_ok(), fits, "{}", name.len());
        }
        assert_eq!(check_request(&limits, "", "a\0b", b""), Err(RequestError::Name("a\0b".into())));
    }
}
