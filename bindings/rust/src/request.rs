//! Builders of requests.

use std::time::Duration;

use crate::{InputFile, Request, SourceKind};

impl Request {
    /// Creates a request for a source, with default values otherwise.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            name: None,
            kind: None,
            stdin: None,
            context: None,
            files: None,
            deadline_ms: None,
        }
    }

    /// Sets the file name in tracebacks: at most 4,096 bytes without NUL. Default: `<sandbox>`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the interpretation of JavaScript source. Default: [`SourceKind::Detect`].
    #[must_use]
    pub fn kind(mut self, kind: SourceKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the script's standard input. Default: empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Sets the global variable `context` from JSON text, for an execution outside a session. Default: no such
    /// variable.
    #[must_use]
    pub fn context(mut self, json: impl Into<String>) -> Self {
        self.context = Some(json.into());
        self
    }

    /// Adds a file to the workspace, at a path relative to `/app`, for an execution outside a session. Default: none.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.get_or_insert_default().push(InputFile { path: path.into(), bytes: bytes.into() });
        self
    }

    /// Sets the time after which the execution is cancelled, rounded up to the millisecond. Default: never.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline_ms = Some(milliseconds(deadline));
        self
    }
}

impl From<&str> for Request {
    fn from(source: &str) -> Self {
        Self::new(source)
    }
}

impl From<String> for Request {
    fn from(source: String) -> Self {
        Self::new(source)
    }
}

/// Converts to milliseconds, rounded up, so that a short time does not become zero.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_never_wrap() {
        let cases = [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(7), 7),
            (Duration::from_micros(7001), 8),
            (Duration::MAX, u64::MAX),
        ];
        for (duration, expected) in cases {
            assert_eq!(milliseconds(duration), expected);
        }
    }

    #[test]
    fn a_request_says_nothing_that_was_not_set() {
        let request = Request::from("1");
        assert_eq!((request.name, request.kind, request.stdin, request.deadline_ms), (None, None, None, None));
        let request = Request::new("1").name("a.py").stdin("in").deadline(Duration::from_secs(1));
        assert_eq!(request.name.as_deref(), Some("a.py"));
        assert_eq!((request.stdin, request.deadline_ms), (Some(b"in".to_vec()), Some(1000)));
        assert_eq!((request.context, request.files), (None, None));
        let request = Request::new("1").context("[1]").file("a", "x").file("b/c", "y");
        let file = |path: &str, text: &str| InputFile { path: path.into(), bytes: text.into() };
        assert_eq!(
            (request.context, request.files),
            (Some("[1]".into()), Some(vec![file("a", "x"), file("b/c", "y")]))
        );
    }
}
