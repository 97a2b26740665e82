//! Patterns of file names.

mod matcher;
mod parser;
#[cfg(test)]
mod tests;

use super::{FileError, path};
use matcher::Matcher;

/// Maximum length of a pattern in bytes, equal to that of a path.
const MAX_PATTERN_BYTES: usize = 4_096;

/// A pattern of paths.
pub(super) struct Pattern {
    pub(super) matcher: Matcher,
    /// The literal directories at the beginning of the pattern. Only these are searched: a host directory is listed on
    /// first access and may be large.
    pub(super) prefix: Vec<String>,
    /// The maximum number of names below the prefix that it can match.
    pub(super) max_depth: usize,
}

impl Pattern {
    pub(super) fn parse(pattern: &str) -> Result<Self, FileError> {
        let wrong = |reason: String| FileError::Pattern { pattern: pattern.chars().take(100).collect(), reason };
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(wrong(format!("it is longer than {MAX_PATTERN_BYTES} bytes; shorten it")));
        }
        if let Some(reason) = path::fault(pattern) {
            return Err(wrong(format!("it {reason}")));
        }
        let names: Vec<&str> = pattern.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let matcher = Matcher::new(parser::parse(&names.join("/")).map_err(wrong)?);
        let dirs = names.split_last().map_or(&[][..], |(_, dirs)| dirs);
        let is_name = |name: &&&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let prefix: Vec<String> = dirs.iter().take_while(is_name).map(|name| (*name).to_owned()).collect();
        let max_depth = if pattern.contains("**") { usize::MAX } else { names.len() - prefix.len() };
        Ok(Self { matcher, prefix, max_depth })
    }
}
