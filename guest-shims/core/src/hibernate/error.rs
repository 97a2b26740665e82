//! Why a session could not be made from bytes.

use glovebox_vfs::{escaped, escaped_text};
use std::convert::Infallible;

/// A session could not be made from bytes. `S`: why there is none, whatever the bytes are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError<S = Infallible> {
    /// They are something else.
    #[error("these bytes are no hibernated session; give what `Session::hibernate` or `glovebox session export` wrote")]
    NotASession,
    /// They are of another version of the format.
    #[error(
        "the hibernated session has format version {found}, and this program reads version {known}; resume it with the Glovebox that wrote it"
    )]
    Version {
        /// Theirs.
        found: u16,
        /// Ours.
        known: u16,
    },
    /// They are not what was written, or never were a session.
    #[error("the hibernated session is damaged: {reason}; use another copy of it", reason = escaped_text(.reason))]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// A key is demanded and they were sealed without one.
    #[error(
        "the hibernated session is not authenticated, and this program has a session key; seal it with the key where it was made, or resume it without a key if you trust where it comes from"
    )]
    Unauthenticated,
    /// They were sealed with a key and none was given.
    #[error("the hibernated session is sealed with a key; give that session key")]
    KeyMissing,
    /// They were changed, or sealed with another key or for another session.
    #[error(
        "the hibernated session is not authentic: it was changed, or sealed with another key or under another name; nothing of it was used"
    )]
    NotAuthentic,
    /// They belong to another image.
    #[error(
        "the hibernated session belongs to the image {found} of `{found_runtime}`, and this sandbox runs {expected} of `{runtime}`; resume it with the same version of Glovebox and that runtime", found = escaped_text(.found), found_runtime = escaped(.found_runtime), runtime = escaped(.runtime)
    )]
    Image {
        /// The identity that they name.
        found: String,
        /// The runtime that they name.
        found_runtime: String,
        /// The sandbox's image.
        expected: String,
        /// The sandbox's runtime.
        runtime: String,
    },
    /// They claim more than the sandbox's policy allows.
    #[error("the hibernated session takes {bytes} bytes of {what}; `limits.{key}` allows {most}; raise it to resume")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The limit.
        key: &'static str,
        /// What they take.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// Their files or descriptors cannot be in a sandbox of this policy.
    #[error(
        "the hibernated session's files do not fit this sandbox: {reason}; resume it with the policy it was made with", reason = escaped_text(.reason)
    )]
    Files {
        /// Why.
        reason: String,
    },
    /// No session could be made at all.
    #[error(transparent)]
    Session(#[from] S),
}

impl ResumeError {
    /// The same, where a session may also be refused for other reasons than its bytes.
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
