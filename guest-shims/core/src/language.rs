//! The languages of scripts.

use glovebox_vfs::escaped;
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

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
