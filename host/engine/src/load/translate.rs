//! Translates scripts in languages without an interpreter into a language with one.
//!
//! Types are removed from TypeScript, which gives JavaScript. Lines and columns do not change, so later stages need no
//! mapping. The cost and the errors of the translation are part of the request.

use glovebox_core::{GuestState, clipped};

use crate::{
    Diagnostic, ExecuteError, Language, Metering, Outcome, Resource, SourceKind,
    exec::run::{PreparedRequest, Rejection, Translation},
    load::typescript::{self, Strip, Stripped, Wrong},
};

/// Translates a request for its interpreter. If the script's name marks it as TypeScript, its types are removed. This
/// counts towards the script's limits, but fetching and compiling the stripper does not.
pub(crate) fn translate(request: PreparedRequest<'_>) -> Result<PreparedRequest<'_>, ExecuteError> {
    match typescript_kind(&request) {
        Some(kind) => {
            let translation = strip(&request, kind)?;
            Ok(request.translated(translation))
        }
        None => Ok(request),
    }
}

fn typescript_kind(request: &PreparedRequest<'_>) -> Option<SourceKind> {
    let is_javascript = request.sandbox.language() == Language::JavaScript;
    typescript::kind_of(&request.name, request.kind).filter(|_| is_javascript)
}

fn strip(request: &PreparedRequest<'_>, kind: SourceKind) -> Result<Translation, ExecuteError> {
    let inner = &*request.sandbox.0;
    let stripper = inner.engine.0.stripper().map_err(|source| ExecuteError::TypeScript {
        name: clipped(&request.name).to_owned(),
        source: Box::new(source),
    })?;
    let limits = &inner.policy.limits;
    let ctx = request.ctx();
    let begun = *ctx.watch();
    let strip = Strip {
        source: &request.source,
        name: &request.name,
        kind,
        fuel: (inner.policy.metering == Metering::Fuel).then(|| request.budget.within(limits.fuel)),
        memory_bytes: limits.memory_bytes,
        timeout_ms: limits.timeout_ms,
        ctx,
    };
    let (stripped, fuel) =
        inner.engine.0.on_stack(|| stripper.strip(strip))?.map_err(|reason| ExecuteError::Instantiate { reason })?;
    let source = match stripped {
        Stripped::Plain(plain) => Ok(plain),
        Stripped::Wrong(wrong) => Err(wrong_script(&wrong, &request.name, fuel)),
        Stripped::Stopped(outcome) => Err(stopped(outcome, fuel)),
    };
    Ok(Translation { source, kind, fuel, begun })
}

/// Reports the error as a syntax error of the interpreter.
fn wrong_script(wrong: &Wrong, name: &str, fuel: u64) -> Rejection {
    Rejection {
        outcome: Outcome::Raised(wrong.raised(name)),
        diagnostic: wrong.diagnostic(),
        after: GuestState::Alive,
        charge: fuel,
    }
}

/// Reports the outcome of an execution that was stopped before the guest is entered. If it was stopped from outside,
/// the fuel used is only a lower bound, so the whole budget is charged.
fn stopped(outcome: Outcome, fuel: u64) -> Rejection {
    let is_known = !matches!(outcome, Outcome::Cancelled | Outcome::Exhausted { resource: Resource::Time, .. });
    let message = format!("the parser was stopped: {}", outcome.describe());
    Rejection {
        outcome,
        diagnostic: Diagnostic { line: 1, column: 1, message },
        after: GuestState::Untouched,
        charge: if is_known { fuel } else { u64::MAX },
    }
}
