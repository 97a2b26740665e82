//! Accessors for an execution's result, and the names of enum cases in the contract.

use std::{borrow::Cow, fmt, time::Duration};

use crate::{
    AdviceKind, Execution, Exhausted, FileError, FileKind, FuelStatus, Language, Outcome, Output, Raised, ResourceKind,
    ToolError, TrapKind,
};

impl Execution {
    /// Returns `true` if the script completed, or exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome.is_success()
    }

    /// Returns the wall-clock time without compilation. Returns zero if the provider has no clock.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

impl Outcome {
    /// Returns `true` if the script completed, or exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Completed | Self::Exited(0))
    }
}

/// Formats the outcome as one human-readable line, without the exception's traceback.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Raised(raised) => write!(f, "raised {raised}"),
            Self::Exhausted(exhausted) => exhausted.fmt(f),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Trapped(trap) => write!(f, "trapped: {trap}"),
        }
    }
}

/// Formats the exception as `TYPE: MESSAGE`, such as `ValueError: no such thing`.
impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.type_name.as_str(), self.message.as_str()) {
            ("", message) => f.write_str(message),
            (name, "") => f.write_str(name),
            (name, message) => write!(f, "{name}: {message}"),
        }
    }
}

/// Formats the resource and its limit, for example `ran out of fuel (limit 1000)`.
impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.resource {
            ResourceKind::Fuel => "",
            ResourceKind::Time => " ms",
            ResourceKind::Memory => " bytes",
        };
        write!(f, "ran out of {} (limit {}{unit})", self.resource, self.limit)
    }
}

impl Output {
    /// Decodes the retained bytes as text. Drops an incomplete character at the end of truncated output, and replaces
    /// other invalid UTF-8 with `U+FFFD`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let is_cut = self.is_truncated() || self.has_more();
        let invalid = self.bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
        let is_incomplete = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        let whole = if is_cut && is_incomplete { self.bytes.strip_suffix(invalid) } else { None };
        String::from_utf8_lossy(whole.unwrap_or(&self.bytes))
    }

    /// Returns `true` if the script wrote more than was retained.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.total_bytes > self.retained_bytes
    }

    /// Returns `true` if this value contains only a part of the retained output.
    /// [`Started::output`](crate::Started::output) reads all retained output.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.retained_bytes > self.bytes.len() as u64
    }
}

macro_rules! names {
    ($($type:ident { $($case:ident = $name:literal),* $(,)? })*) => {$(
        /// Formats the case as its name in the contract.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$case => $name),* })
            }
        }
    )*

        /// The type name, case identifier and contract name of each enum case.
        #[cfg(test)]
        const ALL: &[(&str, &str, &str)] = &[$($((stringify!($type), stringify!($case), $name)),*),*];
    };
}

names! {
    Language { Python = "python", Javascript = "javascript" }
    ResourceKind { Fuel = "fuel", Time = "time", Memory = "memory" }
    TrapKind {
        StackOverflow = "stack-overflow", Unreachable = "unreachable", OutOfBounds = "out-of-bounds", BadCall = "bad-call",
        Arithmetic = "arithmetic", BadReport = "bad-report", Other = "other",
    }
    ToolError {
        Failed = "failed", Limit = "limit", Timeout = "timeout", Unknown = "unknown", InvalidArguments = "invalid-arguments",
        Denied = "denied",
    }
    FuelStatus {
        Efficient = "efficient", Moderate = "moderate", Warning = "warning", Critical = "critical", Exhausted = "exhausted",
    }
    AdviceKind {
        Fuel = "fuel", Time = "time", Memory = "memory", CallDepth = "call-depth", Output = "output", Module = "module",
        Syntax = "syntax", TypescriptSyntax = "typescript-syntax", Path = "path", Network = "network",
        Subprocess = "subprocess", Threads = "threads", Input = "input", Environment = "environment",
    }
    FileKind { File = "file", Directory = "directory", Symlink = "symlink" }
    FileError {
        InvalidPath = "invalid-path", NotFound = "not-found", Exists = "exists", WrongKind = "wrong-kind", NoSpace = "no-space",
        Refused = "refused",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn raised(type_name: &str, message: &str) -> Outcome {
        let (type_name, message) = (type_name.into(), message.into());
        Outcome::Raised(Raised { type_name, message, traceback: "Traceback …".into(), line: Some(1) })
    }

    #[test]
    fn outcome_is_displayed_as_one_line() {
        let exhausted = |resource| Outcome::Exhausted(Exhausted { resource, limit: 9, used: 10 });
        let all = [
            (Outcome::Completed, "completed", true),
            (Outcome::Exited(0), "exited with code 0", true),
            (Outcome::Exited(3), "exited with code 3", false),
            (raised("ValueError", "no"), "raised ValueError: no", false),
            (raised("KeyboardInterrupt", ""), "raised KeyboardInterrupt", false),
            (raised("", "42"), "raised 42", false),
            (exhausted(ResourceKind::Fuel), "ran out of fuel (limit 9)", false),
            (exhausted(ResourceKind::Time), "ran out of time (limit 9 ms)", false),
            (exhausted(ResourceKind::Memory), "ran out of memory (limit 9 bytes)", false),
            (Outcome::Cancelled, "cancelled", false),
            (Outcome::Trapped(TrapKind::StackOverflow), "trapped: stack-overflow", false),
        ];
        for (outcome, line, success) in all {
            assert_eq!((outcome.to_string().as_str(), outcome.is_success()), (line, success));
        }
    }

    #[test]
    fn output_reports_dropped_bytes() {
        let output = |retained_bytes, total_bytes| Output { bytes: b"ab\xff".to_vec(), retained_bytes, total_bytes };
        assert_eq!(output(3, 3).text(), "ab\u{fffd}");
        assert_eq!((output(3, 3).is_truncated(), output(3, 3).has_more()), (false, false));
        assert_eq!((output(3, 4).is_truncated(), output(3, 4).has_more()), (true, false));
        assert_eq!((output(4, 4).is_truncated(), output(4, 4).has_more()), (false, true));
    }

    #[test]
    fn truncated_character_is_left_out_of_text() {
        let text = |bytes: &[u8], retained_bytes, total_bytes| {
            Output { bytes: bytes.to_vec(), retained_bytes, total_bytes }.text().into_owned()
        };
        assert_eq!(text(b"\xc3\xa9\xc3", 3, 4), "é", "truncated by the limit");
        assert_eq!(text(b"\xc3\xa9\xc3", 4, 4), "é", "truncated by the maximum length of a list");
        assert_eq!(text(b"\xc3\xa9\xc3", 3, 3), "é\u{fffd}", "written by the script itself");
        assert_eq!(text(b"\xffa", 2, 3), "\u{fffd}a");
        assert_eq!(text(b"\xffa\xc3", 3, 4), "\u{fffd}a", "after invalid UTF-8");
    }

    fn kebab(name: &str) -> String {
        let dashed = |c: char| if c.is_uppercase() { format!("-{}", c.to_lowercase()) } else { c.to_string() };
        name.chars().map(dashed).collect::<String>().trim_start_matches('-').to_owned()
    }

    #[test]
    fn names_match_the_contract() {
        let contract = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/wit/types.wit")).unwrap();
        for (of, case, name) in ALL {
            assert_eq!(*name, kebab(case), "{of}");
            let (_, cases) = contract.split_once(&format!("enum {} {{", kebab(of))).unwrap();
            let (cases, _) = cases.split_once('}').unwrap();
            assert!(cases.contains(&format!("        {name},\n")), "{of}: {name}");
        }
    }

    #[test]
    fn display_prints_the_contract_name() {
        assert_eq!(
            format!("{} {:>6} {}", TrapKind::BadCall, FileKind::File, ToolError::Failed),
            "bad-call   file failed"
        );
    }
}
