//! A regular expression with a bound on what it costs to match.

use std::fmt;

use regex_lite::{Regex, RegexBuilder};

/// The compiled size of the smallest expressions, in bytes.
const LEAST_BYTES: usize = 1 << 10;

/// How many bytes one state of a compiled expression takes, at least.
const STATE_BYTES: usize = 32;

pub(super) struct Pattern {
    regex: Regex,
    /// The most states that each byte of a text is looked at in.
    states: u64,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.regex.as_str()).finish()
    }
}

impl Pattern {
    /// Compiles an expression that takes at most so many bytes when it is compiled.
    pub(super) fn of(text: &str, max_bytes: usize) -> Result<Self, String> {
        let compile = |bytes| RegexBuilder::new(text).size_limit(bytes).build();
        let mut bytes = LEAST_BYTES;
        loop {
            match compile(bytes.min(max_bytes)) {
                Ok(regex) => {
                    let states = u64::try_from(bytes.min(max_bytes) / STATE_BYTES).unwrap_or(u64::MAX);
                    return Ok(Self { regex, states });
                }
                // The size is not told: what cannot be compiled at all fails with the largest, too.
                Err(_) if bytes < max_bytes => bytes *= 2,
                Err(error) => return Err(format!("a regular expression cannot be used: {error}")),
            }
        }
    }

    /// The most steps that matching a text takes.
    pub(super) fn steps(&self, text: &str) -> u64 {
        (text.len() as u64 + 1).saturating_mul(self.states)
    }

    /// Whether it matches a part of a text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}
