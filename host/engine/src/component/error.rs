//! Errors for components, and the types and traits that Wasmtime's macro generates from `wit/`.
//!
//! Messages name the contract's keys and reveal nothing about the host. Internal failures of the host go to the log
//! (`component.unavailable`).

use std::error::Error;

use glovebox_core::{
    contract::{not_resumable, quoted, refused_file, too_many_sessions},
    files::FileError,
};
use wasmtime::component::ResourceTableError;

use super::{
    SandboxCtx,
    files::NoRoom,
    quotas::OverQuota,
    session::NotIdle,
    wit::types::{self, SandboxError, TooLarge},
};
use crate::{
    AdvanceError, BuildError, ExecuteError, FilesError, HibernateError, ResumeError, RuntimeError, exec::events,
};

impl SandboxFailure {
    /// Converts to a trap, for functions that cannot return an error.
    pub(super) fn into_trap(self) -> wasmtime::Error {
        match self {
            Self::Error(error) => wasmtime::Error::msg(error.to_string()),
            Self::Trap(trap) => trap,
        }
    }
}

impl From<wasmtime::Error> for SandboxFailure {
    fn from(trap: wasmtime::Error) -> Self {
        Self::Trap(trap)
    }
}

impl From<ResourceTableError> for SandboxFailure {
    fn from(error: ResourceTableError) -> Self {
        Self::Trap(error.into())
    }
}

impl<E> From<E> for SandboxFailure
where
    SandboxError: From<E>,
{
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl types::Host for SandboxCtx {
    fn convert_sandbox_error(&mut self, failure: SandboxFailure) -> wasmtime::Result<SandboxError> {
        match failure {
            SandboxFailure::Error(error) => Ok(error),
            SandboxFailure::Trap(trap) => Err(trap),
        }
    }
}

impl From<OverQuota> for SandboxError {
    fn from(OverQuota(text): OverQuota) -> Self {
        Self::QuotaExceeded(text)
    }
}

impl From<NotIdle> for SandboxError {
    fn from(NotIdle(text): NotIdle) -> Self {
        Self::SessionBusy(text)
    }
}

/// Logs an internal failure of the host, and returns an error without its details.
fn unavailable(what: &str, error: &(dyn Error + 'static)) -> SandboxError {
    events::unavailable(what, error);
    SandboxError::Unavailable(format!("{what}; see the host's log"))
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
                Self::SourceTooLarge(TooLarge { bytes: *bytes, limit: *most })
            }
            ExecuteError::StdinTooLarge { bytes, most } | ExecuteError::ValueTooLarge { bytes, most, .. } => {
                Self::StdinTooLarge(TooLarge { bytes: *bytes, limit: *most })
            }
            ExecuteError::Name(_) | ExecuteError::Tool(_) => Self::InvalidArgument(text),
            ExecuteError::SessionEnded { .. } => Self::SessionEnded(text),
            ExecuteError::SessionBusy { .. } => Self::SessionBusy(text),
            ExecuteError::NoCheckpoint { .. } => Self::NoCheckpoint(text),
            ExecuteError::Variable { name, reason } => Self::Variable(format!("`{}`: {reason}", quoted(name))),
            ExecuteError::TooManySessions { key: name, used, most } => {
                Self::TooManySessions(too_many_sessions(name, *used, *most))
            }
            ExecuteError::NotPrepared { name } => {
                Self::Unsupported(format!("`{name}` runs as a plain command, without sessions and validation"))
            }
            ExecuteError::Instantiate { .. } => unavailable("no instance is available now", error),
            ExecuteError::TypeScript { .. } => unavailable("the TypeScript stripper is unavailable", error),
            ExecuteError::System { .. } | ExecuteError::Driver(_) => unavailable("the guest could not be run", error),
            // Components cannot name sessions, share workspaces or mount host directories.
            ExecuteError::SessionId { .. }
            | ExecuteError::WorkspaceBusy
            | ExecuteError::OtherWorkspace { .. }
            | ExecuteError::ForkWorkspace
            | ExecuteError::Mount(_)
            | ExecuteError::Commit { .. } => unavailable("the operation is unavailable", error),
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

impl From<BuildError> for SandboxError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Policy(error) => error.into(),
            BuildError::Memory { name, limit_bytes, needed_bytes } => Self::InvalidPolicy(format!(
                "`limits.memory-bytes` is {limit_bytes}; `{name}` alone takes {needed_bytes}"
            )),
            BuildError::Tool(error) => Self::InvalidArgument(error.to_string()),
            BuildError::File { path, reason } => refused_file(&path, &reason).into(),
            BuildError::Runtime(RuntimeError::Manifest(_)) => {
                Self::UnknownRuntime("no runtime has this name; `info` lists those that there are".into())
            }
            error @ (BuildError::Runtime(_)
            | BuildError::Engine(_)
            | BuildError::Mount(_)
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
                Ok(NoRoom(error)) => error.into(),
                Err(error) => unavailable("the session could not be written", &error),
            },
        }
    }
}

impl From<ResumeError> for SandboxError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Session(error) => error.into(),
            error => Self::NotResumable(not_resumable(&error)),
        }
    }
}

/// Returns a closure for `map_err` that reports a refused operation on files.
pub(super) fn refused(path: &str) -> impl FnOnce(FilesError) -> SandboxFailure + use<'_> {
    move |error| {
        let (kind, message) = match FileError::try_from(error) {
            Ok(error) => (error.kind().into(), error.message()),
            Err(FilesError::Session(error)) => return (*error).into(),
            Err(error) => (types::FileError::Refused, error.to_string()),
        };
        SandboxError::from_file(kind, path, message).into()
    }
}

wasmtime::component::bindgen!({
    path: "../../wit",
    inline: "
        package glovebox:host;

        world host {
            import glovebox:sandbox/sandbox@0.2.0;
            import glovebox:sandbox/tools@0.2.0;
        }
    ",
    world: "glovebox:host/host",
    // Using an invalid handle is a trap.
    imports: { default: trappable },
    trappable_error_type: { "glovebox:sandbox/types.sandbox-error" => SandboxFailure },
    with: {
        "glovebox:sandbox/sandbox.session": crate::component::session::SessionResource,
        "glovebox:sandbox/sandbox.started": crate::component::started::Stepped,
        "glovebox:sandbox/sandbox.files": crate::component::files::Snapshot,
        "glovebox:sandbox/sandbox.blob": crate::component::files::Bytes,
    },
    // Equal policies share a sandbox.
    additional_derives: [PartialEq],
});

/// An error for the component, or a trap for calls that a correct component never makes.
#[expect(unreachable_pub, reason = "the generated modules, which are private as well, export it again")]
#[derive(Debug)]
pub enum SandboxFailure {
    Error(SandboxError),
    Trap(wasmtime::Error),
}
