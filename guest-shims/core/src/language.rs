//! The languages scripts are written in.

use glovebox_vfs::escaped;
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A language that scripts are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python, run by CPython.
    Python,
    /// JavaScript, run by QuickJS-NG.
    JavaScript,
}

impl Language {
    /// Every language, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// The lower-case name: `python` or `javascript`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }

    /// The language of a file name extension: `.py` and `.pyw`; `.js`, `.mjs` and `.cjs`, and TypeScript's `.ts`,
    /// `.mts` and `.cts`.
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
