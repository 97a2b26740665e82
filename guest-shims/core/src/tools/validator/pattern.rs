//! A regular expression with a bounded cost of matching.

use std::fmt;

use regex_lite::{Regex, RegexBuilder};

/// Compiled size of the smallest expressions, in bytes.
const LEAST_BYTES: usize = 1 << 10;

/// Minimum size of one state of a compiled expression, in bytes.
const STATE_BYTES: usize = 32;

pub(super) struct Pattern {
    regex: Regex,
    /// Maximum number of states that each byte of a text is compared in.
    states: u64,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.regex.as_str()).finish()
    }
}

impl Pattern {
    /// Compiles an expression to at most `max_bytes`.
    pub(super) fn of(text: &str, max_bytes: usize) -> Result<Self, String> {
        let compile = |bytes| RegexBuilder::new(text).size_limit(bytes).build();
        let mut bytes = LEAST_BYTES;
        loop {
            match compile(bytes.min(max_bytes)) {
                Ok(regex) => {
                    let states = u64::try_from(bytes.min(max_bytes) / STATE_BYTES).unwrap_or(u64::MAX);
                    return Ok(Self { regex, states });
                }
                // The library does not return the size. An expression that cannot be compiled at all fails with the
                // largest size, too.
                Err(_) if bytes < max_bytes => bytes *= 2,
                Err(error) => return Err(format!("a regular expression cannot be used: {error}")),
            }
        }
    }

    /// Returns the maximum number of steps for matching a text.
    pub(super) fn steps(&self, text: &str) -> u64 {
        (text.len() as u64 + 1).saturating_mul(self.states)
    }

    /// Returns whether the expression matches a part of a text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}
