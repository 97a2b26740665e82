//! Builders for policies and requests.

use std::time::Duration;

use crate::{Checkpoints, Clock, Entropy, InputFile, Limits, OnUnwind, Policy, Request, SessionPolicy, SourceKind};

/// Defines a builder-style setter for each field; the field's doc comment documents the setter. Also implements
/// `Default` with all fields unset, so that the provider's defaults apply. Fields after `other` have no setter.
macro_rules! setters {
    ($of:ident { $($(#[$doc:meta])* $name:ident: $type:ty),* $(,)? } $(other $($other:ident),*)?) => {
        /// The default leaves all fields unset, so that the provider's defaults apply.
        impl Default for $of {
            fn default() -> Self {
                Self { $($name: None,)* $($($other: None),*)? }
            }
        }

        impl $of {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Self {
                    self.$name = Some($name);
                    self
                }
            )*

            /// Checks that each setter sets only its own field.
            #[cfg(test)]
            fn try_setters() {$(
                let mut set = Self::default().$name(tests::Sample::sample());
                assert_eq!(set.$name.take(), Some(tests::Sample::sample()), stringify!($name));
                assert_eq!(set, Self::default(), stringify!($name));
            )*}
        }
    };
}

setters! {
    Limits {
        /// Sets the maximum fuel, about one unit per WebAssembly operator. Minimum: 1. Default: 400,000,000,000, which
        /// is more than a script can use within the default timeout.
        fuel: u64,
        /// Sets the fuel reserved for the soft limit. Maximum: a tenth of `fuel`. Default: 100,000,000.
        fuel_reserve: u64,
        /// Sets the maximum wall-clock time in milliseconds, including waits. Minimum: 1. Default: 10,000.
        timeout_ms: u64,
        /// Sets the time reserved for the soft limit, in milliseconds. Maximum: a tenth of `timeout_ms`. Default: 100.
        timeout_reserve_ms: u64,
        /// Sets the maximum size of linear memory, files and captured output together, in bytes. Default: 134,217,728.
        memory_bytes: u64,
        /// Sets the maximum amount of standard output to retain, in bytes. Default: 2,000,000.
        stdout_bytes: u64,
        /// Sets the maximum amount of standard error to retain, in bytes. Default: 1,000,000.
        stderr_bytes: u64,
        /// Sets the maximum total size of displays to retain, in bytes, including all their forms. Default: 8,388,608.
        display_bytes: u64,
        /// Sets the maximum size of the source text, in bytes. A larger source causes
        /// [`Error::SourceTooLarge`](crate::Error::SourceTooLarge). Default: 1,048,576.
        source_bytes: u64,
        /// Sets the maximum size of the standard input, in bytes. Larger input causes
        /// [`Error::StdinTooLarge`](crate::Error::StdinTooLarge). Default: 16,777,216.
        stdin_bytes: u64,
        /// Sets the maximum total size of files, in bytes, including names and directory entries. Default: 67,108,864.
        workspace_bytes: u64,
        /// Sets the maximum number of files, directories and links. Default: 10,000.
        workspace_inodes: u64,
        /// Sets the maximum number of open descriptors. Default: 256.
        open_files: u32,
        /// Sets the maximum number of tool calls in one execution. Default: 100.
        tool_calls: u64,
        /// Sets the maximum number of concurrent tool calls. Default: 16.
        tool_calls_at_once: u32,
        /// Sets the timeout of a tool call, in milliseconds. Default: 10,000.
        tool_timeout_ms: u64,
        /// Sets the maximum size of a tool call's arguments, and of its result, in bytes. Default: 1,048,576.
        tool_bytes: u64,
        /// Sets the maximum total size of arguments and results in the record of tool calls, in bytes. Default:
        /// 1,048,576.
        tool_record_bytes: u64,
        /// Sets the maximum size of the file that [`Policy::auto_persist_globals`] writes, in bytes. Default: 1,048,576.
        persisted_bytes: u64,
        /// Sets the maximum number of concurrent sessions. Default: 1,000.
        session_count: u32,
        /// Sets the maximum total size charged for all sessions, in bytes. Default: 4,294,967,296.
        session_total_bytes: u64,
    }
}

setters! {
    Policy {
        /// Sets the limits on a script's resources. The provider's defaults apply to omitted limits.
        limits: Limits,
        /// Sets the clock that scripts see. Default: the clock of [`default_policy`](crate::default_policy).
        clock: Clock,
        /// Sets the source of the random numbers that scripts see. Default: the source of
        /// [`default_policy`](crate::default_policy).
        entropy: Entropy,
        /// Makes `/app/site-packages` available to Python scripts. Default: true.
        inject_setup: bool,
        /// Makes executions outside a session load their globals from the workspace, and save them there afterwards.
        /// Default: false.
        auto_persist_globals: bool,
        /// Sets the checkpoints of a session, and the action after its guest is unwound.
        session: SessionPolicy,
    } other args, env
}

impl Policy {
    /// Adds an argument after the script's name. Default: none.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.get_or_insert_default().push(arg.into());
        self
    }

    /// Adds an environment variable. Default: none.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.get_or_insert_default().push((name.into(), value.into()));
        self
    }

    /// Makes executions reproducible, with a fixed clock in nanoseconds since 1970, and random numbers from a seed. The
    /// same input then uses exactly the same fuel. Fuel has no soft limit, and the random numbers are predictable.
    #[must_use]
    pub fn reproducible(self, clock_ns: u64, seed: u64) -> Self {
        self.clock(Clock::Fixed(clock_ns)).entropy(Entropy::Seeded(seed))
    }
}

setters! {
    SessionPolicy {
        /// Sets the schedule of automatic checkpoints. Default: [`Checkpoints::Auto`].
        checkpoints: Checkpoints,
        /// Sets the maximum private memory, in bytes, up to which [`Checkpoints::Auto`] takes a checkpoint before every
        /// execution. Default: 4,194,304.
        checkpoint_auto_bytes: u64,
        /// Sets the maximum number of requested checkpoints to retain. Minimum: 1. Default: 8.
        checkpoints_retained: u32,
        /// Sets the action after a session's guest is unwound. Default: [`OnUnwind::RollBack`].
        on_unwind: OnUnwind,
    }
}

impl Request {
    /// Creates a request for a source, with defaults for everything else.
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

    /// Sets the file name for tracebacks, of at most 4,096 bytes, without NUL. Default: `<sandbox>`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the parse mode of JavaScript source. Default: [`SourceKind::Detect`].
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

    /// Sets the global variable `context` from JSON text, for an execution outside a session. Default: the variable
    /// does not exist.
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

    /// Sets the time after which the execution is cancelled, rounded up to whole milliseconds. Default: no deadline.
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

/// Converts a duration to milliseconds, rounded up, so that a short duration does not become zero.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that differs from the default, for the tests of the setters.
    pub(super) trait Sample {
        fn sample() -> Self;
    }

    macro_rules! samples {
        ($($type:ty: $value:expr),* $(,)?) => {$(
            impl Sample for $type {
                fn sample() -> Self {
                    $value
                }
            }
        )*};
    }

    samples! {
        bool: true,
        u32: 3,
        u64: 4,
        Limits: Limits::default().fuel(5),
        Clock: Clock::Fixed(6),
        Entropy: Entropy::Seeded(7),
        SessionPolicy: SessionPolicy::default().checkpoints_retained(8),
        Checkpoints: Checkpoints::Every(9),
        OnUnwind: OnUnwind::End,
    }

    #[test]
    fn setters_change_their_own_field() {
        Limits::try_setters();
        Policy::try_setters();
        SessionPolicy::try_setters();
    }

    #[test]
    fn arguments_and_variables_accumulate() {
        let policy = Policy::default().arg("a").arg("b").env("K", "v").env("L", "w").reproducible(5, 6);
        assert_eq!(policy.args, Some(vec!["a".into(), "b".into()]));
        assert_eq!(policy.env, Some(vec![("K".into(), "v".into()), ("L".into(), "w".into())]));
        assert_eq!((policy.clock, policy.entropy), (Some(Clock::Fixed(5)), Some(Entropy::Seeded(6))));
        assert_eq!(Policy::default().args, None);
    }

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
    fn unset_request_fields_stay_empty() {
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
