//! Checks of a request against its limits, before anything runs.

use crate::Limits;
use glovebox_vfs::escaped;

/// Maximum length of a script's name in bytes, as for any path.
const MAX_NAME_BYTES: usize = 4096;

/// A request that is invalid or exceeds its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The source exceeds `limits.source_bytes`.
    #[error("the source is {bytes} bytes; `limits.source_bytes` is {most}")]
    SourceTooLarge {
        /// The size of the source.
        bytes: u64,
        /// The value of the limit.
        most: u64,
    },
    /// The standard input exceeds `limits.stdin_bytes`.
    #[error("standard input is {bytes} bytes; `limits.stdin_bytes` is {most}")]
    StdinTooLarge {
        /// The size of the input.
        bytes: u64,
        /// The value of the limit.
        most: u64,
    },
    /// The script's name contains a NUL byte or is too long. Holds the beginning of the name.
    #[error("the script's name `{name}` cannot be used; it must be at most 4096 bytes without NUL", name = escaped(.0))]
    Name(String),
}

/// Checks a request against the limits.
///
/// # Errors
/// The source or the input is too large, or the name is invalid.
pub fn check_request(limits: &Limits, source: &str, name: &str, stdin: &[u8]) -> Result<(), RequestError> {
    let (source, stdin) = (source.len() as u64, stdin.len() as u64);
    if source > limits.source_bytes {
        return Err(RequestError::SourceTooLarge { bytes: source, most: limits.source_bytes });
    }
    if stdin > limits.stdin_bytes {
        return Err(RequestError::StdinTooLarge { bytes: stdin, most: limits.stdin_bytes });
    }
    if name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(RequestError::Name(name.chars().take(100).collect()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_has_bounds() {
        let limits = Limits { source_bytes: 2, stdin_bytes: 3, ..Limits::default() };
        for (source, fits) in [("", true), ("12", true), ("123", false)] {
            assert_eq!(check_request(&limits, source, "", b"").is_ok(), fits, "{source}");
        }
        assert_eq!(check_request(&limits, "123", "", b""), Err(RequestError::SourceTooLarge { bytes: 3, most: 2 }));
        assert_eq!(check_request(&limits, "", "", b"123"), Ok(()));
        assert_eq!(check_request(&limits, "", "", b"1234"), Err(RequestError::StdinTooLarge { bytes: 4, most: 3 }));
        for (name, fits) in [("n".repeat(4095), true), ("n".repeat(4096), true), ("n".repeat(4097), false)] {
            assert_eq!(check_request(&limits, "", &name, b"").is_ok(), fits, "{}", name.len());
        }
        assert_eq!(check_request(&limits, "", "a\0b", b""), Err(RequestError::Name("a\0b".into())));
    }
}
