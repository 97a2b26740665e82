//! Executes a script: runs the script, runs its remaining jobs and timers, and flushes its open files.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    compile::{CompileOutcome, Grammar, keeps_bindings},
    declare::ProgramOutcome,
    guest::{JsValue, PROMISE_FULFILLED, PROMISE_PENDING},
    report::Facts,
    split::{Split, replace_expressions, split},
    state::BootedGuest,
};
use crate::{DriverError, GuestValue, RaisedOutcome, Report, Script, SourceKind, Value};

/// The name of a script without a file. An image's `scriptArgs` already contains this name.
const DEFAULT_NAME: &str = "<sandbox>";

/// Maximum number of queued jobs that `abandon` runs to empty the queue. The loop needs a limit because a job can queue
/// other jobs.
const MAX_ABANDONED_JOBS: u32 = 1_000_000;

/// The argument of `prepare` in `driver.js`.
#[derive(Serialize)]
struct Input<'a> {
    name: &'a str,
    args: &'a [String],
    env: BTreeMap<&'a str, &'a str>,
    stdin: bool,
}

/// Returns `true` if the script has the input that `prepare` passed when the image was booted.
fn has_image_input(script: &Script<'_>) -> bool {
    script.name == DEFAULT_NAME && script.args.is_empty() && script.env.is_empty() && !script.has_stdin
}

/// The result of running a script's code, jobs and timers.
enum Completion {
    Done(Option<GuestValue>),
    Threw(JsValue),
    Refused(RaisedOutcome),
}

fn out_of_memory(name: &str) -> Completion {
    Completion::Refused(Facts::out_of_memory().into_raised(name))
}

impl BootedGuest<'_> {
    pub(super) fn execute(&mut self, script: &Script<'_>) -> Result<Report, DriverError> {
        match replace_expressions(script.source) {
            Some(source) => self.execute_plain(&Script { source: &source, ..*script }),
            None => self.execute_plain(script),
        }
    }

    /// Executes a script in which `import` expressions have been replaced.
    fn execute_plain(&mut self, script: &Script<'_>) -> Result<Report, DriverError> {
        // Clear an interrupt that arrived after its script had ended.
        self.take_interrupt()?;
        let mut module = None;
        let ending = if self.hand_over(script)? {
            self.compile_and_run(script, &mut module)?
        } else {
            out_of_memory(script.name)
        };
        let missed = self.has_missed_interrupt()?;
        let interrupt = self.take_interrupt()?;
        // `std.exit` unwinds with an exception, which native code may have swallowed.
        let exit = self.state()?.exit;
        let report = match (exit, ending) {
            (Some(code), ending) => {
                if let Completion::Threw(thrown) = ending {
                    self.guest.free(thrown)?;
                }
                Report::Exited(code)
            }
            (None, Completion::Done(value)) => match interrupt.filter(|_| missed) {
                None => match self.leaving()? {
                    None => Report::Completed(value),
                    Some(code) => Report::Exited(code),
                },
                // The interrupt ended a wait, and no later code checked for an interrupt.
                Some(why) => {
                    let raised = Facts::default().into_stopped(why, script.name);
                    self.print_error(&raised.traceback)?;
                    Report::Interrupted(raised)
                }
            },
            (None, Completion::Threw(thrown)) => self.report_uncaught(thrown, interrupt, script.name)?,
            (None, Completion::Refused(raised)) => match interrupt {
                None => Report::Raised(raised),
                // The interrupt stopped driver code, which therefore refused the script.
                Some(why) => Report::Interrupted(Facts::default().into_stopped(why, script.name)),
            },
        };
        if !script.last {
            if !matches!(report, Report::Completed(_)) {
                self.abandon()?;
            } else if self.has_litter()? {
                self.ask_settled(self.at.forget, &[])?;
            }
            if let Some(module) = module {
                self.free_module(module)?;
            }
        }
        self.guest.flush()?;
        Ok(report)
    }

    /// Reports an uncaught value, and consumes it.
    fn report_uncaught(&mut self, thrown: JsValue, interrupt: Option<&str>, name: &str) -> Result<Report, DriverError> {
        let thrown = match interrupt {
            None => thrown,
            Some(why) => match self.interrupted(thrown, why, name)? {
                Ok(raised) => return Ok(Report::Interrupted(raised)),
                Err(thrown) => thrown,
            },
        };
        Ok(Report::Raised(self.report(thrown, name)?))
    }

    /// Passes arguments, environment and standard input to the guest. Does nothing if the script needs the image's
    /// input and the guest still has it. Returns `false` if the guest is out of memory.
    fn hand_over(&mut self, script: &Script<'_>) -> Result<bool, DriverError> {
        let has_image_input = has_image_input(script);
        if has_image_input && self.state()?.has_image_input {
            return Ok(true);
        }
        let env = script.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let input = Input { name: script.name, args: script.args, env, stdin: true };
        let json = serde_json::to_string(&input).map_err(|error| DriverError::Report(error.to_string()))?;
        let Some(parsed) = self.try_parse_json("input", &json)? else { return Ok(false) };
        let done = self.ask(self.at.prepare, &[parsed])?;
        self.guest.free(parsed)?;
        self.set_image_input(has_image_input)?;
        Ok(done.is_some())
    }

    /// Compiles and runs the script. Sets `module` to the script's module if its evaluation has ended.
    fn compile_and_run(&mut self, script: &Script<'_>, module: &mut Option<u32>) -> Result<Completion, DriverError> {
        if keeps_bindings(script) {
            self.import_named(script)?;
            match self.compile_script(script)? {
                CompileOutcome::Program(program, grammar) => return self.run_program(script, program, grammar, module),
                CompileOutcome::Failed(thrown, _) => self.guest.free(thrown)?,
                CompileOutcome::OutOfMemory => return Ok(out_of_memory(script.name)),
            }
            if let Some(split) = split(script.source)
                && let Some(ending) = self.run_split(script, &split, module)?
            {
                return Ok(ending);
            }
        }
        match self.compile_importing(script)? {
            CompileOutcome::Program(program, grammar) => self.run_program(script, program, grammar, module),
            CompileOutcome::Failed(thrown, _) => Ok(Completion::Threw(thrown)),
            CompileOutcome::OutOfMemory => Ok(out_of_memory(script.name)),
        }
    }

    /// Runs the module with the script's imports, and then the rest of the script. If the rest does not compile, returns
    /// `None` without running anything.
    fn run_split(
        &mut self,
        script: &Script<'_>,
        split: &Split,
        module: &mut Option<u32>,
    ) -> Result<Option<Completion>, DriverError> {
        let rest = Script { source: &split.script, ..*script };
        let (program, grammar) = match self.compile_script(&rest)? {
            CompileOutcome::Program(program, grammar) => (program, grammar),
            CompileOutcome::Failed(thrown, _) => {
                self.guest.free(thrown)?;
                return Ok(None);
            }
            CompileOutcome::OutOfMemory => return Ok(Some(out_of_memory(script.name))),
        };
        let imports = Script { source: &split.imports, kind: SourceKind::Module, ..*script };
        if let Some(ending) = self.bind_imports(&imports)? {
            self.guest.free(program)?;
            return Ok(Some(ending));
        }
        self.run_program(&rest, program, grammar, module).map(Some)
    }

    /// Runs the module with a script's imports. Returns a completion if the module ends the execution.
    fn bind_imports(&mut self, imports: &Script<'_>) -> Result<Option<Completion>, DriverError> {
        let program = match self.compile_importing(imports)? {
            CompileOutcome::Program(program, _) => program,
            CompileOutcome::Failed(thrown, _) => return Ok(Some(Completion::Threw(thrown))),
            CompileOutcome::OutOfMemory => return Ok(Some(out_of_memory(imports.name))),
        };
        let lexicals = self.lexicals()?;
        self.ask(self.at.expect_imports, &[lexicals])?;
        let mut module = None;
        // A module has no value to report.
        let imports = Script { wants_value: false, ..*imports };
        let ending = self.run_program(&imports, program, Grammar::Module, &mut module)?;
        if let Some(module) = module {
            self.free_module(module)?;
        }
        Ok(match ending {
            Completion::Done(_) if self.state()?.exit.is_none() => None,
            ending => Some(ending),
        })
    }

    /// Runs a compiled program, and then its jobs and timers.
    fn run_program(
        &mut self,
        script: &Script<'_>,
        program: JsValue,
        grammar: Grammar,
        module: &mut Option<u32>,
    ) -> Result<Completion, DriverError> {
        if grammar == Grammar::Module {
            self.describe_module(program)?;
        }
        let result = match self.start(script, program, grammar)? {
            ProgramOutcome::Value(result) => result,
            ProgramOutcome::Threw(thrown) => {
                let thrown = if grammar == Grammar::Module { self.link_error(thrown, script)? } else { thrown };
                // An interrupt may have left the module's evaluation incomplete.
                if self.state()?.exit.is_none() && !self.is_interrupted()? {
                    self.unlist_module(program)?;
                }
                return match self.uncaught(thrown, JsValue::UNDEFINED)? {
                    Some(thrown) => Ok(Completion::Threw(thrown)),
                    None => self.drain(JsValue::UNDEFINED),
                };
            }
        };
        let main = if grammar.is_async() { result } else { JsValue::UNDEFINED };
        let mut ending = self.drain(main)?;
        if grammar == Grammar::Module {
            match self.promise_state(result)? {
                // The module may continue in a later execution.
                PROMISE_PENDING => {}
                PROMISE_FULFILLED => *module = program.module(),
                _ => self.unlist_module(program)?,
            }
        }
        if matches!(ending, Completion::Done(_)) && self.state()?.exit.is_none() {
            if grammar.is_async() && self.promise_state(result)? == PROMISE_PENDING {
                ending = self.never_ends()?;
            } else if script.wants_value {
                ending = self.finish(result, grammar)?;
            }
        }
        self.guest.free(result)?;
        Ok(ending)
    }

    /// Improves the error for importing a name that the module does not export. Returns any other value unchanged.
    fn link_error(&mut self, thrown: JsValue, script: &Script<'_>) -> Result<JsValue, DriverError> {
        let is_stopped = self.state()?.exit.is_some() || self.is_interrupted()?;
        if is_stopped || thrown.address().is_none() {
            return Ok(thrown);
        }
        if !self.text_property(thrown, "message")?.starts_with("Could not find export '") {
            return Ok(thrown);
        }
        let facts = self.facts(thrown)?;
        if facts.is_syntax_error() { self.import_error(thrown, &facts, script) } else { Ok(thrown) }
    }

    /// Takes the value from a program's result. Inspecting the value may run code of the script, such as a Proxy's
    /// handlers.
    fn finish(&mut self, result: JsValue, grammar: Grammar) -> Result<Completion, DriverError> {
        let value = match grammar {
            Grammar::Script => self.guest.hold(result)?,
            // The interpreter wraps the value in an object, so that a promise is not awaited.
            Grammar::AsyncScript if self.promise_state(result)? == PROMISE_FULFILLED => {
                let holder = self.promise_result(result)?;
                self.guest.write_text(self.at.key, b"value")?;
                let value = self.guest.property(holder, self.at.key)?;
                self.guest.free(holder)?;
                value
            }
            // A module has no value to report.
            Grammar::AsyncScript | Grammar::Module => JsValue::UNDEFINED,
        };
        let value = self.unwrap_promise(value)?;
        if value.is_undefined() {
            return Ok(Completion::Done(None));
        }
        let shown = self.show(value)?;
        self.guest.free(value)?;
        match shown {
            Ok(shown) => Ok(match self.drain(JsValue::UNDEFINED)? {
                Completion::Done(_) => Completion::Done(Some(shown)),
                other => other,
            }),
            Err(thrown) => Ok(Completion::Threw(thrown)),
        }
    }

    /// Returns the result of a fulfilled promise, and any other value unchanged. Consumes the argument.
    fn unwrap_promise(&mut self, value: JsValue) -> Result<JsValue, DriverError> {
        if value.address().is_none() || self.promise_state(value)? != PROMISE_FULFILLED {
            return Ok(value);
        }
        let result = self.promise_result(value)?;
        self.guest.free(value)?;
        Ok(result)
    }

    /// Passes an uncaught value to the script's own listeners, with its rejected promise or `undefined`. Consumes the
    /// value. Returns the value that ends the execution: the uncaught value, or an exception from a listener. Returns
    /// `None` if a listener handled the value.
    fn uncaught(&mut self, thrown: JsValue, promise: JsValue) -> Result<Option<JsValue>, DriverError> {
        if !self.is_listening()? || self.state()?.exit.is_some() || self.is_interrupted()? {
            return Ok(Some(thrown));
        }
        let taken = self.guest.apply(JsValue::object(self.at.uncaught), &[thrown, promise])?;
        if taken == JsValue::int(0) {
            return Ok(Some(thrown));
        }
        self.guest.free(thrown)?;
        if taken.is_exception() { Ok(Some(self.guest.exception()?)) } else { Ok(None) }
    }

    /// Runs jobs and timers, and waits for replies from the host, until no work is left or an error has no listener.
    /// `main` is the script's own promise, or `undefined`.
    fn drain(&mut self, main: JsValue) -> Result<Completion, DriverError> {
        loop {
            while let Some(completed) = self.guest.job()? {
                if !completed {
                    let thrown = self.guest.exception()?;
                    if let Some(thrown) = self.uncaught(thrown, JsValue::UNDEFINED)? {
                        return Ok(Completion::Threw(thrown));
                    }
                }
            }
            let state = self.state()?;
            if state.exit.is_some() {
                return Ok(Completion::Done(None));
            }
            if self.take_wanted_packages()? {
                self.add_packages(None)?;
                continue;
            }
            // As in Node, a rejection that is still unhandled after all jobs is an uncaught error.
            if let Some((promise, reason)) = self.rejection()? {
                let (promise, reason) = (self.guest.hold(promise)?, self.guest.hold(reason)?);
                self.guest.mark_handled(promise, reason)?;
                let ended = self.uncaught(reason, if promise == main { JsValue::UNDEFINED } else { promise })?;
                self.guest.free(promise)?;
                match ended {
                    Some(thrown) => return Ok(Completion::Threw(thrown)),
                    None => continue,
                }
            }
            if state.waiting == 0 {
                return Ok(Completion::Done(None));
            }
            let callback = self.guest.apply(JsValue::object(self.at.tick), &[])?;
            if callback.is_exception() {
                // Driver code threw the exception, or the host has stopped the guest.
                return Ok(Completion::Threw(self.guest.exception()?));
            }
            if callback.is_undefined() {
                continue;
            }
            let result = self.guest.apply(callback, &[])?;
            self.guest.free(callback)?;
            if result.is_exception() {
                let thrown = self.guest.exception()?;
                match self.uncaught(thrown, JsValue::UNDEFINED)? {
                    Some(thrown) => return Ok(Completion::Threw(thrown)),
                    None => continue,
                }
            }
            self.guest.free(result)?;
        }
    }

    pub(super) fn promise_state(&mut self, promise: JsValue) -> Result<u32, DriverError> {
        let args = [Value::I32(self.at.context), Value::I64(promise.0)];
        Ok(self.guest.call_word("JS_PromiseState", &args)?)
    }

    /// Returns the result of a settled promise. The caller owns the reference.
    pub(super) fn promise_result(&mut self, promise: JsValue) -> Result<JsValue, DriverError> {
        let args = [Value::I32(self.at.context), Value::I64(promise.0)];
        Ok(self.guest.call_value("JS_PromiseResult", &args)?)
    }

    /// Reports a script whose top-level `await` will never be settled.
    fn never_ends(&mut self) -> Result<Completion, DriverError> {
        let message = "the top-level `await` never settles: nothing is left to run";
        let raised = RaisedOutcome {
            type_name: "Error".to_owned(),
            message: message.to_owned(),
            traceback: format!("Error: {message}"),
            line: None,
        };
        self.print_error(&raised.traceback)?;
        Ok(Completion::Refused(raised))
    }

    /// Prints a line from the driver to the guest's standard error.
    pub(super) fn print_error(&mut self, line: &str) -> Result<(), DriverError> {
        let text = format!("{line}\n");
        let Some(string) = self.string(&text)? else { return Ok(()) };
        self.ask_settled(self.at.complain, &[string])?;
        Ok(self.guest.free(string)?)
    }

    /// Discards the jobs, timers and rejections of an execution that failed or exited, so that the session's next
    /// execution does not run them.
    fn abandon(&mut self) -> Result<(), DriverError> {
        // Without a stack, every function that a job calls throws immediately.
        self.guest.write_word(self.at.stack_limit_at, u32::MAX)?;
        for _ in 0..MAX_ABANDONED_JOBS {
            match self.guest.job()? {
                None => break,
                Some(true) => {}
                Some(false) => self.guest.discard_exception()?,
            }
        }
        self.guest.write_word(self.at.stack_limit_at, self.at.stack_limit)?;
        self.forget_rejections()?;
        self.ask_settled(self.at.reset, &[])?;
        Ok(())
    }
}
