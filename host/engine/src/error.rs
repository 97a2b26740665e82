//! Errors of Glovebox or of the caller. What a guest did is never an error but an [`Outcome`](crate::Outcome).

use glovebox_vfs::{escaped, escaped_text};
use std::{error::Error, io, path::PathBuf};

use glovebox_core::{RequestError, session::TooMany};
use glovebox_interpreters::DriverError;
use glovebox_runtimes::{CacheError, ManifestError, OwnImageError, rewrite::RewriteError};

use crate::{CheckpointId, Execution, PolicyError, ToolDefinitionError, mount::MountError};

/// An engine could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Wasmtime refuses these settings on this machine.
    #[error("the engine cannot be set up on this machine: {0}")]
    Settings(String),
    /// The cache directory cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The list of runtimes is damaged.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The settings need a feature that is not in this build.
    #[error("`glovebox` was built without its feature `{feature}`; name it among the features in `Cargo.toml`")]
    NotBuilt {
        /// The feature of this crate.
        feature: &'static str,
    },
}

/// A runtime is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No runtime has this name, or it cannot be fetched, or its file is not usable.
    #[error(transparent)]
    Binary(#[from] glovebox_runtimes::RuntimeError),
    /// No runtime has this name.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The Python packages are unavailable.
    #[error(transparent)]
    Packages(#[from] glovebox_runtimes::PackageError),
    /// The prepared image cannot be stored or read.
    #[error(transparent)]
    Store(#[from] glovebox_runtimes::PreparedError),
    /// The binary is not a WebAssembly module that can be prepared.
    #[error("`{name}` cannot be prepared", name = escaped(.name))]
    Rewrite {
        /// The runtime.
        name: String,
        /// Why.
        source: RewriteError,
    },
    /// The binary does not compile or cannot be linked.
    #[error("`{name}` cannot be loaded: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Load {
        /// The runtime.
        name: String,
        /// Wasmtime's words.
        reason: String,
    },
    /// The interpreter did not boot.
    #[error("`{name}` did not boot: {reason}; with `prepared(false)` (`--no-prepare`) it runs as a plain command", name = escaped(.name), reason = escaped_text(.reason))]
    Boot {
        /// The runtime.
        name: String,
        /// What happened.
        reason: String,
    },
    /// An image of the user's own is unavailable.
    #[error(transparent)]
    Image(#[from] OwnImageError),
    /// The engine has no directory for images of the user's own.
    #[error("this engine has no directory for images of your own; name one in `EngineConfig::own_images`")]
    NoImages,
    /// An image's own code failed. Nothing was stored.
    #[error("the setup of `{name}` failed:\n{reason}", name = escaped(.name), reason = lines(.reason))]
    Setup {
        /// The image.
        name: String,
        /// What the interpreter says, or which limit it met.
        reason: String,
    },
    /// The operating system gave no stack to run on.
    #[error("no stack to run a guest on")]
    Stack(#[source] io::Error),
    /// It needs a feature that is not in this build.
    #[error("`glovebox` was built without its feature `{feature}`; name it among the features in `Cargo.toml`")]
    NotBuilt {
        /// The feature of this crate.
        feature: &'static str,
    },
}

/// A traceback, indented, so that no line of it looks like one of ours; what is in them is escaped.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {}", escaped_text(line))).collect();
    lines.join("\n")
}

/// A sandbox could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The engine has no second form of its code.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The runtime is unavailable.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A host directory cannot be used.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A tool cannot be registered.
    #[error(transparent)]
    Tool(#[from] ToolDefinitionError),
    /// A file given for the workspace does not fit its limits.
    #[error("workspace file `{path}`: {reason}", path = escaped(.path), reason = escaped_text(.reason))]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The policy stores globals in the workspace, which needs a prepared interpreter.
    #[error(
        "`auto_persist_globals` needs a prepared runtime, which `{name}` is not; remove it or name another runtime", name = escaped(.name)
    )]
    NotPersisting {
        /// The runtime.
        name: String,
    },
    /// The memory limit leaves no room for the interpreter itself.
    #[error("`limits.memory_bytes` is {limit_bytes}; `{name}` alone takes {needed_bytes}", name = escaped(.name))]
    Memory {
        /// The runtime.
        name: String,
        /// The limit.
        limit_bytes: u64,
        /// What its image takes.
        needed_bytes: u64,
    },
    /// The binary is for the other language.
    #[error("runtime `{name}` runs {has}, not {wanted}; leave the language out or name another runtime", name = escaped(.name))]
    Language {
        /// The runtime.
        name: String,
        /// Its language.
        has: crate::Language,
        /// What was asked for.
        wanted: crate::Language,
    },
}

/// An execution could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// More source than `limits.source_bytes`.
    #[error("the source is {bytes} bytes; `limits.source_bytes` is {most}")]
    SourceTooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// More standard input than `limits.stdin_bytes`.
    #[error("standard input is {bytes} bytes; `limits.stdin_bytes` is {most}")]
    StdinTooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// A script's name holds a NUL byte or is too long.
    #[error("the script's name `{name}` cannot be used; it must be at most 4096 bytes without NUL", name = escaped(.0))]
    Name(String),
    /// No instance could be made: the pool is full, or memory is out.
    #[error("no instance could be made: {reason}")]
    Instantiate {
        /// Wasmtime's words.
        reason: String,
    },
    /// The operating system gave no stack or no ticker thread.
    #[error("the operating system gave no {what} to run a guest with")]
    System {
        /// What it could not provide.
        what: &'static str,
        /// Its reason.
        source: io::Error,
    },
    /// A host directory cannot be used.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The guest ran, but its files could not be brought back to a host directory; nothing there has changed.
    #[error("the files could not be written back to `{}`; nothing there was changed", escaped(host))]
    Commit {
        /// The directory.
        host: PathBuf,
        /// What the guest did nevertheless.
        execution: Box<Execution>,
        /// Why.
        source: MountError,
    },
    /// The session has ended: it was closed, its guest exited for good, or it was unwound with no checkpoint to
    /// go back to (or under [`OnUnwind::End`](crate::OnUnwind::End)).
    #[error("session `{id}` has ended: {reason}; open another one", id = escaped(.id), reason = escaped_text(.reason))]
    SessionEnded {
        /// The session.
        id: String,
        /// How it ended.
        reason: String,
    },
    /// The session is executing, and the request was not to wait, or waited as long as an execution may take.
    #[error("session `{id}` is busy; nothing was run", id = escaped(.id))]
    SessionBusy {
        /// The session.
        id: String,
    },
    /// Another session is executing in the shared workspace, and the request was not to wait, or waited as long as an
    /// execution may take.
    #[error("the shared workspace is busy; nothing was done")]
    WorkspaceBusy,
    /// A shared workspace was made with other directories than the session is to see.
    #[error("the shared workspace was made from a sandbox with another `{key}`; use the same policy for both")]
    OtherWorkspace {
        /// What differs.
        key: &'static str,
    },
    /// A fork was to share its files.
    #[error("a fork has a copy of its session's files; it cannot be put into a shared workspace")]
    ForkWorkspace,
    /// This cannot be a session's id.
    #[error("`{id}` cannot be a session's id; it is 1 to 64 letters, digits, `.`, `_`, `-`, and no `.` in front", id = escaped(.id))]
    SessionId {
        /// The beginning of the requested id.
        id: String,
    },
    /// There is no such checkpoint.
    #[error("session `{id}` has no checkpoint to go back to{}", wanted.map_or(String::new(), |id| format!(" with the id {}", id.0)), id = escaped(.id))]
    NoCheckpoint {
        /// The session.
        id: String,
        /// The requested checkpoint; `None`: the last one.
        wanted: Option<CheckpointId>,
    },
    /// A variable could not be read or set.
    #[error("variable `{name}`: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Variable {
        /// The variable.
        name: String,
        /// What the guest said, or what stopped it.
        reason: String,
    },
    /// A value for a variable is more than `limits.stdin_bytes`.
    #[error("the value for `{name}` is {bytes} bytes of JSON; `limits.stdin_bytes` is {most}", name = escaped(.name))]
    ValueTooLarge {
        /// The variable.
        name: String,
        /// The size of its JSON text.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// Another session or checkpoint would exceed a limit.
    #[error("{used} of {most} `{key}` would be in use; close a session first or raise the limit")]
    TooManySessions {
        /// The limit: `limits.session_count` or `limits.session_total_bytes`.
        key: &'static str,
        /// What would be in use.
        used: u64,
        /// The limit.
        most: u64,
    },
    /// A script is TypeScript, and the tool that removes its types is unavailable.
    #[error("`{name}` is TypeScript, and what removes its types is not to be had: {source}", name = escaped(.name))]
    TypeScript {
        /// The script's name.
        name: String,
        /// Why not.
        source: Box<RuntimeError>,
    },
    /// One of the request's tools cannot be one.
    #[error(transparent)]
    Tool(#[from] ToolDefinitionError),
    /// Sessions and validation call into a prepared interpreter.
    #[error("`{name}` is not prepared, so it can only execute; use a runtime that `glovebox runtimes list` names", name = escaped(.name))]
    NotPrepared {
        /// The runtime.
        name: String,
    },
    /// The image and its driver do not fit.
    #[error("the prepared image does not answer: {0}; remove it with `glovebox runtimes remove`")]
    Driver(String),
}

impl From<RequestError> for ExecuteError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::SourceTooLarge { bytes, most } => Self::SourceTooLarge { bytes, most },
            RequestError::StdinTooLarge { bytes, most } => Self::StdinTooLarge { bytes, most },
            RequestError::Name(beginning) => Self::Name(beginning),
        }
    }
}

impl From<TooMany> for ExecuteError {
    fn from(TooMany { key, used, most }: TooMany) -> Self {
        Self::TooManySessions { key, used, most }
    }
}

impl From<DriverError> for ExecuteError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error.to_string())
    }
}

/// An error with its causes, unless its message names them already: for one line of a log or an answer.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    text
}
