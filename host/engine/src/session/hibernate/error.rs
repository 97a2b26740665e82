//! Errors of hibernating and resuming a session.

use std::io;

use crate::ExecuteError;

/// A session could not be hibernated. It continues unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HibernateError {
    /// The session has ended, or does not answer.
    #[error(transparent)]
    Session(#[from] ExecuteError),
    /// The bytes could not be written.
    #[error("the hibernated session could not be written")]
    Write(#[source] io::Error),
}

/// A session could not be restored from bytes.
pub type ResumeError = glovebox_core::hibernate::ResumeError<ExecuteError>;
