//! TypeScript: a script loses its types before the interpreter has it.
//!
//! What removes them is swc's `swc_ts_fast_strip`: it writes white space over them, so that every line and column stays what it was.
//! Its parser recurses as deeply as a source is nested and takes what memory it likes, so it is no part of this program: it is a
//! WebAssembly module, pinned and fetched as the interpreters are, in an instance of its own for each script. It is given what the script
//! is given: its fuel, its time, its memory, and the stack of a guest. What of it a script's types cost is on the script's bill.

#[cfg(feature = "typescript")]
mod glue;
#[cfg(feature = "typescript")]
mod load;
#[cfg(not(feature = "typescript"))]
mod not_built;
#[cfg(feature = "typescript")]
mod stripper;
#[cfg(feature = "typescript")]
mod values;
#[cfg(not(feature = "typescript"))]
mod without;

use glovebox_interpreters::Diagnostic;

use crate::{Outcome, RaisedOutcome, SourceKind, platform::ExecutionCtx};

#[cfg(feature = "typescript")]
pub(crate) use stripper::Stripper;
#[cfg(not(feature = "typescript"))]
pub(crate) use without::Stripper;

/// A longer message is cut: names in it are the script's.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// How a TypeScript source is to be understood by its name; none where the name is no TypeScript file's.
pub(crate) fn kind_of(name: &str, kind: SourceKind) -> Option<SourceKind> {
    let (_, extension) = name.rsplit_once('.')?;
    let own = match extension.to_ascii_lowercase().as_str() {
        "ts" => SourceKind::Detect,
        "mts" => SourceKind::Module,
        "cts" => SourceKind::Script,
        _ => return None,
    };
    Some(if kind == SourceKind::Detect { own } else { kind })
}

/// One script, and what its types may cost.
pub(crate) struct Strip<'a> {
    pub(crate) source: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: SourceKind,
    /// None where fuel is not counted.
    pub(crate) fuel: Option<u64>,
    pub(crate) memory_bytes: u64,
    pub(crate) timeout_ms: u64,
    /// Its clock, and who may cancel it.
    pub(crate) ctx: ExecutionCtx,
}

/// What came of a script's types.
#[derive(Debug)]
pub(crate) enum Stripped {
    /// JavaScript, line for line.
    Plain(String),
    /// Something that JavaScript cannot be made of, or that is no TypeScript.
    Wrong(Wrong),
    /// It was stopped.
    Stopped(Outcome),
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    /// From 1; none where it is the script as a whole.
    pub(crate) line: Option<u32>,
    /// In code points, from 1.
    pub(crate) column: u32,
}

impl Wrong {
    /// What concerns the script as a whole.
    fn whole(message: &str) -> Self {
        Self { message: message.to_owned(), line: None, column: 1 }
    }

    /// What is said at a place: at most so much of it.
    fn at(message: &str, line: Option<u32>, column: u32) -> Self {
        Self { message: message.chars().take(MAX_MESSAGE_CHARS).collect(), line, column }
    }

    /// The exception that the interpreter would raise, had it found it.
    pub(crate) fn raised(&self, name: &str) -> RaisedOutcome {
        let place = match self.line {
            Some(line) => format!("\n    at {name}:{line}:{}", self.column),
            None => String::new(),
        };
        RaisedOutcome {
            type_name: "SyntaxError".into(),
            message: self.message.clone(),
            traceback: format!("SyntaxError: {}{place}", self.message),
            line: self.line,
        }
    }

    /// What validation says.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        Diagnostic {
            line: self.line.unwrap_or(1),
            column: self.column,
            message: format!("SyntaxError: {}", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_typescript_and_of_which_kind() {
        use SourceKind::{Detect, Module, Script};
        let table = [
            ("x.ts", Detect, Some(Detect)),
            ("x.ts", Module, Some(Module)),
            ("a.b/x.mts", Detect, Some(Module)),
            ("x.CTS", Detect, Some(Script)),
            ("x.mts", Script, Some(Script)),
            ("x.tsx", Detect, None),
            ("x.js", Detect, None),
            ("ts", Detect, None),
            ("<sandbox>", Detect, None),
            ("x.ts/y", Detect, None),
        ];
        for (name, kind, expected) in table {
            assert_eq!(kind_of(name, kind), expected, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_reads_as_the_interpreter_has_it() {
        let wrong = Wrong::at("no", Some(3), 7);
        let raised = wrong.raised("x.ts");
        assert_eq!(raised.traceback, "SyntaxError: no\n    at x.ts:3:7");
        assert_eq!((raised.type_name.as_str(), raised.line), ("SyntaxError", Some(3)));
        assert_eq!(wrong.diagnostic(), Diagnostic { line: 3, column: 7, message: "SyntaxError: no".into() });
        assert_eq!(Wrong::whole("no").raised("x.ts").traceback, "SyntaxError: no");
    }

    #[test]
    fn a_long_message_is_cut() {
        for (chars, held) in [(999, 999), (1000, 1000), (1001, 1000)] {
            assert_eq!(Wrong::at(&"é".repeat(chars), None, 1).message.chars().count(), held);
        }
    }
}
