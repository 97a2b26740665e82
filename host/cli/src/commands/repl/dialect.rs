//! The language of the inputs.

use glovebox::{Language, Request};

use crate::args::LanguageArg;

/// The name of TypeScript inputs: the engine detects TypeScript by its extension.
const TYPESCRIPT_NAME: &str = "<sandbox>.ts";

/// The language of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Python,
    JavaScript,
    TypeScript,
}

impl Dialect {
    /// The dialect of an interpreter's language: TypeScript if the command line asks for it.
    pub(super) fn new(language: Language, wanted: Option<LanguageArg>) -> Self {
        match (language, wanted) {
            (Language::Python, _) => Self::Python,
            (Language::JavaScript, Some(LanguageArg::TypeScript)) => Self::TypeScript,
            (Language::JavaScript, _) => Self::JavaScript,
        }
    }

    /// The name in the greeting.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
        }
    }

    /// The name of the history file.
    pub(super) fn history_file(self) -> &'static str {
        match self {
            Self::Python => "history.python",
            Self::JavaScript => "history.javascript",
            Self::TypeScript => "history.typescript",
        }
    }

    /// The prompt, as the language's own interpreter shows it.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Python => ">>> ",
            Self::JavaScript | Self::TypeScript => "> ",
        }
    }

    /// A request for an input.
    pub(super) fn request(self, source: &str) -> Request<'_> {
        let request = Request::new(source);
        match self {
            Self::Python | Self::JavaScript => request,
            Self::TypeScript => request.name(TYPESCRIPT_NAME),
        }
    }
}
