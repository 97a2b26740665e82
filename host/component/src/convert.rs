//! Converts between the engine's types and the contract's types. Resolves the policies that components request, within
//! the granted policy.

use std::{error::Error, time::Duration};

use ::glovebox::{
    AdvanceError, BuildError, Clock, Entropy, ExecuteError, Execution, FilesError, HibernateError, Policy, Request,
    ResumeError, RuntimeError, Session, Stream, SuspendError, SuspendRefusal, SuspendedBytesError, with_causes,
};
use glovebox_core::contract::{
    self, ContractPolicy, PolicyRefusal, nanoseconds, not_resumable, quoted, refused_file, too_many_sessions,
};
use wasmtime::component::ResourceTableError;

use super::{
    SandboxCtx,
    quotas::QuotaError,
    sandbox::QuotaIoError,
    session::BusySessionError,
    wit::{
        sandbox::OutputStream,
        types::{self, SandboxError, TooLarge},
    },
};

glovebox_core::contract_conversions!(crate::wit::types);

/// Converts a request without checking it. Omits `files`, which belong to the sandbox.
pub(super) fn request(request: &types::Request) -> Request<'_> {
    let types::Request { source, name, kind, stdin, context, files: _, deadline_ms } = request;
    let mut converted = Request::new(source);
    if let Some(name) = name {
        converted = converted.name(name);
    }
    if let Some(kind) = kind {
        converted = converted.kind((*kind).into());
    }
    if let Some(stdin) = stdin {
        converted = converted.stdin(stdin);
    }
    if let Some(json) = context {
        converted = converted.context_json(json);
    }
    if let Some(deadline_ms) = deadline_ms {
        converted = converted.cancel_after(Duration::from_millis(*deadline_ms));
    }
    converted
}

impl From<Execution> for types::Execution {
    fn from(execution: Execution) -> Self {
        let Execution {
            outcome,
            interrupted,
            value,
            displays,
            displays_dropped,
            stdout,
            stderr,
            fuel_consumed,
            memory_used_bytes,
            duration,
            files_created,
            files_modified,
            files_deleted,
            tool_calls,
            workspace_path: _,
            session_id,
            rolled_back_to,
            guidance,
            metadata,
            // `tests/wit/words.rs` finds fields that are missing here.
            ..
        } = execution;
        Self {
            outcome: outcome.into(),
            interrupted: interrupted.map(Into::into),
            value: value.map(Into::into),
            displays: displays.into_iter().map(Into::into).collect(),
            displays_dropped,
            stdout: stdout.into(),
            stderr: stderr.into(),
            fuel_consumed,
            memory_used_bytes,
            duration_ns: nanoseconds(duration),
            files_created,
            files_modified,
            files_deleted,
            tool_calls: tool_calls.into_iter().map(Into::into).collect(),
            session_id,
            rolled_back_to: rolled_back_to.map(Into::into),
            guidance: guidance.into(),
            metadata: metadata.into(),
        }
    }
}

impl From<OutputStream> for Stream {
    fn from(stream: OutputStream) -> Self {
        match stream {
            OutputStream::Stdout => Self::Stdout,
            OutputStream::Stderr => Self::Stderr,
        }
    }
}

/// The granted policy: the default for components, and the upper bound of their requests.
#[derive(Debug)]
pub(super) struct Grant(pub(super) Policy);

/// Estimates the host memory for a policy's arguments and environment, in bytes. Each text is stored three times: as
/// requested, as granted, and as passed to guests. Short texts take more memory than their length.
pub(super) fn weight(policy: &types::Policy) -> u64 {
    const TEXT: usize = size_of::<String>() + 16;
    let texts = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| TEXT + text.len()).sum::<usize>();
    let args = texts(&mut policy.args.iter().flatten());
    let env = texts(&mut policy.env.iter().flatten().flat_map(|(key, value)| [key, value]));
    3 * (args + env) as u64
}

impl Grant {
    /// Returns the policy for a component's request. Fails if the request exceeds the grant.
    pub(super) fn policy(&self, requested: types::Policy) -> Result<Policy, PolicyRefusal> {
        let ContractPolicy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } =
            requested.from_wit(&self.of_contract())?;
        let mut policy = self.0.clone();
        (policy.limits, policy.clock, policy.entropy, policy.args, policy.env) = (limits, clock, entropy, args, env);
        (policy.inject_setup, policy.auto_persist_globals, policy.session) =
            (inject_setup, auto_persist_globals, session);
        Ok(policy)
    }

    /// Converts the grant to the contract's type, with the granted values as upper bounds.
    fn of_contract(&self) -> contract::Grant {
        let (clock, entropy) = (self.0.clock, self.0.entropy);
        contract::Grant {
            defaults: self.granted(),
            is_ceiling: true,
            host_clock_refusal: matches!(clock, Clock::Fixed(_))
                .then(|| PolicyRefusal::excess("clock", &"`host`", &"`fixed`")),
            host_entropy_refusal: matches!(entropy, Entropy::Seeded(_))
                .then(|| PolicyRefusal::excess("entropy", &"`host`", &"`seeded`")),
        }
    }

    /// Returns the parts of the granted policy that the contract can express.
    pub(super) fn granted(&self) -> ContractPolicy {
        let Policy { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session, .. } = &self.0;
        ContractPolicy {
            limits: limits.clone(),
            clock: *clock,
            entropy: *entropy,
            args: args.clone(),
            env: env.clone(),
            inject_setup: *inject_setup,
            auto_persist_globals: *auto_persist_globals,
            session: session.clone(),
        }
    }
}

// Conversions from the engine's errors to the contract's `sandbox-error`.
//
// Messages use the contract's key names and reveal nothing about the host. Internal failures of the host are logged as
// `component.unavailable`.

impl SandboxFailure {
    /// Converts the failure to a trap, for functions that cannot return an error.
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

impl From<QuotaError> for SandboxError {
    fn from(QuotaError(text): QuotaError) -> Self {
        Self::QuotaExceeded(text)
    }
}

impl From<BusySessionError> for SandboxError {
    fn from(BusySessionError(text): BusySessionError) -> Self {
        Self::SessionBusy(text)
    }
}

/// Logs an internal failure of the host and returns an error without its details.
fn unavailable(what: &str, error: &(dyn Error + 'static)) -> SandboxError {
    tracing::warn!(target: "glovebox", what, reason = with_causes(error), "component.unavailable");
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
            ExecuteError::Request(error) => error.clone().into(),
            ExecuteError::ValueTooLarge { bytes, max, .. } => {
                Self::StdinTooLarge(TooLarge { bytes: *bytes, limit: *max })
            }
            ExecuteError::Tool(_) => Self::InvalidArgument(text),
            ExecuteError::SessionEnded { .. } => Self::SessionEnded(text),
            ExecuteError::SessionBusy { .. } => Self::SessionBusy(text),
            ExecuteError::NoCheckpoint { .. } => Self::NoCheckpoint(text),
            ExecuteError::Variable { name, reason } => Self::Variable(format!("`{}`: {reason}", quoted(name))),
            ExecuteError::TooManySessions { key: name, used, max } => {
                Self::TooManySessions(too_many_sessions(name, *used, *max))
            }
            ExecuteError::NotPrepared { name } => Self::Unsupported(format!(
                "`{name}` runs as a plain command without sessions or validation; use a prepared runtime"
            )),
            ExecuteError::Instantiate { .. } => unavailable("no instance is available; try again later", error),
            ExecuteError::TypeScript { .. } => unavailable("the TypeScript stripper is unavailable", error),
            ExecuteError::System { .. } | ExecuteError::Driver(_) | ExecuteError::Unrestorable { .. } => {
                unavailable("the guest could not run", error)
            }
            ExecuteError::OtherSession { in_session: true } => {
                let text = "the execution was suspended in a session; use `session.resume-suspended` of version 0.3.0";
                Self::NotResumable(text.into())
            }
            ExecuteError::OtherSession { in_session: false } => {
                let text = "the execution was suspended outside sessions; use `sandbox.resume-suspended`";
                Self::NotResumable(text.into())
            }
            ExecuteError::OtherImage { .. } | ExecuteError::Diverged { .. } => Self::NotResumable(text),
            // Components cannot choose session IDs, share workspaces, mount host directories, or record executions.
            _ => unavailable("the operation is unavailable", error),
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
            error => unavailable("the guest could not run", &error),
        }
    }
}

impl From<SuspendError> for SandboxError {
    fn from(error: SuspendError) -> Self {
        match error {
            SuspendError::NotSuspendable => {
                Self::Unsupported("the execution was not started with `start-suspendable`".into())
            }
            SuspendError::Running => {
                Self::SessionBusy("the script is not waiting for an answer; try again when it is".into())
            }
            SuspendError::Refused(refusal @ SuspendRefusal::HandlerRuns) => Self::SessionBusy(refusal.to_string()),
            SuspendError::Ended => Self::Unsupported("the execution has ended; read its result".into()),
            SuspendError::Refused(refusal) => Self::Unsupported(refusal.to_string()),
            error => unavailable("the execution could not be suspended", &error),
        }
    }
}

impl From<SuspendedBytesError> for SandboxError {
    fn from(error: SuspendedBytesError) -> Self {
        Self::NotResumable(error.to_string())
    }
}

impl From<BuildError> for SandboxError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Policy(error) => error.into(),
            BuildError::Memory { name, limit_bytes, needed_bytes } => Self::InvalidPolicy(format!(
                "`limits.memory-bytes` is {limit_bytes}, but `{name}` alone needs {needed_bytes}; raise the limit"
            )),
            BuildError::Tool(error) => Self::InvalidArgument(error.to_string()),
            BuildError::File { path, reason } => refused_file(&path, &reason).into(),
            BuildError::Runtime(RuntimeError::Manifest(_)) => {
                Self::UnknownRuntime("unknown runtime name; `info` lists the available names".into())
            }
            error => unavailable("the runtime could not be loaded", &error),
        }
    }
}

impl From<HibernateError> for SandboxError {
    fn from(error: HibernateError) -> Self {
        match error {
            HibernateError::Session(error) => error.into(),
            HibernateError::Write(error) => match error.downcast::<QuotaIoError>() {
                Ok(QuotaIoError(error)) => error.into(),
                Err(error) => unavailable("the session could not be saved", &error),
            },
            error => unavailable("the session could not be saved", &error),
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

/// Returns the checkpoints of a session. Fails if the session has ended, unlike [`Session::checkpoints`].
pub(super) fn checkpoints(session: &Session) -> Result<Vec<types::CheckpointInfo>, ExecuteError> {
    if let Some(reason) = session.ended() {
        return Err(ExecuteError::SessionEnded { id: session.id().to_owned(), reason });
    }
    Ok(session.checkpoints()?.into_iter().map(types::CheckpointInfo::from).collect())
}

/// Returns a closure for `map_err` that converts the error of a file operation on `path`.
pub(super) fn refused(path: &str) -> impl FnOnce(FilesError) -> SandboxFailure + use<'_> {
    move |error| {
        let (kind, message) = match error {
            FilesError::Workspace(error) => (error.kind().into(), error.message()),
            FilesError::Session(error) => return (*error).into(),
            error => (types::FileError::Refused, error.to_string()),
        };
        SandboxError::from_file(kind, path, message).into()
    }
}

wasmtime::component::bindgen!({
    path: "wit",
    inline: "
        package glovebox:host;

        world host {
            import glovebox:sandbox/sandbox@0.2.0;
            import glovebox:sandbox/tools@0.2.0;
        }
    ",
    world: "glovebox:host/host",
    // A call with an invalid handle traps.
    imports: { default: trappable },
    trappable_error_type: { "glovebox:sandbox/types.sandbox-error" => SandboxFailure },
    with: {
        "glovebox:sandbox/sandbox.session": crate::session::SessionResource,
        "glovebox:sandbox/sandbox.started": crate::started::StartedResource,
        "glovebox:sandbox/sandbox.files": crate::sandbox::Snapshot,
        "glovebox:sandbox/sandbox.blob": crate::sandbox::Bytes,
    },
    // Sandboxes are cached by policy, so policies must be comparable.
    additional_derives: [PartialEq],
});

/// An error for the component, or a trap for a call that a correct component never makes.
#[expect(unreachable_pub, reason = "the generated modules, which are also private, re-export it")]
#[derive(Debug)]
pub enum SandboxFailure {
    Error(SandboxError),
    Trap(wasmtime::Error),
}
