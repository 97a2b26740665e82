//! Patterns of file names.

use globset::{ErrorKind, GlobBuilder, GlobSet, GlobSetBuilder};

use super::{FileError, path};

/// The longest pattern, as the longest path.
const PATTERN_BYTES_MOST: usize = 4_096;

/// How deeply alternatives stand in one another: each level is one of the expression that the pattern becomes.
const PATTERN_DEPTH_MOST: usize = 32;

/// A pattern of paths.
pub(super) struct Pattern {
    pub(super) matcher: GlobSet,
    /// The directories at its beginning that are names and nothing else: only below them is looked. A host directory is
    /// listed when first looked at, and may be large.
    pub(super) prefix: Vec<String>,
    /// How many names below the prefix it can match.
    pub(super) depth_most: usize,
}

impl Pattern {
    pub(super) fn parse(pattern: &str) -> Result<Self, FileError> {
        let wrong = |reason: String| FileError::Pattern { pattern: pattern.chars().take(100).collect(), reason };
        if pattern.len() > PATTERN_BYTES_MOST {
            return Err(wrong(format!("it is over {PATTERN_BYTES_MOST} bytes long; shorten it")));
        }
        if let Some(reason) = path::fault(pattern) {
            return Err(wrong(format!("it {reason}")));
        }
        let names: Vec<&str> = pattern.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let cleaned = names.join("/");
        if depth(&cleaned) > PATTERN_DEPTH_MOST {
            return Err(wrong(format!("its alternatives are over {PATTERN_DEPTH_MOST} levels deep; flatten them")));
        }
        let glob = GlobBuilder::new(&cleaned).literal_separator(true).backslash_escape(true).build();
        // A set of one: a matcher of its own would panic where its expression does not compile.
        let matcher = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build()).map_err(|error| {
            wrong(match error.kind() {
                // What is wrong with the expression is said in terms of the expression.
                ErrorKind::Regex(_) => "it is too large; simplify it".to_owned(),
                kind => kind.to_string(),
            })
        })?;
        let dirs = names.split_last().map_or(&[][..], |(_, dirs)| dirs);
        let is_name = |name: &&&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let prefix: Vec<String> = dirs.iter().take_while(is_name).map(|name| (*name).to_owned()).collect();
        let depth_most = if pattern.contains("**") { usize::MAX } else { names.len() - prefix.len() };
        Ok(Self { matcher, prefix, depth_most })
    }
}

/// How deeply the alternatives of a pattern stand in one another.
fn depth(pattern: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => {
                chars.next_if(|c| matches!(c, '!' | '^'));
                // The first one may be a `]`, which then stands for itself.
                chars.next();
                chars.by_ref().find(|c| *c == ']');
            }
            '{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
