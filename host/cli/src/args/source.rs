//! The code to run, and its interpreter.

use std::{path::PathBuf, str::FromStr};

use clap::Args;
use glovebox::Language;

/// The code: files, standard input, or text on the command line.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct CodeArgs {
    /// Scripts to run, one after another; `-` reads one from standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Code to run; Python unless --language is given
    #[arg(short = 'e', long = "eval", value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
}

/// The code and its language.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// Language: python, javascript or typescript [default: by the file's extension: .py .pyw, .js .mjs .cjs, .ts .mts
    /// .cts]
    #[arg(short, long, value_name = "LANGUAGE")]
    pub(crate) language: Option<LanguageArg>,
}

/// A language on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanguageArg {
    Plain(Language),
    /// JavaScript after type stripping.
    TypeScript,
}

impl LanguageArg {
    /// Returns the interpreter's language.
    pub(crate) fn language(self) -> Language {
        match self {
            Self::Plain(language) => language,
            Self::TypeScript => Language::JavaScript,
        }
    }
}

impl FromStr for LanguageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "typescript" | "ts" => Ok(Self::TypeScript),
            _ => match text.parse() {
                Ok(language) => Ok(Self::Plain(language)),
                Err(_) => Err("write `python`, `javascript` or `typescript`, or `py`, `js` or `ts`".into()),
            },
        }
    }
}

/// Choice of the interpreter.
#[derive(Args, Clone, Debug)]
pub(crate) struct RuntimeArgs {
    /// Interpreter by name (see `glovebox runtimes list`) [default: the language's]
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,

    /// Path of another interpreter's WebAssembly binary
    #[arg(long, value_name = "FILE", conflicts_with = "runtime")]
    pub(crate) runtime_path: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use glovebox::Language;

    use super::LanguageArg;

    #[test]
    fn a_language_has_a_name_and_a_short_one() {
        for (text, language) in [
            ("python", LanguageArg::Plain(Language::Python)),
            ("js", LanguageArg::Plain(Language::JavaScript)),
            ("ts", LanguageArg::TypeScript),
            ("TypeScript", LanguageArg::TypeScript),
        ] {
            assert_eq!(text.parse(), Ok(language), "{text}");
        }
        assert!("tsx".parse::<LanguageArg>().unwrap_err().contains("`typescript`"));
    }
}
