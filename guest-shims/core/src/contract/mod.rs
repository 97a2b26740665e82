//! The backend-independent implementation of the contract `glovebox:sandbox` (`wit/`).
//!
//! A backend generates its own types from `wit/`. [`contract_conversions!`](crate::contract_conversions) converts
//! between these types and this crate's types. The module also defines the size limits of individual calls, the checks
//! of arguments, and the error messages, which spell keys as the contract does.

mod conversions;
mod policy;

use std::{fmt::Display, time::Duration};

use serde::de::IgnoredAny;

use crate::{LimitError, PolicyError, files, hibernate::ResumeError};

pub use glovebox_interpreters::{Diagnostic, SourceKind};
pub use glovebox_vfs::FileKind;
pub use policy::{ContractPolicy, Grant, PolicyRefusal};

/// Maximum size of a file, blob or stream chunk that one call returns, in bytes.
pub const MAX_READ_BYTES: u64 = 16 << 20;

/// Maximum size of an output stream in an execution's record, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Maximum number of entries in a file listing.
pub const MAX_LISTED_FILES: usize = 10_000;

/// Maximum total size of the patterns of one request for files to return, in bytes.
const MAX_RETURNED_PATTERN_BYTES: usize = 1_024;

/// Maximum number of `*` in one of these patterns.
const MAX_STARS: usize = 8;

/// Maximum length of the caller's text in an error message, in bytes.
const MAX_QUOTED_BYTES: usize = 4_096;

const MAX_VARIABLE_NAME_BYTES: usize = 4_096;

/// An invalid argument. The message names the argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArgument(pub String);

/// Returns up to `len` bytes of `bytes`, starting at `offset`, and never more than [`MAX_READ_BYTES`].
pub fn part(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
    let end = offset.saturating_add(len.min(MAX_READ_BYTES));
    bytes.get(at(offset)..at(end)).unwrap_or(&[])
}

/// Converts a duration to whole nanoseconds, saturating.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Truncates the caller's text for use in an error message.
pub fn quoted(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_QUOTED_BYTES)).unwrap_or(text)
}

/// Converts a key to the contract's spelling, with hyphens.
pub fn key(name: &str) -> String {
    name.replace('_', "-")
}

/// Rejects a name that is not a variable name in any language. The interpreter checks its own language's rules.
pub fn check_variable_name(name: &str) -> Result<(), InvalidArgument> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    if name.is_empty()
        || name.len() > MAX_VARIABLE_NAME_BYTES
        || name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(is_part)
    {
        return Err(InvalidArgument(format!(
            "`name`: `{}` is not a valid variable name; use an identifier of the script's language",
            quoted(name)
        )));
    }
    Ok(())
}

/// Rejects text that is not JSON. Does not build values, because they can take many times the size of the text.
pub fn check_json(argument: &str, text: &str) -> Result<(), InvalidArgument> {
    let wrong = |error| InvalidArgument(format!("`{argument}` is not JSON: {error}"));
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(wrong)
}

/// Rejects a path that cannot name a file of a request: absolute, with `..` or NUL, or the workspace itself.
pub fn check_file_path(path: &str) -> Result<(), InvalidArgument> {
    files::entry_path(path).map(drop).map_err(|error| refused_file(path, &error.message()))
}

/// Returns the error for a requested file that could not be written.
pub fn refused_file(path: &str, reason: &dyn Display) -> InvalidArgument {
    InvalidArgument(format!("`files`: `{}`: {reason}", quoted(path)))
}

/// Returns the message for a pattern that matches more than [`MAX_LISTED_FILES`] files.
pub fn too_many_files(count: usize) -> String {
    format!("{count} files match; the maximum for a list is {MAX_LISTED_FILES}; use a narrower pattern")
}

/// Returns the message for patterns of returned files that exceed a limit, or `None` if they do not. Every file is
/// compared with every pattern.
pub fn too_costly_patterns(patterns: &[String]) -> Option<String> {
    let bytes: usize = patterns.iter().map(String::len).sum();
    let stars = patterns.iter().map(|pattern| pattern.matches('*').count()).max().unwrap_or_default();
    let exceeds = bytes > MAX_RETURNED_PATTERN_BYTES || stars > MAX_STARS;
    exceeds.then(|| {
        format!(
            "the patterns of `return_files` are {bytes} bytes long in total and have up to {stars} `*` each; the \
             limits are {MAX_RETURNED_PATTERN_BYTES} bytes in total and {MAX_STARS} `*` each; use shorter patterns"
        )
    })
}

/// Returns the message for a new session or checkpoint that would exceed the limit `name`.
pub fn too_many_sessions(name: &str, used: u64, max: u64) -> String {
    format!(
        "`{}` would be exceeded: all sessions together need {used}; the maximum is {max}; close a session first",
        key(name)
    )
}

/// Returns the message for an invalid policy.
pub fn invalid_policy(error: &PolicyError) -> String {
    match error {
        PolicyError::Limit(LimitError { key: name, value, min, max }) => {
            format!("`limits.{}` is {value}; it must be between {min} and {max}", key(name))
        }
        PolicyError::Session(text) => key(text),
        PolicyError::Env { key, reason } => format!("`env`: `{}`: {reason}", quoted(key)),
        PolicyError::Arg { .. }
        | PolicyError::TooLarge { .. }
        | PolicyError::Syntax(_)
        | PolicyError::Unwritable(_)
        | PolicyError::Network { .. }
        | PolicyError::Tool { .. }
        | PolicyError::Mount { .. }
        | PolicyError::Package { .. } => error.to_string(),
    }
}

/// Returns the message for bytes that cannot be resumed as a session.
pub fn not_resumable<S: std::error::Error + 'static>(error: &ResumeError<S>) -> String {
    match error {
        ResumeError::TooLarge { what, key: name, bytes, max } => {
            let key = key(name);
            format!(
                "the hibernated session needs {bytes} bytes of {what}, but `limits.{key}` is {max}; raise the limit to resume"
            )
        }
        ResumeError::Limit { key: name } => {
            format!("the hibernated session exceeds `limits.{}`; raise the limit to resume", key(name))
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_stays_within_data_and_call_limit() {
        let bytes = b"0123456789";
        for (offset, len, expected) in
            [(0, 4, "0123"), (8, 4, "89"), (10, 1, ""), (11, 1, ""), (3, 0, ""), (3, u64::MAX, "3456789")]
        {
            assert_eq!(part(bytes, offset, len), expected.as_bytes(), "{offset}, {len}");
        }
        assert_eq!(part(bytes, u64::MAX, u64::MAX), b"");
    }

    #[test]
    fn variable_name_must_be_valid_in_some_language() {
        for name in ["x", "_", "$", "a1", "größe", &"x".repeat(4_096)] {
            assert_eq!(check_variable_name(name), Ok(()), "{name}");
        }
        for name in ["", "1", "a b", "a-b", "a\0", &"x".repeat(4_097)] {
            assert!(check_variable_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn invalid_json_is_reported_by_name() {
        assert_eq!(check_json("context", " [1, {\"a\": null}] "), Ok(()));
        let InvalidArgument(text) = check_json("context", "{").unwrap_err();
        assert!(text.starts_with("`context` is not JSON: "), "{text}");
    }
}
