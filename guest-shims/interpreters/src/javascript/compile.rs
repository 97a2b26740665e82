//! From source text to something that runs: which of the language's grammars a source is written in.

use crate::{DriverError, MachineError, Script, SourceKind, Value};

use super::{
    guest::{EVAL_ASYNC, EVAL_COMPILE_ONLY, EVAL_MODULE},
    report::{Facts, Position},
    state::Booted,
    value::JsValue,
};

/// Sources up to this size, with their terminating zero, go into a buffer that every image has.
pub(super) const SOURCE_BYTES: u32 = 64 << 10;

/// The script's name with its terminating zero; a longer one is cut.
pub(super) const NAME_BYTES: u32 = 4 << 10;

/// A grammar to read a source by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grammar {
    /// A script.
    Script,
    /// A script that may wait at its top: not in the standard, but what a session's user expects of `await`, since
    /// its variables stay global.
    AsyncScript,
    /// A module.
    Module,
}

impl Grammar {
    pub(super) fn flags(self) -> u32 {
        EVAL_COMPILE_ONLY
            | match self {
                Self::Script => 0,
                Self::AsyncScript => EVAL_ASYNC,
                Self::Module => EVAL_MODULE,
            }
    }

    /// Whether running it gives a promise.
    pub(super) fn is_async(self) -> bool {
        self != Self::Script
    }
}

/// The grammars to try, in order. Only a source with the word in it can need another than a script's, and
/// `await (x)` is a call in a script: so where the word stands, waiting is tried first.
fn grammars(script: &Script<'_>) -> Vec<Grammar> {
    let source = script.source;
    match script.kind {
        SourceKind::Script => vec![Grammar::Script],
        SourceKind::Module => vec![Grammar::Module],
        SourceKind::Detect if script.name.ends_with(".mjs") => vec![Grammar::Module],
        SourceKind::Detect => {
            let mut grammars = vec![Grammar::Script];
            if source.contains("await") {
                grammars.insert(0, Grammar::AsyncScript);
            }
            if source.contains("import") || source.contains("export") {
                grammars.push(Grammar::Module);
            }
            grammars
        }
    }
}

/// What compiling gave.
pub(super) enum Compiled {
    /// Something to run.
    Program(JsValue, Grammar),
    /// The exception of the grammar that got farthest.
    Failed(JsValue, Facts),
    /// There is not even memory for the source.
    OutOfMemory,
}

impl Booted<'_> {
    /// Puts text where the guest can read it. `None` if the guest is out of memory.
    pub(super) fn place(&mut self, text: &[u8]) -> Result<Option<u32>, DriverError> {
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

    /// Undoes [`Booted::place`].
    pub(super) fn displace(&mut self, at: u32) -> Result<(), DriverError> {
        if at != self.at.source {
            self.guest.release(at)?;
        }
        Ok(())
    }

    /// Compiles a script without running any of it.
    pub(super) fn compile(&mut self, script: &Script<'_>) -> Result<Compiled, DriverError> {
        let Some(source) = self.place(script.source.as_bytes())? else {
            return Ok(Compiled::OutOfMemory);
        };
        let name = name_bytes(script.name);
        self.guest.write_text(self.at.name, &name)?;
        let compiled = self.try_grammars(script, source);
        self.displace(source)?;
        compiled
    }

    fn try_grammars(&mut self, script: &Script<'_>, source: u32) -> Result<Compiled, DriverError> {
        let bytes = u32::try_from(script.source.len()).unwrap_or(u32::MAX);
        let mut failures = Vec::new();
        for grammar in grammars(script) {
            let program = self.guest.eval(source, bytes, self.at.name, grammar.flags())?;
            if program.is_exception() {
                failures.push(self.guest.exception()?);
                continue;
            }
            for failure in failures {
                self.guest.free(failure)?;
            }
            return Ok(Compiled::Program(program, grammar));
        }
        self.most_telling(failures, script.name)
    }

    /// Of the exceptions of all grammars the one to show: that of the parser that got farthest, unless one failed for
    /// another reason than the source's text.
    fn most_telling(&mut self, failures: Vec<JsValue>, name: &str) -> Result<Compiled, DriverError> {
        let mut best: Option<(Position, JsValue, Facts)> = None;
        for failure in failures {
            let facts = self.facts(failure)?;
            // A failed import, an error in an imported file, memory or stack that ran out: later than any parsing.
            let place = facts.position(name).filter(|_| facts.is_syntax_error()).unwrap_or(Position::END);
            if best.as_ref().is_some_and(|(farthest, ..)| *farthest >= place) {
                self.guest.free(failure)?;
            } else if let Some((_, replaced, _)) = best.replace((place, failure, facts)) {
                self.guest.free(replaced)?;
            }
        }
        Ok(best.map_or(Compiled::OutOfMemory, |(_, failure, facts)| Compiled::Failed(failure, facts)))
    }

    /// Gives a module its `import.meta.url` and `import.meta.main`.
    pub(super) fn describe_module(&mut self, module: JsValue) -> Result<(), DriverError> {
        let args = [Value::I32(self.at.context), Value::I64(module.0), Value::I32(0), Value::I32(1)];
        match self.guest.call_word("js_module_set_import_meta", &args) {
            Ok(0) => Ok(()),
            Ok(_) => Ok(self.guest.discard_exception()?),
            // A recipe may do without: its modules then have an empty `import.meta`.
            Err(MachineError::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Frees a module that was evaluated, if nothing can refer to it: `false` if it stays. The interpreter never frees one, since
    /// modules refer to each other by address. But only modules that were loaded after it can have found it.
    pub(super) fn free_module(&mut self, module: u32) -> Result<bool, DriverError> {
        let next = self.guest.read_word(module.saturating_add(self.at.module_link + 4))?;
        if next != self.at.modules {
            return Ok(false);
        }
        self.guest.call("js_free_module_def", &[self.at.context, module].map(Value::I32))?;
        Ok(true)
    }
}

/// A name as a C string: cut to what the buffer holds, and at the first zero.
fn name_bytes(name: &str) -> Vec<u8> {
    let most = usize::try_from(NAME_BYTES - 1).unwrap_or_default();
    let end = name.floor_char_boundary(most);
    name.bytes().take(end).take_while(|byte| *byte != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(source: &str, name: &str) -> Vec<Grammar> {
        grammars(&Script {
            source,
            name,
            kind: SourceKind::Detect,
            args: &[],
            env: &[],
            has_stdin: false,
            last: true,
            wants_value: false,
            inject_setup: true,
            persisted_bytes: None,
        })
    }

    #[test]
    fn only_a_source_with_the_word_in_it_costs_more_than_one_try() {
        assert_eq!(detected("console.log(1)", "<sandbox>"), [Grammar::Script]);
        assert_eq!(detected("await f()", "<sandbox>"), [Grammar::AsyncScript, Grammar::Script]);
        assert_eq!(detected("import 'std'", "<sandbox>"), [Grammar::Script, Grammar::Module]);
        assert_eq!(detected("1", "a.mjs"), [Grammar::Module]);
    }

    #[test]
    fn a_long_or_hostile_name_fits_its_buffer() {
        assert_eq!(name_bytes("a\0b"), b"a");
        assert_eq!(name_bytes(&"é".repeat(4096)).len(), 4094);
    }
}
