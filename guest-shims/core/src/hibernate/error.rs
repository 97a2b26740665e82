//! Errors of restoring a session from bytes.

use glovebox_vfs::{escaped, escaped_text};
use std::convert::Infallible;

/// A session cannot be restored from bytes. `S` holds failures that do not depend on the bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError<S = Infallible> {
    /// The bytes are not a hibernated session.
    #[error(
        "these bytes are not a hibernated session; use the output of `Session::hibernate` or `glovebox session export`"
    )]
    NotASession,
    /// The bytes have another version of the format.
    #[error(
        "the hibernated session has format version {found}, and this program reads version {known}; resume it with the Glovebox that wrote it"
    )]
    Version {
        /// The version of the bytes.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// The bytes were damaged, or never were a session.
    #[error("the hibernated session is damaged: {reason}; use another copy of it", reason = escaped_text(.reason))]
    Damaged {
        /// A description of the damage.
        reason: String,
    },
    /// A key is required and the bytes were sealed without one.
    #[error(
        "the hibernated session is not authenticated, and this program has a session key; seal it with the key where it was made, or resume it without a key if you trust its origin"
    )]
    Unauthenticated,
    /// The bytes were sealed with a key, and the caller gave none.
    #[error("the hibernated session is sealed with a key; provide the session key")]
    KeyMissing,
    /// The bytes were changed, or sealed with another key or for another session.
    #[error(
        "the hibernated session is not authentic: it was changed, or sealed with another key or under another name; nothing of it was used"
    )]
    NotAuthentic,
    /// The bytes belong to another image.
    #[error(
        "the hibernated session belongs to the image {found} of `{found_runtime}`, and this sandbox runs {expected} of `{runtime}`; resume it with the same version of Glovebox and that runtime", found = escaped_text(.found), found_runtime = escaped(.found_runtime), runtime = escaped(.runtime)
    )]
    Image {
        /// The image named in the bytes.
        found: String,
        /// The runtime named in the bytes.
        found_runtime: String,
        /// The sandbox's image.
        expected: String,
        /// The sandbox's runtime.
        runtime: String,
    },
    /// The bytes claim more than the sandbox's policy allows.
    #[error("the hibernated session takes {bytes} bytes of {what}; `limits.{key}` allows {most}; raise it to resume")]
    TooLarge {
        /// The resource, in words.
        what: &'static str,
        /// The name of the limit.
        key: &'static str,
        /// The size claimed by the bytes.
        bytes: u64,
        /// The value of the limit.
        most: u64,
    },
    /// The policy does not allow the files or descriptors.
    #[error(
        "the hibernated session's files do not fit this sandbox: {reason}; resume it with the policy it was made with", reason = escaped_text(.reason)
    )]
    Files {
        /// The reason, in words.
        reason: String,
    },
    /// The session could not be created.
    #[error(transparent)]
    Session(#[from] S),
}

impl ResumeError {
    /// Converts the error to a type with further reasons.
    #[must_use]
    pub fn widened<S>(self) -> ResumeError<S> {
        match self {
            Self::NotASession => ResumeError::NotASession,
            Self::Version { found, known } => ResumeError::Version { found, known },
            Self::Damaged { reason } => ResumeError::Damaged { reason },
            Self::Unauthenticated => ResumeError::Unauthenticated,
            Self::KeyMissing => ResumeError::KeyMissing,
            Self::NotAuthentic => ResumeError::NotAuthentic,
            Self::Image { found, found_runtime, expected, runtime } => {
                ResumeError::Image { found, found_runtime, expected, runtime }
            }
            Self::TooLarge { what, key, bytes, most } => ResumeError::TooLarge { what, key, bytes, most },
            Self::Files { reason } => ResumeError::Files { reason },
            Self::Session(never) => match never {},
        }
    }
}
