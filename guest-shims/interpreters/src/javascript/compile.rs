//! Compiles source text, and chooses its grammar.

use super::{
    guest::{EVAL_ASYNC, EVAL_COMPILE_ONLY, EVAL_MODULE, EVAL_STRICT, JsValue},
    report::{Facts, Position},
    split::may_import,
    state::BootedGuest,
};
use crate::{DriverError, MachineError, Script, SourceKind, Value};

/// The size of the source buffer in every image, in bytes, including the terminating zero.
pub(super) const SOURCE_BYTES: u32 = 64 << 10;

/// The size of the buffer for a script's name, in bytes, including the terminating zero. A longer name is truncated.
pub(super) const NAME_BYTES: u32 = 4 << 10;

/// A grammar for parsing source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grammar {
    Script,
    /// A script with top-level `await`. The standard allows this `await` only in modules, whose variables are not
    /// global. Session users expect both: `await`, and variables that stay global.
    AsyncScript,
    Module,
}

impl Grammar {
    pub(super) fn flags(self, script: &Script<'_>) -> u32 {
        // A module's code is always strict.
        let strict = if is_module(script) { EVAL_STRICT } else { 0 };
        EVAL_COMPILE_ONLY
            | match self {
                Self::Script => strict,
                Self::AsyncScript => EVAL_ASYNC | strict,
                Self::Module => EVAL_MODULE,
            }
    }

    /// Returns `true` if running the program returns a promise.
    pub(super) fn is_async(self) -> bool {
        self != Self::Script
    }
}

/// Returns `true` if the caller or the file name requires a module.
fn is_module(script: &Script<'_>) -> bool {
    match script.kind {
        SourceKind::Script => false,
        SourceKind::Module => true,
        SourceKind::Detect => script.name.ends_with(".mjs"),
    }
}

/// Returns the grammars to try, in order. Only a source with `await`, `import` or `export` can need a grammar other
/// than a script's.
fn grammars(script: &Script<'_>) -> Vec<Grammar> {
    if is_module(script) {
        return vec![Grammar::Module];
    }
    let mut grammars = script_grammars(script);
    if script.kind == SourceKind::Detect && may_import(script.source) {
        grammars.push(Grammar::Module);
    }
    grammars
}

/// Returns the grammars of scripts to try, in order. In a plain script, `await (x)` is a call, so the grammar with
/// `await` comes first if the source contains the word.
fn script_grammars(script: &Script<'_>) -> Vec<Grammar> {
    let mut grammars = vec![Grammar::Script];
    if script.kind != SourceKind::Script && script.source.contains("await") {
        grammars.insert(0, Grammar::AsyncScript);
    }
    grammars
}

/// Returns `true` if a source that is or may be a module must keep its variables or return its value. The source then
/// runs as a script, without its imports and exports. Outside a session, a source that must be a module runs as a
/// module.
pub(super) fn keeps_bindings(script: &Script<'_>) -> bool {
    if is_module(script) {
        return !script.last;
    }
    script.kind == SourceKind::Detect && (script.wants_value || !script.last) && may_import(script.source)
}

/// The result of compiling a script.
pub(super) enum CompileOutcome {
    Program(JsValue, Grammar),
    /// Compiling failed. Holds the exception of the grammar that parsed furthest.
    Failed(JsValue, Facts),
    /// The source does not fit into memory.
    OutOfMemory,
}

impl BootedGuest<'_> {
    /// Copies text into guest memory, with a terminating zero. Returns `None` if the guest is out of memory.
    pub(super) fn copy_in(&mut self, text: &[u8]) -> Result<Option<u32>, DriverError> {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX).checked_add(1);
        let at = match bytes {
            Some(bytes) if bytes <= SOURCE_BYTES => Some(self.at.source),
            Some(bytes) => self.guest.allocate(bytes)?,
            None => None,
        };
        if let Some(at) = at {
            self.guest.write_text(at, text)?;
        }
        Ok(at)
    }

    /// Frees a copy made by [`BootedGuest::copy_in`].
    pub(super) fn free_copy(&mut self, at: u32) -> Result<(), DriverError> {
        if at != self.at.source {
            self.guest.release(at)?;
        }
        Ok(())
    }

    /// Evaluates text under the name in the image's buffer. Returns `None` if the guest is out of memory.
    pub(super) fn eval(&mut self, source: &str, flags: u32) -> Result<Option<JsValue>, DriverError> {
        let Some(at) = self.copy_in(source.as_bytes())? else { return Ok(None) };
        let bytes = u32::try_from(source.len()).unwrap_or(u32::MAX);
        let value = self.guest.eval(at, bytes, self.at.name, flags)?;
        self.free_copy(at)?;
        Ok(Some(value))
    }

    /// Compiles a script without running it.
    pub(super) fn compile(&mut self, script: &Script<'_>) -> Result<CompileOutcome, DriverError> {
        self.compile_as(script, &grammars(script))
    }

    /// Like [`BootedGuest::compile`], but never as a module.
    pub(super) fn compile_script(&mut self, script: &Script<'_>) -> Result<CompileOutcome, DriverError> {
        self.compile_as(script, &script_grammars(script))
    }

    fn compile_as(&mut self, script: &Script<'_>, grammars: &[Grammar]) -> Result<CompileOutcome, DriverError> {
        let Some(source) = self.copy_in(script.source.as_bytes())? else {
            return Ok(CompileOutcome::OutOfMemory);
        };
        let name = name_bytes(script.name);
        self.guest.write_text(self.at.name, &name)?;
        let compiled = self.try_grammars(script, source, grammars);
        self.free_copy(source)?;
        compiled
    }

    fn try_grammars(
        &mut self,
        script: &Script<'_>,
        source: u32,
        grammars: &[Grammar],
    ) -> Result<CompileOutcome, DriverError> {
        let bytes = u32::try_from(script.source.len()).unwrap_or(u32::MAX);
        let mut failures = Vec::new();
        for &grammar in grammars {
            let program = self.guest.eval(source, bytes, self.at.name, grammar.flags(script))?;
            if program.is_exception() {
                failures.push(self.guest.exception()?);
                continue;
            }
            for failure in failures {
                self.guest.free(failure)?;
            }
            return Ok(CompileOutcome::Program(program, grammar));
        }
        self.choose_failure(failures, script.name)
    }

    /// Chooses the exception to report. Prefers an exception that is not a syntax error in the source, and then the
    /// syntax error at the last position.
    fn choose_failure(&mut self, failures: Vec<JsValue>, name: &str) -> Result<CompileOutcome, DriverError> {
        let mut best: Option<(Position, JsValue, Facts)> = None;
        for failure in failures {
            let facts = self.facts(failure)?;
            // Any other error occurs after parsing: a failed import, an error in an imported file, or exhausted memory
            // or stack.
            let place = facts.position(name).filter(|_| facts.is_syntax_error()).unwrap_or(Position::END);
            if best.as_ref().is_some_and(|(farthest, ..)| *farthest >= place) {
                self.guest.free(failure)?;
            } else if let Some((_, replaced, _)) = best.replace((place, failure, facts)) {
                self.guest.free(replaced)?;
            }
        }
        Ok(best.map_or(CompileOutcome::OutOfMemory, |(_, failure, facts)| CompileOutcome::Failed(failure, facts)))
    }

    /// Sets a module's `import.meta.url` and `import.meta.main`.
    pub(super) fn describe_module(&mut self, module: JsValue) -> Result<(), DriverError> {
        let args = [Value::I32(self.at.context), Value::I64(module.0), Value::I32(0), Value::I32(1)];
        match self.guest.call_word("js_module_set_import_meta", &args) {
            Ok(0) => Ok(()),
            Ok(_) => Ok(self.guest.discard_exception()?),
            // A recipe may omit the function. If so, modules have an empty `import.meta`.
            Err(MachineError::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Frees an evaluated module that no other module can refer to. Returns `false` if the module stays. The
    /// interpreter never frees modules, because they refer to each other by address. Only modules loaded later can
    /// refer to this one.
    pub(super) fn free_module(&mut self, module: u32) -> Result<bool, DriverError> {
        let next = self.guest.read_word(module.saturating_add(self.at.module_link + 4))?;
        if next != self.at.modules {
            return Ok(false);
        }
        self.guest.call("js_free_module_def", &[self.at.context, module].map(Value::I32))?;
        Ok(true)
    }

    /// Hides a failed module from later imports of its name, unless modules were loaded after it. Does not free the
    /// module: imported modules that are still waiting refer to the failed module, and access it when they complete.
    pub(super) fn unlist_module(&mut self, program: JsValue) -> Result<(), DriverError> {
        let Some(module) = program.module() else { return Ok(()) };
        let link = module.saturating_add(self.at.module_link);
        let previous = self.guest.read_word(link)?;
        let next = self.guest.read_word(link.saturating_add(4))?;
        if next == self.at.modules {
            self.guest.write_word(previous.saturating_add(4), next)?;
            self.guest.write_word(next, previous)?;
        }
        Ok(())
    }
}

/// Returns the bytes of a name, truncated to the buffer and at the first NUL.
fn name_bytes(name: &str) -> Vec<u8> {
    let max = usize::try_from(NAME_BYTES - 1).unwrap_or_default();
    let end = name.floor_char_boundary(max);
    name.bytes().take(end).take_while(|byte| *byte != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_script<T>(source: &str, name: &str, kind: SourceKind, last: bool, read: fn(&Script<'_>) -> T) -> T {
        read(&Script { kind, last, ..Script::plain(source, name) })
    }

    fn detect_grammars(source: &str, name: &str) -> Vec<Grammar> {
        with_script(source, name, SourceKind::Detect, true, grammars)
    }

    #[test]
    fn await_and_import_select_the_grammars_to_try() {
        assert_eq!(detect_grammars("console.log(1)", "<sandbox>"), [Grammar::Script]);
        assert_eq!(detect_grammars("await f()", "<sandbox>"), [Grammar::AsyncScript, Grammar::Script]);
        assert_eq!(detect_grammars("import 'std'", "<sandbox>"), [Grammar::Script, Grammar::Module]);
        assert_eq!(detect_grammars("1", "a.mjs"), [Grammar::Module]);
    }

    #[test]
    fn a_session_keeps_the_bindings_of_every_module() {
        let keeps = |source, name, kind, last| with_script(source, name, kind, last, keeps_bindings);
        assert!(keeps("import 'std'", "a.js", SourceKind::Detect, false));
        assert!(keeps("1", "a.mjs", SourceKind::Detect, false));
        assert!(keeps("1", "a.js", SourceKind::Module, false));
        assert!(!keeps("1", "a.mjs", SourceKind::Script, false));
        assert!(!keeps("1", "a.mjs", SourceKind::Detect, true));
    }

    #[test]
    fn a_long_or_hostile_name_fits_its_buffer() {
        assert_eq!(name_bytes("a\0b"), b"a");
        assert_eq!(name_bytes(&"é".repeat(4096)).len(), 4094);
    }
}
