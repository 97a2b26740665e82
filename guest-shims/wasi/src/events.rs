//! Security events for operators.

use std::fmt;

use crate::Stream;

/// Maximum length of a path in an event, in bytes.
const QUOTED_BYTES: usize = 256;

/// A refused attempt of the guest. Events of one kind are counted, so their number is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityEvent {
    /// Paths that would have left their preopened directory.
    PathEscape {
        /// The number of attempts.
        count: u64,
        /// The first such path, truncated to 256 bytes.
        first_path: String,
    },
    /// Writes, or new files and directories, refused by the workspace's quota or the memory limit.
    QuotaExceeded {
        /// The number of attempts.
        count: u64,
    },
    /// Descriptors refused because too many were open.
    OpenFileLimit {
        /// The number of attempts.
        count: u64,
    },
    /// Output beyond its cap.
    OutputTruncated {
        /// The output stream.
        stream: Stream,
        /// The total that the guest wrote.
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
            // Quoted and escaped: the path is the guest's, and logs are read line by line.
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

/// Counts since the last time they were taken. Each stream has its own count.
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
