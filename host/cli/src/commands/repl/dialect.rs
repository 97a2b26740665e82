//! The language of the inputs.

use glovebox::{Language, Request};

use crate::args::LanguageArg;

/// Name of TypeScript inputs. The engine detects TypeScript by the extension.
const TYPESCRIPT_NAME: &str = "<sandbox>.ts";

const PYTHON_KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

const JAVASCRIPT_KEYWORDS: [&str; 43] = [
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "of",
];

/// Additional words of TypeScript that are rarely names.
const TYPESCRIPT_KEYWORDS: [&str; 10] = [
    "abstract",
    "declare",
    "implements",
    "interface",
    "keyof",
    "namespace",
    "private",
    "protected",
    "public",
    "readonly",
];

/// The language of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Python,
    JavaScript,
    TypeScript,
}

impl Dialect {
    /// Returns the dialect of an interpreter's language: TypeScript if the command line requests it.
    pub(super) fn new(language: Language, wanted: Option<LanguageArg>) -> Self {
        match (language, wanted) {
            (Language::Python, _) => Self::Python,
            (Language::JavaScript, Some(LanguageArg::TypeScript)) => Self::TypeScript,
            (Language::JavaScript, _) => Self::JavaScript,
        }
    }

    /// Returns the name in the greeting.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
        }
    }

    /// Returns the name of the history file.
    pub(super) fn history_file(self) -> &'static str {
        match self {
            Self::Python => "history.python",
            Self::JavaScript => "history.javascript",
            Self::TypeScript => "history.typescript",
        }
    }

    /// Returns the prompt of the language's own interpreter.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Python => ">>> ",
            Self::JavaScript | Self::TypeScript => "> ",
        }
    }

    /// Returns the line that confirms Ctrl-C.
    pub(super) fn interruption(self) -> &'static str {
        match self {
            Self::Python => "KeyboardInterrupt",
            Self::JavaScript | Self::TypeScript => "Interrupted",
        }
    }

    /// Returns a request for an input.
    pub(super) fn request(self, source: &str) -> Request<'_> {
        let request = Request::new(source);
        match self {
            Self::Python | Self::JavaScript => request,
            Self::TypeScript => request.name(TYPESCRIPT_NAME),
        }
    }

    /// Returns the words that cannot be names.
    pub(super) fn keywords(self) -> impl Iterator<Item = &'static str> {
        let (base, more): (&[&str], &[&str]) = match self {
            Self::Python => (&PYTHON_KEYWORDS, &[]),
            Self::JavaScript => (&JAVASCRIPT_KEYWORDS, &[]),
            Self::TypeScript => (&JAVASCRIPT_KEYWORDS, &TYPESCRIPT_KEYWORDS),
        };
        base.iter().chain(more).copied()
    }
}
