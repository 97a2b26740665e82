//! Codes and HTTP statuses of errors.

use glovebox::{
    AdvanceError, BuildError, ExecuteError, FileError, FilesError, RequestError, ResumeError, RuntimeError,
};
use glovebox_fleet::FleetError;
use glovebox_sessions::{SessionsError, StoreError};

/// An error code ([`ServiceError::code`]) with its HTTP status.
pub(crate) type Code = (&'static str, u16);

/// Defines a constant for each code, and the list of all codes.
macro_rules! codes {
    ($($name:ident = $code:literal, $status:literal;)*) => {
        $(pub(crate) const $name: Code = ($code, $status);)*

        /// All error codes. Codes that workers report are checked against this list.
        const CODES: &[Code] = &[$($name),*];
    };
}

codes! {
    INVALID = "invalid-argument", 400;
    POLICY = "invalid-policy", 400;
    UNKNOWN_RUNTIME = "unknown-runtime", 404;
    UNSUPPORTED = "unsupported", 422;
    NOT_FOUND = "not-found", 404;
    EXISTS = "exists", 409;
    BUSY = "session-busy", 409;
    FENCED = "session-fenced", 409;
    BUSY_EXECUTION = "execution-busy", 409;
    CANCELLED = "cancelled", 409;
    ENDED = "session-ended", 410;
    NO_CHECKPOINT = "no-checkpoint", 409;
    NOT_RESUMABLE = "not-resumable", 409;
    NOT_SUSPENDABLE = "not-suspendable", 409;
    DIVERGED = "diverged", 409;
    TOO_LARGE = "too-large", 413;
    FILE = "file", 422;
    VARIABLE = "variable", 422;
    TYPE_ERRORS = "type-errors", 422;
    TOO_MANY = "quota-exceeded", 429;
    RATE = "rate-exceeded", 429;
    GENERATION = "generation", 412;
    INTERNAL = "internal", 500;
    UNSAVED = "unsaved", 500;
    WORKER_DIED = "worker-died", 500;
    NOT_IN_FLEET = "not-in-a-fleet", 501;
    UNAVAILABLE = "unavailable", 503;
}

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
        ExecuteError::Request(RequestError::Name(_)) | ExecuteError::Tool(_) | ExecuteError::SessionId { .. } => {
            INVALID
        }
        ExecuteError::Request(_) | ExecuteError::ValueTooLarge { .. } => TOO_LARGE,
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
            // The session is intact, but its memory or an instance is unavailable at the moment.
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
