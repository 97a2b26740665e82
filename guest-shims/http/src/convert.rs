//! Conversions of the contract's results to types of `glovebox-core`, whose JSON forms `glovebox serve` answers with.

use std::time::Duration;

use glovebox_core::{
    GuestValue, Language, Metadata, Metering, Outcome, Output, RaisedOutcome, Resource, TrapKind,
    guidance::{Advice, AdviceKind, Correction, FuelAnalysis, FuelStatus, Guidance},
    session::{CheckpointId, Rollback},
    tools::{ToolErrorKind, ToolOutcome, ToolRecord},
};
use glovebox_guest as wit;

/// Defines functions between enumerations with the same cases.
macro_rules! same_cases {
    ($($(#[$meta:meta])* $name:ident: $from:ty => $to:ty { $($case:ident),* $(,)? })*) => {
        $($(#[$meta])* fn $name(value: $from) -> $to {
            match value {
                $(<$from>::$case => <$to>::$case),*
            }
        })*
    };
}

same_cases! {
    resource: wit::ResourceKind => Resource { Fuel, Time, Memory }
    trap: wit::TrapKind => TrapKind { StackOverflow, Unreachable, OutOfBounds, BadCall, Arithmetic, BadReport, Other }
    tool_error: wit::ToolError => ToolErrorKind { Failed, Limit, Timeout, Unknown, InvalidArguments }
    fuel_status: wit::FuelStatus => FuelStatus { Efficient, Moderate, Warning, Critical, Exhausted }
    advice_kind: wit::AdviceKind => AdviceKind {
        Fuel, Time, Memory, CallDepth, Output, Module, Syntax, TypescriptSyntax, Path, Network, Subprocess, Threads, Input,
        Environment,
    }
}

pub(crate) fn language(language: wit::Language) -> Language {
    match language {
        wit::Language::Python => Language::Python,
        wit::Language::Javascript => Language::JavaScript,
    }
}

pub(crate) fn outcome(outcome: wit::Outcome) -> Outcome {
    match outcome {
        wit::Outcome::Completed => Outcome::Completed,
        wit::Outcome::Exited(code) => Outcome::Exited { code },
        wit::Outcome::Raised(it) => Outcome::Raised(raised(it)),
        wit::Outcome::Exhausted(wit::Exhausted { resource: what, limit, used }) => {
            Outcome::Exhausted { resource: resource(what), limit, used }
        }
        wit::Outcome::Cancelled => Outcome::Cancelled,
        wit::Outcome::Trapped(kind) => Outcome::Trapped { trap: trap(kind) },
    }
}

pub(crate) fn raised(raised: wit::Raised) -> RaisedOutcome {
    let wit::Raised { type_name, message, traceback, line } = raised;
    RaisedOutcome { type_name, message, traceback, line }
}

pub(crate) fn value(wit::GuestValue { repr, json }: wit::GuestValue) -> GuestValue {
    GuestValue { repr, json }
}

pub(crate) fn rollback(wit::Rollback { checkpoint, executions_lost }: wit::Rollback) -> Rollback {
    Rollback { checkpoint: CheckpointId(checkpoint), executions_lost }
}

pub(crate) fn tool_record(record: wit::ToolRecord) -> ToolRecord {
    let wit::ToolRecord { name, arguments, outcome, started_ns, duration_ns } = record;
    let outcome = match outcome {
        wit::ToolOutcome::Returned(result) => ToolOutcome::Returned(result),
        wit::ToolOutcome::Failed(wit::ToolFailure { kind, message }) => {
            ToolOutcome::Failed { kind: tool_error(kind), message }
        }
        wit::ToolOutcome::Unfinished => ToolOutcome::Unfinished,
    };
    let (started, duration) = (Duration::from_nanos(started_ns), Duration::from_nanos(duration_ns));
    ToolRecord { name, arguments, outcome, started, duration }
}

pub(crate) fn guidance(wit::Guidance { fuel, advice }: wit::Guidance) -> Guidance {
    let wit::FuelAnalysis { used, limit, utilization_percent, status, suggested_limit, likely_causes } = fuel;
    let status = fuel_status(status);
    let fuel = FuelAnalysis { used, limit, utilization_percent, status, suggested_limit, likely_causes };
    let advice = advice.into_iter().map(|wit::Advice { kind, summary, steps, correction }| {
        let correction = correction.map(|wit::Correction { line, text }| Correction { line, text });
        Advice { kind: advice_kind(kind), summary, steps, correction }
    });
    Guidance { fuel, advice: advice.collect() }
}

/// Converts the metadata. In the contract, the totals are stored with the streams.
pub(crate) fn metadata(metadata: wit::Metadata, stdout: &Output, stderr: &Output) -> Metadata {
    let wit::Metadata { runtime, runtime_name, version, prepared, image_sha256 } = metadata;
    Metadata {
        runtime: language(runtime),
        runtime_name,
        version,
        prepared,
        image_sha256,
        // Providers always count fuel.
        metering: Metering::Fuel,
        stdout_total_bytes: stdout.total_bytes,
        stderr_total_bytes: stderr.total_bytes,
    }
}
