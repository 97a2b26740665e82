//! Why a session cannot be restored from bytes.

use glovebox_vfs::{escaped, escaped_text};
use std::convert::Infallible;

/// A session cannot be restored from bytes. `S`: failures that do not depend on the bytes.
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
        /// What is wrong.
        reason: String,
    },
    /// A key is required and the bytes were sealed without one.
    #[error(
        "the hibernated session is not authenticated, and this program has a session key; seal it with the key where it was made, or resume it without a key if you trust where it comes from"
    )]
    Unauthenticated,
    /// The bytes were sealed with a key and none was given.
    #[error("the hibernated session is sealed with a key; give that session key")]
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
        /// The image that they name.
        found: String,
        /// The runtime that they name.
        found_runtime: String,
        /// The sandbox's image.
        expected: String,
        /// The sandbox's runtime.
        runtime: String,
    },
    /// The bytes claim more than the sandbox's policy allows.
    #[error("the hibernated session takes {bytes} bytes of {what}; `limits.{key}` allows {most}; raise it to resume")]
    TooLarge {
        /// The resource.
        what: &'static str,
        /// The limit.
        key: &'static str,
        /// The size that they claim.
        bytes: u64,
        /// The maximum.
        most: u64,
    },
    /// The files or descriptors are not allowed by this policy.
    #[error(
        "the hibernated session's files do not fit this sandbox: {reason}; resume it with the policy it was made with", reason = escaped_text(.reason)
    )]
    Files {
        /// Why.
        reason: String,
    },
    /// The session could not be created.
    #[error(transparent)]
    Session(#[from] S),
}

impl ResumeError {
    /// Widens the error to a type with further reasons.
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
