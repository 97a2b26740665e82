//! Errors that Glovebox or its callers cause. A script's failure is reported as an [`Outcome`](crate::Outcome), never
//! as an error.

use glovebox_vfs::{escaped, escaped_text};
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

use glovebox_core::{RequestError, session::TooMany};
use glovebox_interpreters::DriverError;
use glovebox_runtimes::{CacheError, CustomImageError, ManifestError, rewrite::RewriteError};

use crate::{CheckpointId, Execution, PolicyError, ToolDefinitionError, mount::MountError};

/// The reason why an engine cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Wasmtime rejects the settings on this machine.
    #[error("the engine cannot be set up on this machine: {0}")]
    Settings(String),
    /// The cache directory, or another directory in the configuration, cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The built-in manifest of runtimes or the built-in list of packages is damaged.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// The reason why a runtime is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A file of the runtime or of a tool cannot be fetched, read or verified.
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
    #[error("the binary of `{name}` is unsupported: {source}", name = escaped(.name))]
    Rewrite {
        /// The name of the runtime.
        name: String,
        /// The error from the rewriter.
        source: RewriteError,
    },
    /// The binary cannot be loaded. For example, it does not compile, or cannot be linked.
    #[error("`{name}` cannot be loaded: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Load {
        /// The name of the runtime.
        name: String,
        /// The description of the failure.
        reason: String,
    },
    /// The interpreter did not boot.
    #[error("`{name}` did not boot: {reason}; use `prepared(false)` (`--no-prepare`) to run it as a plain command", name = escaped(.name), reason = escaped_text(.reason))]
    Boot {
        /// The name of the runtime.
        name: String,
        /// The description of the failure.
        reason: String,
    },
    /// A custom image is unavailable, or its name or definition is invalid.
    #[error(transparent)]
    Image(#[from] CustomImageError),
    /// The engine has no directory for custom images.
    #[error("no directory for custom images is configured; set `EngineConfig::custom_images`")]
    NoImages,
    /// The setup code of an image failed. Nothing was stored.
    #[error("the setup of `{name}` failed:\n{reason}", name = escaped(.name), reason = lines(.reason))]
    Setup {
        /// The name of the image.
        name: String,
        /// The interpreter's message, or the exceeded limit.
        reason: String,
    },
    /// The operating system could not provide a stack for the guest.
    #[error("cannot allocate a stack for the guest; free memory and try again")]
    Stack(#[source] io::Error),
}

/// Indents and escapes a traceback, so that no line of the traceback can pass for a message from Glovebox.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {}", escaped_text(line))).collect();
    lines.join("\n")
}

/// The reason why a sandbox cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The engine for the policy's metering mode cannot be created.
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
    /// A workspace file has an invalid path or exceeds a limit, or the workspace is a host directory.
    #[error("workspace file `{path}`: {reason}", path = escaped(.path), reason = escaped_text(.reason))]
    File {
        /// The path of the file in the workspace.
        path: String,
        /// The reason why the file was rejected.
        reason: String,
    },
    /// `auto_persist_globals` is set, but the runtime is not prepared.
    #[error(
        "`auto_persist_globals` needs a prepared runtime, but `{name}` is not prepared; remove it or use another runtime", name = escaped(.name)
    )]
    NotPersisting {
        /// The name of the runtime.
        name: String,
    },
    /// The memory limit is lower than the charge for the interpreter's image.
    #[error("`limits.memory_bytes` is {limit_bytes}, but `{name}` alone needs {needed_bytes}; raise the limit", name = escaped(.name))]
    Memory {
        /// The name of the runtime.
        name: String,
        /// The limit in bytes.
        limit_bytes: u64,
        /// The charge for the image in bytes: its size, but at most 2 MiB.
        needed_bytes: u64,
    },
    /// The runtime's language differs from the requested language.
    #[error("runtime `{name}` runs {has}, not {wanted}; remove the language or use another runtime", name = escaped(.name))]
    Language {
        /// The name of the runtime.
        name: String,
        /// The language of the runtime.
        has: crate::Language,
        /// The requested language.
        wanted: crate::Language,
    },
}

/// The reason why an execution could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The source, the script's name or the standard input is invalid or too large.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No instance could be created. For example, the pool is full, the system is out of memory, or a custom binary
    /// could not be started.
    #[error("cannot create an instance: {reason}")]
    Instantiate {
        /// The description of the failure.
        reason: String,
    },
    /// The operating system could not provide a stack or a thread.
    #[error("cannot allocate a {what} for the guest; free memory, or run fewer executions")]
    System {
        /// The missing resource, such as `stack`.
        what: &'static str,
        /// The error from the operating system.
        source: io::Error,
    },
    /// A host directory cannot be used, or changes by the embedder or by exit handlers could not be committed to it.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The guest ran, but committing its files to a host directory failed. The directory is unchanged unless
    /// [`MountError`] says otherwise.
    #[error("{}", failed_commit(host, source))]
    Commit {
        /// The path of the host directory.
        host: PathBuf,
        /// The result of the guest's execution.
        execution: Box<Execution>,
        /// The error from the host directory.
        source: MountError,
    },
    /// The session has ended: it was closed, its guest exited, or its guest was unwound. An unwound session ends if it
    /// cannot be rolled back to a checkpoint, or under [`OnUnwind::End`](crate::OnUnwind::End).
    #[error("session `{id}` has ended: {reason}; open another session", id = escaped(.id), reason = escaped_text(.reason))]
    SessionEnded {
        /// The ID of the session.
        id: String,
        /// The reason why the session ended.
        reason: String,
    },
    /// The session is executing another request. The rejected request did not wait, or waited for `limits.timeout_ms`.
    #[error("session `{id}` is busy; nothing ran; retry when the running execution has ended", id = escaped(.id))]
    SessionBusy {
        /// The ID of the session.
        id: String,
    },
    /// The shared workspace is in use by another session's request. The rejected request did not wait, or waited for
    /// `limits.timeout_ms`.
    #[error("the shared workspace is busy; no changes were made; retry when the other session's request has ended")]
    WorkspaceBusy,
    /// The policies of the shared workspace and of the session have different host directories or different values of
    /// `commit`.
    #[error("the shared workspace and the session have different `{key}`; use the same policy for both")]
    OtherWorkspace {
        /// The policy key that differs: `workspace`, `mounts` or `commit`.
        key: &'static str,
    },
    /// A fork cannot use a shared workspace, because the fork has its own copy of the original session's files.
    #[error(
        "a fork has its own copy of the session's files, so it cannot use a shared workspace; remove the option `workspace`"
    )]
    ForkWorkspace,
    /// The session ID is invalid.
    #[error("`{id}` is not a valid session ID; use 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`", id = escaped(.id))]
    SessionId {
        /// The requested ID, truncated.
        id: String,
    },
    /// The session does not have the requested checkpoint.
    #[error("session `{id}` has no checkpoint{}", wanted.map_or_else(|| " to undo to; take one before the change".to_owned(), |id| format!(" with the ID `{}`; use the ID of a retained checkpoint", id.0)), id = escaped(.id))]
    NoCheckpoint {
        /// The ID of the session.
        id: String,
        /// The requested checkpoint, or `None` for the last checkpoint.
        wanted: Option<CheckpointId>,
    },
    /// A variable could not be read or set.
    #[error("variable `{name}`: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Variable {
        /// The name of the variable.
        name: String,
        /// The guest's message, or the exceeded limit.
        reason: String,
    },
    /// A value for a variable exceeds `limits.stdin_bytes`.
    #[error("the value for `{name}` is {bytes} bytes of JSON; the maximum `limits.stdin_bytes` is {max}; use a smaller value or raise the limit", name = escaped(.name))]
    ValueTooLarge {
        /// The name of the variable.
        name: String,
        /// The size of the JSON text of the value, in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// A new session or checkpoint would exceed a limit on sessions.
    #[error(
        "`{key}` would be exceeded: all sessions together need {used}; the maximum is {max}; close a session, try again later, or raise the limit"
    )]
    TooManySessions {
        /// Exceeded limit: `limits.session_count` or `limits.session_total_bytes`.
        key: &'static str,
        /// Usage, including the new session or checkpoint.
        used: u64,
        /// The value of the limit.
        max: u64,
    },
    /// The script is TypeScript, and the tool that removes its types is unavailable.
    #[error("cannot run `{name}`: the TypeScript stripper is unavailable: {source}", name = escaped(.name))]
    TypeScript {
        /// The name of the script.
        name: String,
        /// The reason why the tool is unavailable.
        source: Box<RuntimeError>,
    },
    /// A tool of the request is invalid.
    #[error(transparent)]
    Tool(#[from] ToolDefinitionError),
    /// The runtime is not prepared. Sessions, validation and a request's `context` require a prepared interpreter.
    #[error("`{name}` is not prepared: sessions, validation and `context` are unavailable; use a runtime from `glovebox runtimes list`", name = escaped(.name))]
    NotPrepared {
        /// The name of the runtime.
        name: String,
    },
    /// A suspended execution is resumed in the wrong place: outside its session, or in a session although it was
    /// suspended outside sessions.
    #[error("the execution was suspended {} a session; {}", if *in_session { "in" } else { "outside" }, if *in_session { "restore the session with `Sandbox::resume_suspended_session` and start the request there" } else { "start the request with `Sandbox::start`" })]
    OtherSession {
        /// `true` if the execution was suspended in a session.
        in_session: bool,
    },
    /// A suspended or recorded execution needs a different image from the sandbox's image.
    #[error("the execution needs the image {expected} of `{expected_runtime}`, but `{runtime}` has a different image; use the original runtime and Glovebox version", expected = escaped(.expected), expected_runtime = escaped(.expected_runtime), runtime = escaped(.runtime))]
    OtherImage {
        /// The identity of the image that the execution needs.
        expected: String,
        /// The name of the runtime that ran the execution.
        expected_runtime: String,
        /// The name of the sandbox's runtime.
        runtime: String,
    },
    /// A resumed execution behaved differently from before its suspension.
    #[error("the resumed execution behaves differently from before its suspension: {difference}; resume it with the same files, tools and limits", difference = escaped_text(.difference))]
    Diverged {
        /// The first difference.
        difference: String,
    },
    /// A repeated execution differs from its recording.
    #[error("the repeated execution differs from its recording: {difference}; repeat it with the same files, policy and version of Glovebox", difference = escaped_text(.difference))]
    NotRepeated {
        /// The first difference.
        difference: String,
    },
    /// An execution in a session can neither be recorded nor repeated.
    #[error("executions in sessions cannot be recorded; run the script in a fresh sandbox with `Sandbox::run`")]
    RecordedInSession,
    /// A session's saved state does not match its image, or its files cannot be restored. Indicates a defect in
    /// Glovebox.
    #[error("session `{id}` cannot be restored: {reason}; open another session", id = escaped(.id), reason = escaped_text(.reason))]
    Unrestorable {
        /// The ID of the session.
        id: String,
        /// The description of the mismatch.
        reason: String,
    },
    /// A call into the guest outside the script failed: the prepared image does not match its driver, the guest damaged
    /// its own memory, or its files could not be set up.
    #[error(
        "cannot call into the guest: {0}; try again, or remove the runtime with `glovebox runtimes remove` to prepare it again"
    )]
    Driver(String),
}

impl From<TooMany> for ExecuteError {
    fn from(TooMany { key, used, max }: TooMany) -> Self {
        Self::TooManySessions { key, used, max }
    }
}

impl From<DriverError> for ExecuteError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error.to_string())
    }
}

/// Describes a failed commit. Does not claim that the directory is unchanged if the commit may have changed it.
fn failed_commit(host: &Path, source: &MountError) -> String {
    let host = escaped(host);
    match source {
        MountError::NotNoted { .. } => {
            format!("the files were written to `{host}`, but the commit could not be recorded")
        }
        MountError::Torn { .. } | MountError::Io { .. } => format!("cannot write the files back to `{host}`"),
        _ => format!("cannot write the files back to `{host}`; the directory is unchanged"),
    }
}

/// Joins the messages of an error and of its causes with `: `, for logs and answers. Omits causes that the text already
/// contains.
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

#[cfg(test)]
mod tests {
    use glovebox_vfs::VfsError;

    use super::*;

    #[test]
    fn failed_commit_claims_an_unchanged_directory_only_if_it_is() {
        let io = MountError::Io { action: "rename", path: "a".into(), source: io::Error::other("x") };
        let not_noted = MountError::NotNoted { source: VfsError::NotFound };
        for (source, is_unchanged) in
            [(not_noted, false), (io, false), (MountError::ReservedName { path: "a".into() }, true)]
        {
            let message = failed_commit(Path::new("/d"), &source);
            assert_eq!(message.contains("unchanged"), is_unchanged, "{message}");
        }
    }
}
