//! Scripts in a language that no interpreter runs: before their execution they become scripts in one that does.
//!
//! TypeScript loses its types, and is JavaScript. Lines and columns stay what they were, so nothing after this stage has to know: what
//! it cost and what it found to be wrong goes with the request.

use glovebox_core::{GuestState, clipped};

use crate::{
    Diagnostic, ExecuteError, Language, Metering, Outcome, Resource, SourceKind,
    run::{PreparedRequest, Rejection, Translation},
    typescript::{self, Strip, Stripped, Wrong},
};

/// Makes of any request one that its interpreter understands. Where the script's name says that it is TypeScript, its types are removed.
/// That is on its bill; having what removes them fetched and compiled is not.
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

/// As when the interpreter does not understand it.
fn wrong_script(wrong: &Wrong, name: &str, fuel: u64) -> Rejection {
    Rejection {
        outcome: Outcome::Raised(wrong.raised(name)),
        diagnostic: wrong.diagnostic(),
        after: GuestState::Alive,
        charge: fuel,
    }
}

/// As when the execution is stopped before the guest is entered. What was stopped from outside may have used more than is known.
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
