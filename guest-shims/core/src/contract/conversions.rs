//! Converts between this crate's types and the types that a backend generates from `wit/`.
//!
//! [`contract_conversions!`](crate::contract_conversions) expands the other macros of this file.

/// Implements the conversions between this crate's types and a generated module, which is given by its path:
/// `contract_conversions!(crate::bindings::types)`.
///
/// Every backend generates its own types, with the same fields and cases as this crate's types. The macro expands in
/// the backend's crate, because the generated types are local only there.
#[macro_export]
macro_rules! contract_conversions {
    ($($types:tt)::+) => {
        const _: () = {
            use $crate::{contract, limits_from_wit, limits_into_wit};
            use $($types)::+ as types;

            $crate::contract_cases!();
            $crate::contract_policy!();
            $crate::contract_request!();
            $crate::contract_results!();
            $crate::contract_errors!();
        };
    };
}

/// Implements the conversion from one enumeration to another with the same cases.
#[doc(hidden)]
#[macro_export]
macro_rules! same_cases {
    ($from:ty => $to:ty { $($case:ident $(($content:ident))?),* $(,)? }) => {
        impl From<$from> for $to {
            fn from(value: $from) -> Self {
                type Source = $from;
                match value {
                    $(Source::$case $(($content))? => Self::$case $(($content))?),*
                }
            }
        }
    };
}

/// Implements the conversion from one structure to another with the same fields.
#[doc(hidden)]
#[macro_export]
macro_rules! same_fields {
    ($from:path => $to:ty { $($field:ident),* $(,)? }) => {
        impl From<$from> for $to {
            fn from(value: $from) -> Self {
                let $from { $($field),* } = value;
                Self { $($field: $field.into()),* }
            }
        }
    };
}

/// The part of [`contract_conversions!`](crate::contract_conversions) for enumerations.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    () => {
        impl From<$crate::Language> for types::Language {
            fn from(value: $crate::Language) -> Self {
                match value {
                    $crate::Language::Python => Self::Python,
                    $crate::Language::JavaScript => Self::Javascript,
                }
            }
        }

        $crate::same_cases!(types::SourceKind => contract::SourceKind { Detect, Script, Module });
        $crate::same_cases!($crate::Resource => types::ResourceKind { Fuel, Time, Memory });
        $crate::same_cases!($crate::TrapKind => types::TrapKind {
            StackOverflow, Unreachable, OutOfBounds, BadCall, Arithmetic, BadReport, Other,
        });
        $crate::same_cases!($crate::tools::ToolErrorKind => types::ToolError {
            Failed, Limit, Timeout, Unknown, InvalidArguments, Denied,
        });
        $crate::same_cases!(types::ToolError => $crate::tools::ToolErrorKind {
            Failed, Limit, Timeout, Unknown, InvalidArguments, Denied,
        });
        $crate::same_cases!(contract::FileKind => types::FileKind { File, Directory, Symlink });
        $crate::same_cases!($crate::files::FileErrorKind => types::FileError {
            InvalidPath, NotFound, Exists, WrongKind, NoSpace, Refused,
        });
        $crate::same_cases!(types::IfExists => $crate::files::IfExists { Fail, Replace });
        $crate::same_cases!($crate::session::OnUnwind => types::OnUnwind { RollBack, End });
        $crate::same_cases!(types::OnUnwind => $crate::session::OnUnwind { RollBack, End });
        $crate::same_cases!($crate::guidance::FuelStatus => types::FuelStatus {
            Efficient, Moderate, Warning, Critical, Exhausted,
        });
        $crate::same_cases!($crate::guidance::AdviceKind => types::AdviceKind {
            Fuel, Time, Memory, CallDepth, Output, Module, Syntax, TypescriptSyntax, Path, Network, Subprocess, Threads, Input,
            Environment,
        });
        $crate::same_cases!($crate::Clock => types::Clock { Host, Fixed(time_ns) });
        $crate::same_cases!($crate::Entropy => types::Entropy { Host, Seeded(seed) });
        $crate::same_cases!($crate::session::Checkpoints => types::Checkpoints { Auto, Always, Every(count), Never });
        $crate::same_cases!(types::Checkpoints => $crate::session::Checkpoints { Auto, Always, Every(count), Never });
    };
}

/// The part of [`contract_conversions!`](crate::contract_conversions) for errors.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_errors {
    () => {
        impl types::SandboxError {
            /// Returns the error for a failed file operation on this path or pattern.
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
                    $crate::RequestError::SourceTooLarge { bytes, max } => {
                        Self::SourceTooLarge(types::TooLarge { bytes, limit: max })
                    }
                    $crate::RequestError::StdinTooLarge { bytes, max } => {
                        Self::StdinTooLarge(types::TooLarge { bytes, limit: max })
                    }
                    $crate::RequestError::Name(_) => Self::InvalidArgument(error.to_string()),
                }
            }
        }

        impl From<$crate::session::TooMany> for types::SandboxError {
            fn from(error: $crate::session::TooMany) -> Self {
                let $crate::session::TooMany { key, used, max } = error;
                Self::TooManySessions(contract::too_many_sessions(key, used, max))
            }
        }
    };
}

/// The part of [`contract_conversions!`](crate::contract_conversions) for requests.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_request {
    () => {
        impl types::Request {
            /// Clears the fields that `validate` does not use.
            pub(crate) fn for_validation(self) -> Self {
                Self { stdin: None, context: None, files: None, deadline_ms: None, ..self }
            }

            /// Rejects fields that are not allowed in a session's executions: `context` and `files`.
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
    };
}

/// The part of [`contract_conversions!`](crate::contract_conversions) for results.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_results {
    () => {
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

        $crate::same_fields!($crate::RaisedOutcome => types::Raised { type_name, message, traceback, line });
        $crate::same_fields!($crate::GuestValue => types::GuestValue { repr, json });
        $crate::same_fields!($crate::guidance::FuelAnalysis => types::FuelAnalysis {
            used, limit, utilization_percent, status, suggested_limit, likely_causes,
        });
        $crate::same_fields!(contract::Diagnostic => types::Diagnostic { line, column, message });
        $crate::same_fields!($crate::files::FileEntry => types::FileEntry { path, kind, size_bytes, modified_ns });

        impl From<$crate::Output> for types::Output {
            fn from(output: $crate::Output) -> Self {
                let $crate::Output { mut bytes, total_bytes } = output;
                let retained_bytes = bytes.len() as u64;
                bytes.truncate(contract::MAX_OUTPUT_BYTES);
                Self { bytes, retained_bytes, total_bytes }
            }
        }

        impl From<$crate::Display> for types::Display {
            fn from(display: $crate::Display) -> Self {
                let $crate::Display { forms, is_result, .. } = display;
                let forms = forms.into_iter().map(|form| types::Form { media_type: form.media_type, data: form.data });
                Self { forms: forms.collect(), is_result }
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
                    // Always `Metering::Fuel`, because the contract offers no choice of metering.
                    metering: _,
                    // The contract reports these totals in `output.total-bytes`.
                    stdout_total_bytes: _,
                    stderr_total_bytes: _,
                } = metadata;
                Self { runtime: runtime.into(), runtime_name, version, prepared, image_sha256 }
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

        $crate::same_fields!($crate::session::Rollback => types::Rollback { checkpoint, executions_lost });
        $crate::same_fields!($crate::session::CheckpointInfo => types::CheckpointInfo {
            id, automatic, executions, private_bytes,
        });

        impl From<$crate::guidance::Guidance> for types::Guidance {
            fn from(guidance: $crate::guidance::Guidance) -> Self {
                let $crate::guidance::Guidance { fuel, advice } = guidance;
                Self { fuel: fuel.into(), advice: advice.into_iter().map(Into::into).collect() }
            }
        }

        impl From<$crate::guidance::Advice> for types::Advice {
            fn from(advice: $crate::guidance::Advice) -> Self {
                let $crate::guidance::Advice { kind, summary, steps, correction } = advice;
                let correction =
                    correction.map(|$crate::guidance::Correction { line, text }| types::Correction { line, text });
                Self { kind: kind.into(), summary, steps, correction }
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
    };
}
