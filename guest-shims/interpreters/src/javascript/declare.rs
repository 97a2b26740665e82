//! Redeclares global bindings in later executions, as browser consoles allow.
//!
//! In the language, a top-level `let`, `const` or `class` can be declared only once. Session users declare the same
//! names repeatedly: to try another value, or because the first attempt threw and left the name in its dead zone.
//!
//! QuickJS checks all declarations of a script before running it. If a script throws and the number of bindings is
//! unchanged, either this check rejected the script before any of it ran, or the script declares no name that is
//! already bound. To distinguish these cases, the driver obtains the declared names from the interpreter: it runs the
//! same source after a `throw`, with two empty tables that the interpreter fills with the declarations. If some of the
//! names are bound, the driver frees them and runs the script again.
//!
//! Functions that were created earlier look up a global name on each use, so they see the new binding.

use super::{
    compile::Grammar,
    guest::{JsValue, PROMISE_REJECTED},
    state::BootedGuest,
};
use crate::{DriverError, Script};

/// The result of running a compiled program.
pub(super) enum ProgramOutcome {
    /// The program's value, or a promise of the value.
    Value(JsValue),
    /// The exception that the program threw before it first waited.
    Threw(JsValue),
}

impl BootedGuest<'_> {
    /// Runs a compiled program. If a session's program redeclares names, frees the names and runs the program again.
    pub(super) fn start(
        &mut self,
        script: &Script<'_>,
        program: JsValue,
        grammar: Grammar,
    ) -> Result<ProgramOutcome, DriverError> {
        // A module's bindings are local. A script that runs only once can redeclare only bindings of its image.
        if (script.last && self.at.bindings == 0) || grammar == Grammar::Module {
            return self.run(program, grammar);
        }
        let spare = self.guest.hold(program)?;
        let before = self.binding_count()?;
        let started = self.run(program, grammar)?;
        if let ProgramOutcome::Threw(thrown) = started
            && self.state()?.exit.is_none()
            && !self.is_interrupted()?
            && self.binding_count()? == before
            && self.free_names(script, grammar)?
        {
            self.guest.free(thrown)?;
            return self.run(spare, grammar);
        }
        self.guest.free(spare)?;
        Ok(started)
    }

    fn run(&mut self, program: JsValue, grammar: Grammar) -> Result<ProgramOutcome, DriverError> {
        let result = self.guest.run(program)?;
        if result.is_exception() {
            return Ok(ProgramOutcome::Threw(self.guest.exception()?));
        }
        if grammar.is_async() && result.address().is_some() && self.promise_state(result)? == PROMISE_REJECTED {
            let reason = self.promise_result(result)?;
            self.guest.mark_handled(result, reason)?;
            self.guest.free(result)?;
            return Ok(ProgramOutcome::Threw(reason));
        }
        Ok(ProgramOutcome::Value(result))
    }

    /// Returns the number of global bindings; `None` if the guest cannot determine it.
    fn binding_count(&mut self) -> Result<Option<JsValue>, DriverError> {
        let lexicals = self.lexicals()?;
        self.ask(self.at.count, &[lexicals])
    }

    /// Removes the bindings that the script redeclares. Returns `false` if there are no such bindings, or if the
    /// bindings cannot be determined.
    fn free_names(&mut self, script: &Script<'_>, grammar: Grammar) -> Result<bool, DriverError> {
        let lexicals = self.lexicals()?;
        let Some(lexical) = self.ask(self.at.blank, &[])? else { return Ok(false) };
        let Some(other) = self.ask(self.at.blank, &[])? else {
            self.guest.free(lexical)?;
            return Ok(false);
        };
        let mut removed = None;
        if self.declare_only(script, grammar, [other, lexical])? {
            removed = self.ask(self.at.redeclare, &[lexicals, lexical, other])?;
        }
        self.guest.free(other)?;
        self.guest.free(lexical)?;
        Ok(removed.is_some_and(|count| count != JsValue::int(0)))
    }

    /// Runs only a script's declarations. `tables` temporarily replace the global object and the table of bindings.
    /// Returns `false` if the declarations were not created.
    fn declare_only(
        &mut self,
        script: &Script<'_>,
        grammar: Grammar,
        tables: [JsValue; 2],
    ) -> Result<bool, DriverError> {
        // A `#!` line is a comment only at the very start of a source, so it must be turned into a normal comment.
        let lead = if script.source.starts_with("#!") { "throw 0;//" } else { "throw 0;\n" };
        let source = format!("{lead}{}", script.source);
        let Some(program) = self.eval(&source, grammar.flags(script))? else { return Ok(false) };
        if program.is_exception() {
            self.guest.discard_exception()?;
            return Ok(false);
        }
        let places = [self.at.global, self.at.global.saturating_add(8)];
        let mut real = [0; 2];
        for ((place, table), real) in places.iter().zip(tables).zip(&mut real) {
            *real = self.guest.read_long(*place)?;
            self.guest.machine.write(*place, &table.0.to_le_bytes())?;
        }
        let started = self.run(program, grammar);
        for (place, real) in places.iter().zip(real) {
            self.guest.machine.write(*place, &real.to_le_bytes())?;
        }
        let (ProgramOutcome::Value(value) | ProgramOutcome::Threw(value)) = started?;
        self.guest.free(value)?;
        // Any other value was thrown before the declarations were created.
        Ok(value == JsValue::int(0))
    }
}
