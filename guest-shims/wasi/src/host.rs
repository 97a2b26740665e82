//! The interface that embedders implement, the failure of a call, and security events for operators.

use std::fmt;

use crate::Errno;

/// An output stream of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output, descriptor 1.
    Stdout,
    /// Standard error, descriptor 2.
    Stderr,
}

/// The reason for unwinding a guest. An unwound guest is never entered again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The guest called `proc_exit` with this code.
    Exit(i32),
    /// The guest reached the point where it is parked for a snapshot (only during preparation).
    Parked,
    /// Fuel is exhausted.
    OutOfFuel,
    /// The wall-clock limit is exceeded.
    Deadline,
    /// The embedder cancelled the execution.
    Cancelled,
    /// The embedder's own reason, as text.
    Trap(String),
}

/// An access outside the guest's linear memory. The guest receives `EFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The guest's memory and environment, which the embedder passes to each call.
pub trait Host {
    /// Returns the size of the linear memory in bytes.
    fn memory_len(&self) -> u64;

    /// Reads guest memory. Fails if the range is not completely inside the memory.
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault>;

    /// Writes guest memory. Fails if the range is not completely inside the memory.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault>;

    /// Deducts fuel for work on the guest's behalf. Called before the work, except for file system work, whose amount
    /// is known only afterwards.
    fn charge(&mut self, fuel: u64) -> Result<(), Stop>;

    /// Returns the real time in nanoseconds since 1970. Only called with [`Clock::Host`](crate::Clock::Host).
    fn realtime_ns(&mut self) -> u64;

    /// Returns the nanoseconds since this instance was created. Only called with [`Clock::Host`](crate::Clock::Host).
    fn monotonic_ns(&mut self) -> u64;

    /// Waits for `duration` nanoseconds. Must be cancellable, and must end with [`Stop::Deadline`] no later than the
    /// deadline, regardless of the duration.
    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop>;

    /// Fills `into` with unpredictable bytes. Only called with [`Entropy::Host`](crate::Entropy::Host).
    fn fill_random(&mut self, into: &mut [u8]);

    /// Called with each block of accepted output, so that the host can stream it. Output beyond the limits is not
    /// passed on.
    fn output(&mut self, stream: Stream, bytes: &[u8]);

    /// Called with each retained message to the displays device, so that the host can stream it. Default: ignores the
    /// message.
    fn display(&mut self, message: &[u8]) {
        let _ = message;
    }

    /// Returns standard input that was not provided in advance. Called when the guest reads and no bytes remain.
    /// Returns `None` at the end of the input. Must be cancellable, and must end with [`Stop::Deadline`] no later than
    /// the deadline. Default: `None`.
    fn stdin(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }

    /// Receives a complete message that the guest wrote to the tools device. Return an error only to end the guest;
    /// answer an invalid message with a reply. Default: drops the message.
    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        let _ = message;
        Ok(())
    }

    /// Waits for the next reply to the guest's messages. Returns `None` if no reply is due, or if the timeout that the
    /// guest set has expired. The reply must already be within the guest's memory limit, because it is delivered
    /// regardless of the remaining room. Must be cancellable, and must end with [`Stop::Deadline`] no later than the
    /// deadline. Default: `None`.
    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }
}

/// An error for the guest, or a stop that unwinds the guest.
#[derive(Debug)]
pub(crate) enum CallFailure {
    Errno(Errno),
    Stop(Stop),
}

impl From<Errno> for CallFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Stop> for CallFailure {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Fault> for CallFailure {
    fn from(_: Fault) -> Self {
        Self::Errno(Errno::Fault)
    }
}

pub(crate) type Call<T = ()> = Result<T, CallFailure>;

/// Maximum length of a path in an event, in bytes.
const QUOTED_BYTES: usize = 256;

/// Refused attempts by the guest. Attempts of the same kind share one event, so the number of events is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityEvent {
    /// Paths that would have left their preopened directory.
    PathEscape {
        /// The number of attempts.
        count: u64,
        /// The first of these paths, truncated to 256 bytes.
        first_path: String,
    },
    /// The guest's writes, or its new files and directories, exceeded the workspace quota or the memory limit.
    QuotaExceeded {
        /// The number of attempts.
        count: u64,
    },
    /// Descriptors that exceeded the limit on open files.
    OpenFileLimit {
        /// The number of attempts.
        count: u64,
    },
    /// Output that exceeded its limit.
    OutputTruncated {
        /// The output stream.
        stream: Stream,
        /// The total number of bytes that the guest wrote.
        total_bytes: u64,
    },
}

impl SecurityEvent {
    /// Returns the event's name in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PathEscape { .. } => "path_escape",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::OpenFileLimit { .. } => "open_file_limit",
            Self::OutputTruncated { .. } => "output_truncated",
        }
    }
}

impl fmt::Display for SecurityEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The path is quoted and escaped, because it comes from the guest and logs are read line by line.
            Self::PathEscape { count, first_path } => write!(f, "{count} refused, the first {first_path:?}"),
            Self::QuotaExceeded { count } | Self::OpenFileLimit { count } => write!(f, "{count} refused"),
            Self::OutputTruncated { stream, total_bytes } => {
                let name = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                };
                write!(f, "{name}: {total_bytes} bytes were written")
            }
        }
    }
}

/// Event counts since they were last taken. Truncated output is recorded in the capture buffer of its stream instead.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    escapes: u64,
    first_escape: Option<String>,
    quota: u64,
    open_files: u64,
}

impl EventLog {
    pub(crate) fn path_escape(&mut self, path: &str) {
        self.escapes = self.escapes.saturating_add(1);
        self.first_escape.get_or_insert_with(|| {
            let mut end = path.len().min(QUOTED_BYTES);
            while !path.is_char_boundary(end) {
                end = end.saturating_sub(1);
            }
            path.get(..end).unwrap_or_default().to_owned()
        });
    }

    pub(crate) fn quota_exceeded(&mut self) {
        self.quota = self.quota.saturating_add(1);
    }

    pub(crate) fn open_file_limit(&mut self) {
        self.open_files = self.open_files.saturating_add(1);
    }

    pub(crate) fn take(&mut self) -> Vec<SecurityEvent> {
        let log = std::mem::take(self);
        let mut events = Vec::new();
        if log.escapes > 0 {
            events.push(SecurityEvent::PathEscape {
                count: log.escapes,
                first_path: log.first_escape.unwrap_or_default(),
            });
        }
        if log.quota > 0 {
            events.push(SecurityEvent::QuotaExceeded { count: log.quota });
        }
        if log.open_files > 0 {
            events.push(SecurityEvent::OpenFileLimit { count: log.open_files });
        }
        events
    }
}
