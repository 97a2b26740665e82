//! A TypeScript script on its way to the interpreter.

use glovebox_core::{CallResult, GuestMachine as _, GuestState, clipped};

use crate::{
    Diagnostic, ExecuteError, Language, Outcome, Resource,
    guest::Guest,
    platform::{EnginePlatform, Stopwatch},
    typescript::{self, Strip, Stripped},
};

use super::PreparedRequest;

/// What became of a script's types, and what it cost.
pub(super) struct Types {
    pub(super) stripped: Stripped,
    pub(super) fuel: u64,
    /// When its time began.
    pub(super) begun: Stopwatch,
}

impl PreparedRequest<'_> {
    /// Has the script lose its types where its name says that it is TypeScript. That is on its bill; having what removes them
    /// fetched and compiled is not. What is wrong with the script is for [`execute`](Self::execute) to say.
    pub(crate) fn strip(&mut self) -> Result<(), ExecuteError> {
        let inner = &*self.sandbox.0;
        let is_javascript = inner.runtime.language == Language::JavaScript;
        let Some(kind) = typescript::kind_of(self.name, self.kind).filter(|_| is_javascript) else {
            return Ok(());
        };
        self.kind = kind;
        let stripper = inner.engine.0.stripper().map_err(|source| ExecuteError::TypeScript {
            name: clipped(self.name).to_owned(),
            source: Box::new(source),
        })?;
        let limits = &inner.policy.limits;
        let ctx = self.cancelled(EnginePlatform::new(self.cancel.clone()).begin(limits.timeout()));
        let begun = *ctx.watch();
        let strip = Strip {
            source: self.source,
            name: self.name,
            kind,
            fuel: self.budget.within(limits.fuel),
            memory_bytes: limits.memory_bytes,
            timeout_ms: limits.timeout_ms,
            ctx,
        };
        let (stripped, fuel) = inner
            .engine
            .0
            .on_stack(|| stripper.strip(strip))?
            .map_err(|reason| ExecuteError::Instantiate { reason })?;
        self.types = Some(Types { stripped, fuel, begun });
        Ok(())
    }

    /// What validation says of a script that does not come to the interpreter; none of one that does.
    pub(crate) fn diagnostics(&self) -> Option<Vec<Diagnostic>> {
        let Types { stripped, fuel, .. } = self.types.as_ref()?;
        let diagnostic = match stripped {
            Stripped::Plain(_) => return None,
            Stripped::Wrong(wrong) => wrong.diagnostic(),
            Stripped::Stopped(outcome) => {
                Diagnostic { line: 1, column: 1, message: format!("the parser was stopped: {}", outcome.describe()) }
            }
        };
        self.spend(stripped, *fuel);
        Some(vec![diagnostic])
    }

    /// What a script did that does not come to the interpreter; none of one that does.
    pub(super) fn refused(&self, guest: &Guest) -> Option<CallResult> {
        let Types { stripped, fuel, .. } = self.types.as_ref()?;
        let (outcome, after) = match stripped {
            Stripped::Plain(_) => return None,
            // As when the interpreter does not understand it.
            Stripped::Wrong(wrong) => (Outcome::Raised(wrong.raised(self.name)), GuestState::Alive),
            Stripped::Stopped(outcome) => (outcome.clone(), GuestState::Untouched),
        };
        self.spend(stripped, *fuel);
        Some(CallResult {
            outcome,
            interrupted: None,
            value: None,
            fuel_consumed: *fuel,
            memory_used_bytes: guest.machine.host().limiter.used_bytes(),
            memory_refused_bytes: None,
            after,
        })
    }

    /// Takes from the budget what removing types cost. What was stopped from outside may have used more than is known.
    fn spend(&self, stripped: &Stripped, fuel: u64) {
        let is_known = !matches!(
            stripped,
            Stripped::Stopped(Outcome::Cancelled | Outcome::Exhausted { resource: Resource::Time, .. })
        );
        self.budget.spend(if is_known { fuel } else { u64::MAX });
    }
}
