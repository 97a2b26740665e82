//! Our words in those of the contract.

use std::time::Duration;

use glovebox_core::{
    GuestValue, Language, Outcome, RaisedOutcome, Resource, TrapKind,
    tools::{ToolErrorKind, ToolOutcome, ToolRecord},
};
use glovebox_interpreters::{Diagnostic, SourceKind};
use glovebox_wasi::Captured;

use crate::bindings::types;

/// How many bytes one call gives of a file, a blob or a stream at most.
pub(crate) const MAX_READ_BYTES: u64 = 16 << 20;

/// How many bytes of a stream an execution has in it at most.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// At most `len` bytes from `offset` on, and no more than one call gives.
pub(crate) fn part(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
    let end = offset.saturating_add(len.min(MAX_READ_BYTES));
    bytes.get(at(offset)..at(end)).unwrap_or(&[])
}

/// A time in nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What was captured of a stream, as an execution has it.
pub(crate) fn output(captured: &Captured) -> types::Output {
    let bytes = captured.bytes.get(..MAX_OUTPUT_BYTES).unwrap_or(&captured.bytes).to_vec();
    types::Output { bytes, kept_bytes: captured.bytes.len() as u64, total_bytes: captured.total_bytes }
}

/// How JavaScript is to be understood.
pub(crate) fn source_kind(kind: Option<types::SourceKind>) -> SourceKind {
    match kind {
        None | Some(types::SourceKind::Detect) => SourceKind::Detect,
        Some(types::SourceKind::Script) => SourceKind::Script,
        Some(types::SourceKind::Module) => SourceKind::Module,
    }
}

impl From<Outcome> for types::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Exited { code } => Self::Exited(code),
            Outcome::Raised(raised) => Self::Raised(raised.into()),
            Outcome::Exhausted { resource, limit, used } => {
                Self::Exhausted(types::Exhausted { resource: resource.into(), limit, used })
            }
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Trapped { trap } => Self::Trapped(trap.into()),
        }
    }
}

impl From<RaisedOutcome> for types::Raised {
    fn from(RaisedOutcome { type_name, message, traceback, line }: RaisedOutcome) -> Self {
        Self { type_name, message, traceback, line }
    }
}

impl From<Resource> for types::ResourceKind {
    fn from(resource: Resource) -> Self {
        match resource {
            Resource::Fuel => Self::Fuel,
            Resource::Time => Self::Time,
            Resource::Memory => Self::Memory,
        }
    }
}

impl From<TrapKind> for types::TrapKind {
    fn from(trap: TrapKind) -> Self {
        match trap {
            TrapKind::StackOverflow => Self::StackOverflow,
            TrapKind::Unreachable => Self::Unreachable,
            TrapKind::OutOfBounds => Self::OutOfBounds,
            TrapKind::BadCall => Self::BadCall,
            TrapKind::Arithmetic => Self::Arithmetic,
            TrapKind::BadReport => Self::BadReport,
            TrapKind::Other => Self::Other,
        }
    }
}

impl From<GuestValue> for types::GuestValue {
    fn from(GuestValue { repr, json }: GuestValue) -> Self {
        Self { repr, json }
    }
}

impl From<ToolRecord> for types::ToolRecord {
    fn from(ToolRecord { name, arguments, outcome, started, duration }: ToolRecord) -> Self {
        let outcome = match outcome {
            ToolOutcome::Returned(result) => types::ToolOutcome::Returned(result),
            ToolOutcome::Failed { kind, message } => {
                types::ToolOutcome::Failed(types::ToolFailure { kind: kind.into(), message })
            }
            ToolOutcome::Unfinished => types::ToolOutcome::Unfinished,
        };
        Self { name, arguments, outcome, started_ns: nanoseconds(started), duration_ns: nanoseconds(duration) }
    }
}

impl From<ToolErrorKind> for types::ToolError {
    fn from(kind: ToolErrorKind) -> Self {
        match kind {
            ToolErrorKind::Failed => Self::Failed,
            ToolErrorKind::Limit => Self::Limit,
            ToolErrorKind::Timeout => Self::Timeout,
            ToolErrorKind::Unknown => Self::Unknown,
            ToolErrorKind::InvalidArguments => Self::InvalidArguments,
        }
    }
}

impl From<types::ToolError> for ToolErrorKind {
    fn from(kind: types::ToolError) -> Self {
        match kind {
            types::ToolError::Failed => Self::Failed,
            types::ToolError::Limit => Self::Limit,
            types::ToolError::Timeout => Self::Timeout,
            types::ToolError::Unknown => Self::Unknown,
            types::ToolError::InvalidArguments => Self::InvalidArguments,
        }
    }
}

impl From<Language> for types::Language {
    fn from(language: Language) -> Self {
        match language {
            Language::Python => Self::Python,
            Language::JavaScript => Self::Javascript,
        }
    }
}

impl From<Diagnostic> for types::Diagnostic {
    fn from(Diagnostic { line, column, message }: Diagnostic) -> Self {
        Self { line, column, message }
    }
}
