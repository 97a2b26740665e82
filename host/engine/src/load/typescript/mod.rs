//! TypeScript: types are removed from a script before the interpreter gets it.
//!
//! swc's `swc_ts_fast_strip` removes them. It overwrites them with white space, so that every line and column stays in
//! place. Its parser recurses as deeply as the source is nested, and its memory use is not bounded. It is therefore not
//! linked into this program, but is a WebAssembly module, pinned and fetched like the interpreters. Each script gets an
//! instance of its own, with the limits of the script: its fuel, its time, its memory, and the stack of a guest. The
//! cost counts towards the script's limits.

mod glue;
mod stripper;
mod values;

use glovebox_core::{GuestState, clipped};
use glovebox_interpreters::Diagnostic;

use crate::{
    ExecuteError, Language, Metering, Outcome, RaisedOutcome, Resource, SourceKind,
    exec::{
        platform::ExecutionCtx,
        run::{PreparedRequest, Rejection, Translation},
    },
};

pub(crate) use stripper::Stripper;

/// Maximum length of a message, which can contain names from the script.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Returns the kind of a TypeScript source by its file name, or `None` if the name is not that of a TypeScript file.
fn kind_of(name: &str, kind: SourceKind) -> Option<SourceKind> {
    let (_, extension) = name.rsplit_once('.')?;
    let own = match extension.to_ascii_lowercase().as_str() {
        "ts" => SourceKind::Detect,
        "mts" => SourceKind::Module,
        "cts" => SourceKind::Script,
        _ => return None,
    };
    Some(if kind == SourceKind::Detect { own } else { kind })
}

/// A script to strip, with its limits.
pub(crate) struct Strip<'a> {
    pub(crate) source: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: SourceKind,
    /// Fuel limit. `None` if fuel is not metered.
    pub(crate) fuel: Option<u64>,
    pub(crate) memory_bytes: u64,
    pub(crate) timeout_ms: u64,
    /// The clock and the cancellation of the request.
    pub(crate) ctx: ExecutionCtx,
}

/// Result of removing a script's types.
#[derive(Debug)]
pub(crate) enum Stripped {
    /// JavaScript with unchanged lines and columns.
    Plain(String),
    /// The script is not TypeScript, or its types cannot be removed.
    Wrong(Wrong),
    /// The stripper was stopped at a limit or cancelled.
    Stopped(Outcome),
}

/// An error in a script, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    /// From 1. `None` if the error concerns the script as a whole.
    pub(crate) line: Option<u32>,
    /// In code points, from 1.
    pub(crate) column: u32,
}

impl Wrong {
    /// Creates an error about the script as a whole.
    fn whole(message: &str) -> Self {
        Self { message: message.to_owned(), line: None, column: 1 }
    }

    /// Creates an error at a position, with at most [`MAX_MESSAGE_CHARS`] of the message.
    fn at(message: &str, line: Option<u32>, column: u32) -> Self {
        Self { message: message.chars().take(MAX_MESSAGE_CHARS).collect(), line, column }
    }

    /// Returns the exception that the interpreter would raise for this error.
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

    /// Returns the diagnostic for validation.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        Diagnostic {
            line: self.line.unwrap_or(1),
            column: self.column,
            message: format!("SyntaxError: {}", self.message),
        }
    }
}

/// Translates a request for its interpreter. If the script's name marks it as TypeScript, its types are removed. This
/// counts towards the script's limits, but fetching and compiling the stripper does not.
pub(crate) fn translate(request: PreparedRequest<'_>) -> Result<PreparedRequest<'_>, ExecuteError> {
    match typescript_kind(&request) {
        Some(kind) => {
            let translation = strip(&request, kind)?;
            Ok(request.translated(translation))
        }
        None => Ok(request),
    }
}

fn typescript_kind(request: &PreparedRequest<'_>) -> Option<SourceKind> {
    let is_javascript = request.sandbox.language() == Language::JavaScript;
    kind_of(&request.name, request.kind).filter(|_| is_javascript)
}

fn strip(request: &PreparedRequest<'_>, kind: SourceKind) -> Result<Translation, ExecuteError> {
    let inner = &*request.sandbox.0;
    let stripper = inner.engine.0.stripper().map_err(|source| ExecuteError::TypeScript {
        name: clipped(&request.name).to_owned(),
        source: Box::new(source),
    })?;
    let limits = &inner.policy.limits;
    let ctx = request.ctx();
    let begun = *ctx.watch();
    let strip = Strip {
        source: &request.source,
        name: &request.name,
        kind,
        fuel: (inner.policy.metering == Metering::Fuel).then(|| request.budget.within(limits.fuel)),
        memory_bytes: limits.memory_bytes,
        timeout_ms: limits.timeout_ms,
        ctx,
    };
    let (stripped, fuel) =
        inner.engine.0.on_stack(|| stripper.strip(strip))?.map_err(|reason| ExecuteError::Instantiate { reason })?;
    let source = match stripped {
        Stripped::Plain(plain) => Ok(plain),
        Stripped::Wrong(wrong) => Err(wrong_script(&wrong, &request.name, fuel)),
        Stripped::Stopped(outcome) => Err(stopped(outcome, fuel)),
    };
    Ok(Translation { source, kind, fuel, begun })
}

/// Reports the error as a syntax error of the interpreter.
fn wrong_script(wrong: &Wrong, name: &str, fuel: u64) -> Rejection {
    Rejection {
        outcome: Outcome::Raised(wrong.raised(name)),
        diagnostic: wrong.diagnostic(),
        after: GuestState::Alive,
        charge: fuel,
    }
}

/// Reports the outcome of an execution that was stopped before the guest is entered. If it was stopped from outside,
/// the fuel used is only a lower bound, so the whole budget is charged.
fn stopped(outcome: Outcome, fuel: u64) -> Rejection {
    let is_known = !matches!(outcome, Outcome::Cancelled | Outcome::Exhausted { resource: Resource::Time, .. });
    let message = format!("the parser was stopped: {}", outcome.describe());
    Rejection {
        outcome,
        diagnostic: Diagnostic { line: 1, column: 1, message },
        after: GuestState::Untouched,
        charge: if is_known { fuel } else { u64::MAX },
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
