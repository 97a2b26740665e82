//! Conversions between this crate's types and those that a backend generates from `wit/`.

/// Implements the conversions between core's types and the generated module `types` at a path, such as
/// `contract_conversions!(crate::bindings::types)`.
///
/// Every backend generates types of its own, and these have the same fields and cases. The implementations are expanded in the
/// backend's crate, where its types are local.
#[macro_export]
macro_rules! contract_conversions {
    ($($types:tt)::+) => {
        const _: () = {
            use $crate::{limits_from_wit, limits_into_wit, contract};
            use $($types)::+ as types;

            impl From<$crate::Language> for types::Language {
                fn from(value: $crate::Language) -> Self {
                    match value {
                        $crate::Language::Python => Self::Python,
                        $crate::Language::JavaScript => Self::Javascript,
                    }
                }
            }

            impl From<types::SourceKind> for contract::SourceKind {
                fn from(value: types::SourceKind) -> Self {
                    match value {
                        types::SourceKind::Detect => Self::Detect,
                        types::SourceKind::Script => Self::Script,
                        types::SourceKind::Module => Self::Module,
                    }
                }
            }

            impl From<$crate::Resource> for types::ResourceKind {
                fn from(value: $crate::Resource) -> Self {
                    match value {
                        $crate::Resource::Fuel => Self::Fuel,
                        $crate::Resource::Time => Self::Time,
                        $crate::Resource::Memory => Self::Memory,
                    }
                }
            }

            impl From<$crate::TrapKind> for types::TrapKind {
                fn from(value: $crate::TrapKind) -> Self {
                    match value {
                        $crate::TrapKind::StackOverflow => Self::StackOverflow,
                        $crate::TrapKind::Unreachable => Self::Unreachable,
                        $crate::TrapKind::OutOfBounds => Self::OutOfBounds,
                        $crate::TrapKind::BadCall => Self::BadCall,
                        $crate::TrapKind::Arithmetic => Self::Arithmetic,
                        $crate::TrapKind::BadReport => Self::BadReport,
                        $crate::TrapKind::Other => Self::Other,
                    }
                }
            }

            impl From<$crate::tools::ToolErrorKind> for types::ToolError {
                fn from(value: $crate::tools::ToolErrorKind) -> Self {
                    match value {
                        $crate::tools::ToolErrorKind::Failed => Self::Failed,
                        $crate::tools::ToolErrorKind::Limit => Self::Limit,
                        $crate::tools::ToolErrorKind::Timeout => Self::Timeout,
                        $crate::tools::ToolErrorKind::Unknown => Self::Unknown,
                        $crate::tools::ToolErrorKind::InvalidArguments => Self::InvalidArguments,
                    }
                }
            }

            impl From<types::ToolError> for $crate::tools::ToolErrorKind {
                fn from(value: types::ToolError) -> Self {
                    match value {
                        types::ToolError::Failed => Self::Failed,
                        types::ToolError::Limit => Self::Limit,
                        types::ToolError::Timeout => Self::Timeout,
                        types::ToolError::Unknown => Self::Unknown,
                        types::ToolError::InvalidArguments => Self::InvalidArguments,
                    }
                }
            }

            impl From<contract::FileKind> for types::FileKind {
                fn from(value: contract::FileKind) -> Self {
                    match value {
                        contract::FileKind::File => Self::File,
                        contract::FileKind::Directory => Self::Directory,
                        contract::FileKind::Symlink => Self::Symlink,
                    }
                }
            }

            impl From<$crate::files::FileErrorKind> for types::FileError {
                fn from(value: $crate::files::FileErrorKind) -> Self {
                    match value {
                        $crate::files::FileErrorKind::InvalidPath => Self::InvalidPath,
                        $crate::files::FileErrorKind::NotFound => Self::NotFound,
                        $crate::files::FileErrorKind::Exists => Self::Exists,
                        $crate::files::FileErrorKind::WrongKind => Self::WrongKind,
                        $crate::files::FileErrorKind::NoSpace => Self::NoSpace,
                        $crate::files::FileErrorKind::Refused => Self::Refused,
                    }
                }
            }

            impl From<types::IfExists> for $crate::files::IfExists {
                fn from(value: types::IfExists) -> Self {
                    match value {
                        types::IfExists::Fail => Self::Fail,
                        types::IfExists::Replace => Self::Replace,
                    }
                }
            }

            impl From<$crate::session::OnUnwind> for types::OnUnwind {
                fn from(value: $crate::session::OnUnwind) -> Self {
                    match value {
                        $crate::session::OnUnwind::RollBack => Self::RollBack,
                        $crate::session::OnUnwind::End => Self::End,
                    }
                }
            }

            impl From<types::OnUnwind> for $crate::session::OnUnwind {
                fn from(value: types::OnUnwind) -> Self {
                    match value {
                        types::OnUnwind::RollBack => Self::RollBack,
                        types::OnUnwind::End => Self::End,
                    }
                }
            }

            impl From<$crate::guidance::FuelStatus> for types::FuelStatus {
                fn from(value: $crate::guidance::FuelStatus) -> Self {
                    match value {
                        $crate::guidance::FuelStatus::Efficient => Self::Efficient,
                        $crate::guidance::FuelStatus::Moderate => Self::Moderate,
                        $crate::guidance::FuelStatus::Warning => Self::Warning,
                        $crate::guidance::FuelStatus::Critical => Self::Critical,
                        $crate::guidance::FuelStatus::Exhausted => Self::Exhausted,
                    }
                }
            }

            impl From<$crate::guidance::AdviceKind> for types::AdviceKind {
                fn from(value: $crate::guidance::AdviceKind) -> Self {
                    match value {
                        $crate::guidance::AdviceKind::Fuel => Self::Fuel,
                        $crate::guidance::AdviceKind::Time => Self::Time,
                        $crate::guidance::AdviceKind::Memory => Self::Memory,
                        $crate::guidance::AdviceKind::CallDepth => Self::CallDepth,
                        $crate::guidance::AdviceKind::Output => Self::Output,
                        $crate::guidance::AdviceKind::Module => Self::Module,
                        $crate::guidance::AdviceKind::Syntax => Self::Syntax,
                        $crate::guidance::AdviceKind::TypescriptSyntax => Self::TypescriptSyntax,
                        $crate::guidance::AdviceKind::Path => Self::Path,
                        $crate::guidance::AdviceKind::Network => Self::Network,
                        $crate::guidance::AdviceKind::Subprocess => Self::Subprocess,
                        $crate::guidance::AdviceKind::Threads => Self::Threads,
                        $crate::guidance::AdviceKind::Input => Self::Input,
                        $crate::guidance::AdviceKind::Environment => Self::Environment,
                    }
                }
            }

            impl From<$crate::Clock> for types::Clock {
                fn from(clock: $crate::Clock) -> Self {
                    match clock {
                        $crate::Clock::Host => Self::Host,
                        $crate::Clock::Fixed(time_ns) => Self::Fixed(time_ns),
                    }
                }
            }

            impl From<$crate::Entropy> for types::Entropy {
                fn from(entropy: $crate::Entropy) -> Self {
                    match entropy {
                        $crate::Entropy::Host => Self::Host,
                        $crate::Entropy::Seeded(seed) => Self::Seeded(seed),
                    }
                }
            }

            impl From<$crate::session::Checkpoints> for types::Checkpoints {
                fn from(checkpoints: $crate::session::Checkpoints) -> Self {
                    match checkpoints {
                        $crate::session::Checkpoints::Auto => Self::Auto,
                        $crate::session::Checkpoints::Always => Self::Always,
                        $crate::session::Checkpoints::Every(count) => Self::Every(count),
                        $crate::session::Checkpoints::Never => Self::Never,
                    }
                }
            }

            impl From<types::Checkpoints> for $crate::session::Checkpoints {
                fn from(checkpoints: types::Checkpoints) -> Self {
                    match checkpoints {
                        types::Checkpoints::Auto => Self::Auto,
                        types::Checkpoints::Always => Self::Always,
                        types::Checkpoints::Every(count) => Self::Every(count),
                        types::Checkpoints::Never => Self::Never,
                    }
                }
            }

            impl From<contract::ContractPolicy> for types::Policy {
                fn from(policy: contract::ContractPolicy) -> Self {
                    let contract::ContractPolicy {
                        limits,
                        clock,
                        entropy,
                        args,
                        env,
                        inject_setup,
                        auto_persist_globals,
                        session,
                    } = policy;
                    Self {
                        limits: Some($crate::with_limits!(limits_into_wit, limits)),
                        clock: Some(clock.into()),
                        entropy: Some(entropy.into()),
                        args: Some(args),
                        env: Some(env.into_iter().collect()),
                        inject_setup: Some(inject_setup),
                        auto_persist_globals: Some(auto_persist_globals),
                        session: Some(types::SessionPolicy {
                            checkpoints: Some(session.checkpoints.into()),
                            checkpoint_auto_bytes: Some(session.checkpoint_auto_bytes),
                            checkpoints_kept: Some(session.checkpoints_kept),
                            on_unwind: Some(session.on_unwind.into()),
                        }),
                    }
                }
            }

            impl types::Policy {
                /// The requested policy, with the granted one for what is omitted.
                pub(crate) fn from_wit(
                    self,
                    grant: &impl contract::Grant,
                    granted: &contract::ContractPolicy,
                ) -> Result<contract::ContractPolicy, contract::PolicyRefusal> {
                    let Self { limits, clock, entropy, args, env, inject_setup, auto_persist_globals, session } = self;
                    let mut policy = granted.clone();
                    if let Some(limits) = limits {
                        $crate::with_limits!(limits_from_wit, limits, policy.limits, grant);
                    }
                    match clock {
                        None => {}
                        Some(types::Clock::Fixed(time_ns)) => policy.clock = $crate::Clock::Fixed(time_ns),
                        Some(types::Clock::Host) => {
                            grant.check_host_clock()?;
                            policy.clock = $crate::Clock::Host;
                        }
                    }
                    match entropy {
                        None => {}
                        Some(types::Entropy::Seeded(seed)) => policy.entropy = $crate::Entropy::Seeded(seed),
                        Some(types::Entropy::Host) => {
                            grant.check_host_entropy()?;
                            policy.entropy = $crate::Entropy::Host;
                        }
                    }
                    policy.args = args.unwrap_or(policy.args);
                    if let Some(env) = env {
                        policy.env = contract::ContractPolicy::variables(env)?;
                    }
                    policy.inject_setup = inject_setup.unwrap_or(policy.inject_setup);
                    policy.auto_persist_globals = auto_persist_globals.unwrap_or(policy.auto_persist_globals);
                    if let Some(session) = session {
                        let types::SessionPolicy { checkpoints, checkpoint_auto_bytes, checkpoints_kept, on_unwind } =
                            session;
                        let session = &mut policy.session;
                        session.checkpoints = checkpoints.map_or(session.checkpoints, Into::into);
                        session.checkpoint_auto_bytes = contract::ContractPolicy::limit(
                            grant,
                            "session.checkpoint_auto_bytes",
                            checkpoint_auto_bytes,
                            session.checkpoint_auto_bytes,
                        )?;
                        session.checkpoints_kept = contract::ContractPolicy::limit(
                            grant,
                            "session.checkpoints_kept",
                            checkpoints_kept,
                            session.checkpoints_kept,
                        )?;
                        session.on_unwind = on_unwind.map_or(session.on_unwind, Into::into);
                    }
                    Ok(policy)
                }
            }

            impl types::Request {
                /// The request as `validate` reads it: the source, its name and its kind.
                pub(crate) fn for_validation(self) -> Self {
                    Self { stdin: None, context: None, files: None, deadline_ms: None, ..self }
                }

                /// Refuses what only an execution outside a session can have.
                pub(crate) fn check_in_session(&self) -> Result<(), contract::InvalidArgument> {
                    let wrong = |text: &str| Err(contract::InvalidArgument(text.to_owned()));
                    if self.context.is_some() {
                        return wrong("`context`: in a session, use `session-options.context` or `session.set-variable`");
                    }
                    if self.files.is_some() {
                        return wrong("`files`: in a session, use `session.write-file`");
                    }
                    Ok(())
                }
            }

            impl From<$crate::Outcome> for types::Outcome {
                fn from(outcome: $crate::Outcome) -> Self {
                    match outcome {
                        $crate::Outcome::Completed => Self::Completed,
                        $crate::Outcome::Exited { code } => Self::Exited(code),
                        $crate::Outcome::Raised(raised) => Self::Raised(raised.into()),
                        $crate::Outcome::Exhausted { resource, limit, used } => {
                            Self::Exhausted(types::Exhausted { resource: resource.into(), limit, used })
                        }
                        $crate::Outcome::Cancelled => Self::Cancelled,
                        $crate::Outcome::Trapped { trap } => Self::Trapped(trap.into()),
                    }
                }
            }

            impl From<$crate::RaisedOutcome> for types::Raised {
                fn from(raised: $crate::RaisedOutcome) -> Self {
                    let $crate::RaisedOutcome { type_name, message, traceback, line } = raised;
                    Self { type_name, message, traceback, line }
                }
            }

            impl From<$crate::Output> for types::Output {
                fn from(output: $crate::Output) -> Self {
                    let $crate::Output { mut bytes, total_bytes } = output;
                    let kept_bytes = bytes.len() as u64;
                    bytes.truncate(contract::MAX_OUTPUT_BYTES);
                    Self { bytes, kept_bytes, total_bytes }
                }
            }

            impl From<$crate::Metadata> for types::Metadata {
                fn from(metadata: $crate::Metadata) -> Self {
                    let $crate::Metadata {
                        runtime,
                        runtime_name,
                        version,
                        prepared,
                        image_sha256,
                        // The contract has them in `output.total-bytes`.
                        stdout_total_bytes: _,
                        stderr_total_bytes: _,
                    } = metadata;
                    Self { runtime: runtime.into(), runtime_name, version, prepared, image_sha256 }
                }
            }

            impl From<$crate::GuestValue> for types::GuestValue {
                fn from($crate::GuestValue { repr, json }: $crate::GuestValue) -> Self {
                    Self { repr, json }
                }
            }

            impl From<$crate::tools::ToolRecord> for types::ToolRecord {
                fn from(record: $crate::tools::ToolRecord) -> Self {
                    let $crate::tools::ToolRecord { name, arguments, outcome, started, duration } = record;
                    let outcome = match outcome {
                        $crate::tools::ToolOutcome::Returned(result) => types::ToolOutcome::Returned(result),
                        $crate::tools::ToolOutcome::Failed { kind, message } => {
                            types::ToolOutcome::Failed(types::ToolFailure { kind: kind.into(), message })
                        }
                        $crate::tools::ToolOutcome::Unfinished => types::ToolOutcome::Unfinished,
                    };
                    let (started_ns, duration_ns) = (contract::nanoseconds(started), contract::nanoseconds(duration));
                    Self { name, arguments, outcome, started_ns, duration_ns }
                }
            }

            impl From<types::CallFailure> for $crate::tools::ToolError {
                fn from(failure: types::CallFailure) -> Self {
                    let types::CallFailure { kind, message } = failure;
                    Self::of(kind.into(), message)
                }
            }

            impl From<$crate::session::Rollback> for types::Rollback {
                fn from(rollback: $crate::session::Rollback) -> Self {
                    let $crate::session::Rollback { checkpoint, executions_lost } = rollback;
                    Self { checkpoint: checkpoint.0, executions_lost }
                }
            }

            impl From<$crate::guidance::Guidance> for types::Guidance {
                fn from(guidance: $crate::guidance::Guidance) -> Self {
                    let $crate::guidance::Guidance { fuel, advice } = guidance;
                    Self { fuel: fuel.into(), advice: advice.into_iter().map(Into::into).collect() }
                }
            }

            impl From<$crate::guidance::FuelAnalysis> for types::FuelAnalysis {
                fn from(fuel: $crate::guidance::FuelAnalysis) -> Self {
                    let $crate::guidance::FuelAnalysis {
                        used,
                        limit,
                        utilization_percent,
                        status,
                        suggested_limit,
                        likely_causes,
                    } = fuel;
                    Self { used, limit, utilization_percent, status: status.into(), suggested_limit, likely_causes }
                }
            }

            impl From<$crate::guidance::Advice> for types::Advice {
                fn from(advice: $crate::guidance::Advice) -> Self {
                    let $crate::guidance::Advice { kind, summary, steps, correction } = advice;
                    let correction = correction
                        .map(|$crate::guidance::Correction { line, text }| types::Correction { line, text });
                    Self { kind: kind.into(), summary, steps, correction }
                }
            }

            impl From<contract::Diagnostic> for types::Diagnostic {
                fn from(contract::Diagnostic { line, column, message }: contract::Diagnostic) -> Self {
                    Self { line, column, message }
                }
            }

            impl From<$crate::files::FileEntry> for types::FileEntry {
                fn from(entry: $crate::files::FileEntry) -> Self {
                    let $crate::files::FileEntry { path, kind, size_bytes, modified_ns } = entry;
                    Self { path, kind: kind.into(), size_bytes, modified_ns }
                }
            }

            impl From<$crate::session::CheckpointInfo> for types::CheckpointInfo {
                fn from(info: $crate::session::CheckpointInfo) -> Self {
                    let $crate::session::CheckpointInfo { id, automatic, executions, private_bytes } = info;
                    Self { id: id.0, automatic, executions, private_bytes }
                }
            }

            impl From<$crate::session::SessionInfo> for types::SessionInfo {
                fn from(info: $crate::session::SessionInfo) -> Self {
                    let $crate::session::SessionInfo {
                        id,
                        language,
                        runtime_name,
                        executions,
                        memory_bytes,
                        private_bytes,
                        held_bytes,
                        checkpoints,
                        checkpoints_skipped,
                        rollbacks,
                        ended,
                    } = info;
                    Self {
                        id,
                        language: language.into(),
                        runtime_name,
                        executions,
                        memory_bytes,
                        private_bytes,
                        held_bytes,
                        checkpoints: u32::try_from(checkpoints).unwrap_or(u32::MAX),
                        checkpoints_skipped,
                        rollbacks,
                        ended,
                    }
                }
            }

            impl types::SandboxError {
                /// A file operation that failed, on this path or pattern.
                pub(crate) fn from_file(kind: types::FileError, path: &str, message: String) -> Self {
                    Self::File(types::FileFailure { kind, path: contract::quoted(path).to_owned(), message })
                }
            }

            impl From<contract::InvalidArgument> for types::SandboxError {
                fn from(contract::InvalidArgument(text): contract::InvalidArgument) -> Self {
                    Self::InvalidArgument(text)
                }
            }

            impl From<contract::PolicyRefusal> for types::SandboxError {
                fn from(refusal: contract::PolicyRefusal) -> Self {
                    match refusal {
                        contract::PolicyRefusal::Invalid(text) => Self::InvalidPolicy(text),
                        contract::PolicyRefusal::Unsupported(text) => Self::Unsupported(text),
                    }
                }
            }

            impl From<$crate::PolicyError> for types::SandboxError {
                fn from(error: $crate::PolicyError) -> Self {
                    Self::InvalidPolicy(contract::invalid_policy(&error))
                }
            }

            impl From<$crate::RequestError> for types::SandboxError {
                fn from(error: $crate::RequestError) -> Self {
                    match error {
                        $crate::RequestError::SourceTooLarge { bytes, most } => {
                            Self::SourceTooLarge(types::TooLarge { bytes, limit: most })
                        }
                        $crate::RequestError::StdinTooLarge { bytes, most } => {
                            Self::StdinTooLarge(types::TooLarge { bytes, limit: most })
                        }
                        $crate::RequestError::Name(_) => Self::InvalidArgument(error.to_string()),
                    }
                }
            }

            impl From<$crate::session::TooMany> for types::SandboxError {
                fn from(error: $crate::session::TooMany) -> Self {
                    let $crate::session::TooMany { key, used, most } = error;
                    Self::TooManySessions(contract::too_many_sessions(key, used, most))
                }
            }
        };
    };
}

/// Takes one limit after the other: the requested one, if it is granted, else the default.
#[doc(hidden)]
#[macro_export]
macro_rules! limits_from_wit {
    ($requested:expr, $limits:expr, $grant:expr, $($name:ident),*) => {{
        let types::Limits { $($name),* } = $requested;
        $($limits.$name = $crate::contract::ContractPolicy::limit(
            $grant,
            concat!("limits.", stringify!($name)),
            $name,
            $limits.$name,
        )?;)*
    }};
}

/// Spells one limit after the other out.
#[doc(hidden)]
#[macro_export]
macro_rules! limits_into_wit {
    ($limits:expr, $($name:ident),*) => {{
        let limits: $crate::Limits = $limits;
        types::Limits { $($name: Some(limits.$name)),* }
    }};
}
