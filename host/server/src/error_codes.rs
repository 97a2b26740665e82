//! Codes and HTTP statuses of errors.

use glovebox::{AdvanceError, BuildError, ExecuteError, FileError, FilesError, ResumeError, RuntimeError};
use glovebox_fleet::FleetError;
use glovebox_sessions::{SessionsError, StoreError};

/// An error code ([`ServiceError::code`]) with its HTTP status.
pub(crate) type Code = (&'static str, u16);

pub(crate) const INVALID: Code = ("invalid-argument", 400);
pub(crate) const POLICY: Code = ("invalid-policy", 400);
pub(crate) const UNKNOWN_RUNTIME: Code = ("unknown-runtime", 404);
pub(crate) const UNSUPPORTED: Code = ("unsupported", 422);
pub(crate) const NOT_FOUND: Code = ("not-found", 404);
pub(crate) const EXISTS: Code = ("exists", 409);
pub(crate) const BUSY: Code = ("session-busy", 409);
pub(crate) const FENCED: Code = ("session-fenced", 409);
pub(crate) const BUSY_EXECUTION: Code = ("execution-busy", 409);
pub(crate) const CANCELLED: Code = ("cancelled", 409);
pub(crate) const ENDED: Code = ("session-ended", 410);
pub(crate) const NO_CHECKPOINT: Code = ("no-checkpoint", 409);
pub(crate) const NOT_RESUMABLE: Code = ("not-resumable", 409);
pub(crate) const NOT_SUSPENDABLE: Code = ("not-suspendable", 409);
pub(crate) const DIVERGED: Code = ("diverged", 409);
pub(crate) const TOO_LARGE: Code = ("too-large", 413);
pub(crate) const FILE: Code = ("file", 422);
pub(crate) const VARIABLE: Code = ("variable", 422);
pub(crate) const TYPE_ERRORS: Code = ("type-errors", 422);
pub(crate) const TOO_MANY: Code = ("quota-exceeded", 429);
pub(crate) const RATE: Code = ("rate-exceeded", 429);
pub(crate) const GENERATION: Code = ("generation", 412);
pub(crate) const INTERNAL: Code = ("internal", 500);
pub(crate) const UNSAVED: Code = ("unsaved", 500);
pub(crate) const WORKER_DIED: Code = ("worker-died", 500);
pub(crate) const NOT_IN_FLEET: Code = ("not-in-a-fleet", 501);
pub(crate) const UNAVAILABLE: Code = ("unavailable", 503);

/// All error codes. Codes that workers report are checked against this list.
const CODES: [Code; 27] = [
    INVALID,
    POLICY,
    UNKNOWN_RUNTIME,
    UNSUPPORTED,
    NOT_FOUND,
    EXISTS,
    BUSY,
    FENCED,
    BUSY_EXECUTION,
    CANCELLED,
    ENDED,
    NO_CHECKPOINT,
    NOT_RESUMABLE,
    NOT_SUSPENDABLE,
    DIVERGED,
    TOO_LARGE,
    FILE,
    VARIABLE,
    TYPE_ERRORS,
    TOO_MANY,
    RATE,
    GENERATION,
    INTERNAL,
    UNSAVED,
    WORKER_DIED,
    NOT_IN_FLEET,
    UNAVAILABLE,
];

/// Returns the entry of [`CODES`] for `code`, or the code for internal errors if `code` is unknown.
pub(crate) fn known_kind(code: &str) -> Code {
    *CODES.iter().find(|known| known.0 == code).unwrap_or(&INTERNAL)
}

pub(crate) fn of_build(error: &BuildError) -> Code {
    match error {
        BuildError::Policy(_) | BuildError::Memory { .. } | BuildError::NotPersisting { .. } => POLICY,
        BuildError::Tool(_) | BuildError::File { .. } | BuildError::Language { .. } => INVALID,
        BuildError::Runtime(RuntimeError::Manifest(_)) => UNKNOWN_RUNTIME,
        _ => UNAVAILABLE,
    }
}

pub(crate) fn of_execute(error: &ExecuteError) -> Code {
    match error {
        ExecuteError::SourceTooLarge { .. }
        | ExecuteError::StdinTooLarge { .. }
        | ExecuteError::ValueTooLarge { .. } => TOO_LARGE,
        ExecuteError::Name(_) | ExecuteError::Tool(_) | ExecuteError::SessionId { .. } => INVALID,
        ExecuteError::SessionEnded { .. } => ENDED,
        ExecuteError::SessionBusy { .. } | ExecuteError::WorkspaceBusy => BUSY,
        ExecuteError::NoCheckpoint { .. } => NO_CHECKPOINT,
        ExecuteError::Variable { .. } => VARIABLE,
        ExecuteError::TooManySessions { .. } => TOO_MANY,
        ExecuteError::NotPrepared { .. } => UNSUPPORTED,
        ExecuteError::OtherImage { .. } | ExecuteError::OtherSession { .. } => NOT_RESUMABLE,
        ExecuteError::Diverged { .. } => DIVERGED,
        _ => UNAVAILABLE,
    }
}

pub(crate) fn of_advance(error: &AdvanceError) -> Code {
    match error {
        AdvanceError::UnknownCall { .. } | AdvanceError::NotJson { .. } => INVALID,
        AdvanceError::Execute(error) => of_execute(error),
        _ => INTERNAL,
    }
}

pub(crate) fn of_sessions(error: &SessionsError) -> Code {
    match error {
        SessionsError::Execute(error) => of_execute(error),
        SessionsError::Build(error) => of_build(error),
        SessionsError::NotFound { .. } => NOT_FOUND,
        SessionsError::Exists { .. } => EXISTS,
        SessionsError::InUse { .. } => BUSY,
        SessionsError::Fenced { .. } => FENCED,
        SessionsError::Language { .. } => INVALID,
        SessionsError::TooManyLive { .. } => TOO_MANY,
        SessionsError::Resume { source, .. } => match &**source {
            // The session is intact: its memory or an instance is not available at the moment.
            ResumeError::Session(error) => of_execute(error),
            _ => NOT_RESUMABLE,
        },
        SessionsError::Store(StoreError::Full { .. }) => TOO_MANY,
        SessionsError::Unsaved { .. } => UNSAVED,
        _ => UNAVAILABLE,
    }
}

pub(crate) fn of_files(error: &FilesError) -> Code {
    match error {
        FilesError::Session(error) => of_execute(error),
        FilesError::Workspace(FileError::Exists { .. }) => EXISTS,
        FilesError::Workspace(FileError::Path { .. } | FileError::Pattern { .. }) => INVALID,
        FilesError::Workspace(FileError::Refused { .. }) | FilesError::Archive { .. } => FILE,
        _ => UNAVAILABLE,
    }
}

pub(crate) fn of_fleet(error: &FleetError) -> Code {
    match error {
        FleetError::NotFound(_) => NOT_FOUND,
        FleetError::Exists(_) => EXISTS,
        FleetError::NoUndo(_) => NO_CHECKPOINT,
        FleetError::Changed(_) => GENERATION,
        FleetError::Invalid(_) => INVALID,
        FleetError::NotResumable(_) => NOT_RESUMABLE,
        FleetError::Diverged(_) => DIVERGED,
        FleetError::Failed(_) => INTERNAL,
        _ => UNAVAILABLE,
    }
}
