//! What went wrong, as components are told.
//!
//! What is told names the keys of the contract and nothing of the host: what it cannot do for reasons of its own goes to the log
//! (`component.unavailable`).

use std::error::Error;

use glovebox_core::files::{FileError, FileErrorKind};
use wasmtime::component::ResourceTableError;

use super::{
    SandboxCtx,
    blob::NoRoom,
    wit::types::{self, FileFailure, SandboxError, TooLarge},
};
use crate::{
    AdvanceError, BuildError, ExecuteError, FilesError, HibernateError, LimitError, PolicyError, ResumeError,
    RuntimeError, events,
};

/// The most bytes of what a component gave that an error repeats.
const MAX_REPEATED_BYTES: usize = 4_096;

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
            Self::Told(error) => wasmtime::Error::msg(error.to_string()),
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

/// The beginning of what a component gave, to be repeated.
pub(super) fn clipped(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_REPEATED_BYTES)).unwrap_or(text)
}

/// A key of ours in the contract's spelling.
pub(super) fn key(name: &str) -> String {
    name.replace('_', "-")
}

/// What the host cannot do for reasons of its own, which are not the component's to know.
fn unavailable(what: &str, error: &(dyn Error + 'static)) -> SandboxError {
    events::unavailable(what, error);
    SandboxError::Unavailable(format!("{what}; the host's log says why"))
}

impl From<ExecuteError> for SandboxError {
    fn from(error: ExecuteError) -> Self {
        (&error).into()
    }
}

impl From<&ExecuteError> for SandboxError {
    fn from(error: &ExecuteError) -> Self {
        let text = error.to_string();
        match error {
            ExecuteError::SourceTooLarge { bytes, most } => {
                Self::SourceTooLarge(TooLarge { bytes: *bytes, most: *most })
            }
            ExecuteError::StdinTooLarge { bytes, most } | ExecuteError::ValueTooLarge { bytes, most, .. } => {
                Self::StdinTooLarge(TooLarge { bytes: *bytes, most: *most })
            }
            ExecuteError::Name(_) => Self::InvalidArgument(text),
            ExecuteError::SessionEnded { .. } => Self::SessionEnded(text),
            ExecuteError::SessionBusy { .. } => Self::SessionBusy(text),
            ExecuteError::NoCheckpoint { .. } => Self::NoCheckpoint(text),
            ExecuteError::Variable { name, reason } => Self::Variable(format!("`{}`: {reason}", clipped(name))),
            ExecuteError::TooManySessions { key: name, used, most } => Self::TooManySessions(format!(
                "`{}`: {used} of {most} would be in use; close a session first",
                key(name)
            )),
            ExecuteError::NotPrepared { name } => {
                Self::Unsupported(format!("`{name}` runs as a plain command, without sessions and validation"))
            }
            ExecuteError::Instantiate { .. } => unavailable("no instance is to be had now", error),
            ExecuteError::TypeScript { .. } => unavailable("what removes TypeScript's types is not to be had", error),
            ExecuteError::System { .. } | ExecuteError::Driver(_) => unavailable("the guest could not be run", error),
            // A component names no session, shares no workspace and has no host directories.
            ExecuteError::SessionId { .. }
            | ExecuteError::WorkspaceBusy
            | ExecuteError::OtherWorkspace { .. }
            | ExecuteError::ForkWorkspace
            | ExecuteError::Mount(_)
            | ExecuteError::Commit { .. } => unavailable("the host did not do this", error),
        }
    }
}

impl From<AdvanceError> for SandboxError {
    fn from(error: AdvanceError) -> Self {
        match error {
            AdvanceError::UnknownCall { .. } | AdvanceError::NotJson { .. } => {
                Self::InvalidArgument(format!("`answers`: {error}"))
            }
            AdvanceError::Execute(error) => (&*error).into(),
            AdvanceError::Panicked => unavailable("the guest could not be run", &error),
        }
    }
}

impl From<PolicyError> for SandboxError {
    fn from(error: PolicyError) -> Self {
        Self::InvalidPolicy(match error {
            PolicyError::Limit(LimitError { key: name, value, least, most }) => {
                format!("`limits.{}` is {value}; it must be between {least} and {most}", key(name))
            }
            PolicyError::Session(text) => key(&text),
            PolicyError::Env { key, reason } => format!("`env`: `{}`: {reason}", clipped(&key)),
            error @ (PolicyError::Arg { .. }
            | PolicyError::TooLarge { .. }
            | PolicyError::Syntax(_)
            | PolicyError::Mount { .. }) => error.to_string(),
        })
    }
}

impl From<BuildError> for SandboxError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Policy(error) => error.into(),
            BuildError::Memory { name, limit_bytes, needed_bytes } => Self::InvalidPolicy(format!(
                "`limits.memory-bytes` is {limit_bytes}; `{name}` alone takes {needed_bytes}"
            )),
            BuildError::Tool(error) => Self::InvalidArgument(error.to_string()),
            BuildError::Runtime(RuntimeError::Manifest(_)) => {
                Self::UnknownRuntime("no runtime has this name; `info` lists those that there are".into())
            }
            error @ (BuildError::Runtime(_)
            | BuildError::Mount(_)
            | BuildError::File { .. }
            | BuildError::Language { .. }
            | BuildError::NotPersisting { .. }) => unavailable("the runtime could not be loaded", &error),
        }
    }
}

impl From<HibernateError> for SandboxError {
    fn from(error: HibernateError) -> Self {
        match error {
            HibernateError::Session(error) => error.into(),
            HibernateError::Write(error) => match error.downcast::<NoRoom>() {
                Ok(NoRoom(error)) => error,
                Err(error) => unavailable("the session could not be written", &error),
            },
        }
    }
}

impl From<ResumeError> for SandboxError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Session(error) => error.into(),
            ResumeError::TooLarge { what, key: name, bytes, most } => {
                Self::NotResumable(format!("it takes {bytes} bytes of {what}, and `limits.{}` is {most}", key(name)))
            }
            error => Self::NotResumable(error.to_string()),
        }
    }
}

/// For `map_err`: an operation on files was refused.
pub(super) fn refused(path: &str) -> impl FnOnce(FilesError) -> Failure + use<'_> {
    move |error| {
        let (kind, message) = match FileError::try_from(error) {
            Ok(error) => (error.kind().into(), error.message()),
            Err(FilesError::Session(error)) => return (*error).into(),
            Err(error) => (types::FileError::Refused, error.to_string()),
        };
        file_failure(kind, path, message)
    }
}

/// An operation on files that was refused.
pub(super) fn file_failure(kind: types::FileError, path: &str, message: String) -> Failure {
    SandboxError::File(FileFailure { kind, path: clipped(path).to_owned(), message }).into()
}

impl From<FileErrorKind> for types::FileError {
    fn from(kind: FileErrorKind) -> Self {
        match kind {
            FileErrorKind::InvalidPath => Self::InvalidPath,
            FileErrorKind::NotFound => Self::NotFound,
            FileErrorKind::Exists => Self::Exists,
            FileErrorKind::WrongKind => Self::WrongKind,
            FileErrorKind::NoSpace => Self::NoSpace,
            FileErrorKind::Refused => Self::Refused,
        }
    }
}
