//! Errors of the sandbox's functions.

use std::{error, fmt, io};

use crate::{
    FileError, FileFailure,
    bindings::glovebox::sandbox::types::{SandboxError, TooLarge},
};

/// A failure of the caller or the provider. Nothing was executed or changed, with two exceptions:
/// [`Variable`](Self::Variable) reports a failure of code in the guest, and [`Started::step`](crate::Started::step) can
/// also fail after the script has run.
///
/// The messages come from the provider and explain the cause. In addition to the errors listed for a function, every
/// function may return [`Unavailable`](Self::Unavailable). Every function that executes a script or allocates memory
/// may return [`QuotaExceeded`](Self::QuotaExceeded).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No runtime has this name, or supports this language.
    UnknownRuntime(String),
    /// The policy is invalid, or requests more than the provider grants. The message contains the key and its allowed
    /// values.
    InvalidPolicy(String),
    /// An argument is invalid: the name of a script or a variable, JSON text, or the definition or the answer of a
    /// tool.
    InvalidArgument(String),
    /// The source exceeds `limits.source-bytes`.
    SourceTooLarge {
        /// The size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Standard input, or a variable's JSON text, exceeds `limits.stdin-bytes`.
    StdinTooLarge {
        /// The size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A new session or checkpoint would exceed a limit.
    TooManySessions(String),
    /// The call would exceed the provider's quota for the whole component. Dropping handles may free part of the quota.
    QuotaExceeded(String),
    /// The session has ended, because it was closed, its guest exited, or its guest was unwound without a checkpoint to
    /// restore.
    SessionEnded(String),
    /// An execution in the session, or the execution whose files were requested, has not ended yet. Also returned if an
    /// execution cannot be suspended at the moment.
    SessionBusy(String),
    /// The session has no checkpoint with this ID, or no checkpoint that `undo` can restore.
    NoCheckpoint(String),
    /// The guest's code failed to read or set a variable. If the guest was unwound, the session was rolled back.
    Variable(String),
    /// A file operation failed.
    File(FileFailure),
    /// The bytes are not a hibernated session or a suspended execution, or this provider, runtime and policy cannot
    /// resume it.
    NotResumable(String),
    /// The provider does not support the operation. [`info`](crate::info) lists its features.
    Unsupported(String),
    /// The provider or its host failed, for example because no instance is free. The message contains the reason. A
    /// later retry may succeed.
    Unavailable(String),
}

/// Defines the names, messages and conversions of the errors. Each listed error contains a message.
macro_rules! conversions {
    ($($case:ident = $name:literal),* $(,)?) => {
        impl Error {
            /// Returns the error's name in the contract, such as `quota-exceeded`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$case(_) => $name,)*
                    Self::SourceTooLarge { .. } => "source-too-large",
                    Self::StdinTooLarge { .. } => "stdin-too-large",
                    Self::File(_) => "file",
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (what, limit_name, bytes, limit) = match self {
                    $(Self::$case(text) => return write!(f, "{}: {text}", self.name()),)*
                    Self::File(failure) => return write!(f, "`{}`: {}", failure.path, failure.message),
                    Self::SourceTooLarge { bytes, limit } => ("the source", "source-bytes", bytes, limit),
                    Self::StdinTooLarge { bytes, limit } => ("standard input", "stdin-bytes", bytes, limit),
                };
                write!(
                    f,
                    "{what} is {bytes} bytes; the maximum `limits.{limit_name}` is {limit}; shorten it or raise the limit"
                )
            }
        }

        impl From<SandboxError> for Error {
            fn from(error: SandboxError) -> Self {
                match error {
                    $(SandboxError::$case(text) => Self::$case(text),)*
                    SandboxError::SourceTooLarge(TooLarge { bytes, limit }) => Self::SourceTooLarge { bytes, limit },
                    SandboxError::StdinTooLarge(TooLarge { bytes, limit }) => Self::StdinTooLarge { bytes, limit },
                    SandboxError::File(failure) => Self::File(failure),
                }
            }
        }
    };
}

conversions! {
    UnknownRuntime = "unknown-runtime", InvalidPolicy = "invalid-policy", InvalidArgument = "invalid-argument",
    TooManySessions = "too-many-sessions", QuotaExceeded = "quota-exceeded", SessionEnded = "session-ended",
    SessionBusy = "session-busy", NoCheckpoint = "no-checkpoint", Variable = "variable",
    NotResumable = "not-resumable", Unsupported = "unsupported", Unavailable = "unavailable",
}

impl error::Error for Error {}

/// Converts errors for readers and writers. A file error becomes the corresponding kind among `NotFound`,
/// `AlreadyExists`, `InvalidInput` and `StorageFull`. [`Error::QuotaExceeded`] becomes `StorageFull`. All other errors
/// become `Other`.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::File(failure) => match failure.kind {
                FileError::NotFound => io::ErrorKind::NotFound,
                FileError::Exists => io::ErrorKind::AlreadyExists,
                FileError::InvalidPath => io::ErrorKind::InvalidInput,
                FileError::NoSpace => io::ErrorKind::StorageFull,
                FileError::WrongKind | FileError::Refused => io::ErrorKind::Other,
            },
            Error::QuotaExceeded(_) => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_display_their_kind_and_text() {
        let all = [
            (SandboxError::InvalidPolicy("`limits.fuel` is 0".into()), "invalid-policy: `limits.fuel` is 0"),
            (
                SandboxError::SourceTooLarge(TooLarge { bytes: 5, limit: 4 }),
                "the source is 5 bytes; the maximum `limits.source-bytes` is 4; shorten it or raise the limit",
            ),
            (
                SandboxError::StdinTooLarge(TooLarge { bytes: 5, limit: 4 }),
                "standard input is 5 bytes; the maximum `limits.stdin-bytes` is 4; shorten it or raise the limit",
            ),
            (SandboxError::File(failure(FileError::NotFound)), "`a/b`: nothing is there"),
        ];
        for (raw, text) in all {
            assert_eq!(Error::from(raw).to_string(), text);
        }
    }

    #[test]
    fn io_errors_map_to_kinds() {
        let kinds = [
            (FileError::NotFound, io::ErrorKind::NotFound),
            (FileError::Exists, io::ErrorKind::AlreadyExists),
            (FileError::InvalidPath, io::ErrorKind::InvalidInput),
            (FileError::NoSpace, io::ErrorKind::StorageFull),
            (FileError::WrongKind, io::ErrorKind::Other),
            (FileError::Refused, io::ErrorKind::Other),
        ];
        for (file, kind) in kinds {
            let error = io::Error::from(Error::File(failure(file)));
            assert_eq!(error.kind(), kind);
            assert_eq!(error.to_string(), "`a/b`: nothing is there");
        }
        assert_eq!(io::Error::from(Error::QuotaExceeded(String::new())).kind(), io::ErrorKind::StorageFull);
    }

    fn failure(kind: FileError) -> FileFailure {
        FileFailure { kind, path: "a/b".into(), message: "nothing is there".into() }
    }
}
