//! What went wrong, as components are told.

use wasmtime::component::ResourceTableError;

use super::{
    SandboxCtx,
    wit::types::{self, FileError, FileFailure, SandboxError, TooLarge},
};
use crate::{BuildError, ExecuteError, FilesError, HibernateError, PolicyError, ResumeError, VfsError};

/// An error that is told, or a trap for what no sound component does.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub enum Failure {
    Told(SandboxError),
    Trap(wasmtime::Error),
}

impl Failure {
    /// A trap, for a function that has no error to give.
    pub(super) fn into_trap(self) -> wasmtime::Error {
        match self {
            Self::Told(error) => wasmtime::Error::msg(format!("{error:?}")),
            Self::Trap(trap) => trap,
        }
    }
}

impl From<wasmtime::Error> for Failure {
    fn from(trap: wasmtime::Error) -> Self {
        Self::Trap(trap)
    }
}

impl From<ResourceTableError> for Failure {
    fn from(error: ResourceTableError) -> Self {
        Self::Trap(error.into())
    }
}

impl<E> From<E> for Failure
where
    SandboxError: From<E>,
{
    fn from(error: E) -> Self {
        Self::Told(error.into())
    }
}

impl types::Host for SandboxCtx {
    fn convert_sandbox_error(&mut self, failure: Failure) -> wasmtime::Result<SandboxError> {
        match failure {
            Failure::Told(error) => Ok(error),
            Failure::Trap(trap) => Err(trap),
        }
    }
}

impl From<ExecuteError> for SandboxError {
    fn from(error: ExecuteError) -> Self {
        let text = error.to_string();
        match error {
            ExecuteError::SourceTooLarge { bytes, most } => SandboxError::SourceTooLarge(TooLarge { bytes, most }),
            ExecuteError::StdinTooLarge { bytes, most } | ExecuteError::ValueTooLarge { bytes, most, .. } => {
                SandboxError::StdinTooLarge(TooLarge { bytes, most })
            }
            ExecuteError::Name(_) | ExecuteError::SessionId { .. } => SandboxError::InvalidArgument(text),
            ExecuteError::SessionEnded { .. } => SandboxError::SessionEnded(text),
            ExecuteError::SessionBusy { .. } | ExecuteError::WorkspaceBusy => SandboxError::SessionBusy(text),
            ExecuteError::NoCheckpoint { .. } => SandboxError::NoCheckpoint(text),
            ExecuteError::Variable { .. } => SandboxError::Variable(text),
            ExecuteError::TooManySessions { .. } => SandboxError::TooManySessions(text),
            ExecuteError::NotPrepared { .. } => SandboxError::Unsupported(text),
            ExecuteError::Instantiate { .. }
            | ExecuteError::System { .. }
            | ExecuteError::Mount(_)
            | ExecuteError::Commit { .. }
            | ExecuteError::OtherWorkspace { .. }
            | ExecuteError::ForkWorkspace
            | ExecuteError::Driver(_) => SandboxError::Unavailable(text),
        }
    }
}

impl From<PolicyError> for SandboxError {
    fn from(error: PolicyError) -> Self {
        Self::InvalidPolicy(error.to_string())
    }
}

impl From<BuildError> for SandboxError {
    fn from(error: BuildError) -> Self {
        let text = error.to_string();
        match error {
            BuildError::Policy(error) => return error.into(),
            BuildError::Memory { .. } => SandboxError::InvalidPolicy(text),
            BuildError::Tool(_) => SandboxError::InvalidArgument(text),
            BuildError::Runtime(_) | BuildError::Language { .. } => SandboxError::UnknownRuntime(text),
            BuildError::Mount(_) | BuildError::File { .. } => SandboxError::Unavailable(text),
        }
    }
}

impl From<HibernateError> for SandboxError {
    fn from(error: HibernateError) -> Self {
        match error {
            HibernateError::Session(error) => error.into(),
            HibernateError::Write(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<ResumeError> for SandboxError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Session(error) => error.into(),
            error => Self::NotResumable(error.to_string()),
        }
    }
}

/// For `map_err`: an operation on files was refused; the path is told as it was given.
pub(super) fn refused(path: &str) -> impl FnOnce(FilesError) -> Failure + use<'_> {
    move |error| {
        let kind = match &error {
            FilesError::Path { .. } | FilesError::Pattern { .. } => FileError::InvalidPath,
            FilesError::Exists { .. } => FileError::Exists,
            FilesError::Refused { source, .. } => refusal(source),
            FilesError::Session(_) => FileError::Refused,
            _ => FileError::Refused,
        };
        if let FilesError::Session(error) = error {
            return (*error).into();
        }
        let message = error.to_string();
        SandboxError::File(FileFailure { kind, path: path.to_owned(), message }).into()
    }
}

fn refusal(error: &VfsError) -> FileError {
    match error {
        VfsError::NotFound => FileError::NotFound,
        VfsError::AlreadyExists => FileError::Exists,
        VfsError::NotADirectory | VfsError::IsADirectory | VfsError::NotEmpty => FileError::WrongKind,
        VfsError::NoSpace => FileError::NoSpace,
        _ => FileError::Refused,
    }
}
