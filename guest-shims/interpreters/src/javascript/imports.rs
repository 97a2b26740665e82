//! `import` of the modules that `require` knows, which are created when a source first asks for them.
//!
//! The interpreter's own loader finds files and evaluated modules by name. So every Node module that a source imports
//! is evaluated before the source is compiled; those that only an imported file names show up when compiling fails.

use crate::{DriverError, Script};

use super::{compile::Compiled, guest::EVAL_MODULE, report::Facts, state::Booted};

/// The modules of `lazy.js`, `fs.js`, `path.js` and `modules.js`.
const MODULES: [&str; 21] = [
    "assert",
    "assert/strict",
    "buffer",
    "console",
    "crypto",
    "events",
    "fs",
    "fs/promises",
    "module",
    "os",
    "path",
    "path/posix",
    "perf_hooks",
    "process",
    "querystring",
    "string_decoder",
    "timers",
    "timers/promises",
    "url",
    "util",
    "util/types",
];

/// Whether this is a built-in module's name, with or without the scheme.
fn is_module(name: &str) -> bool {
    MODULES.contains(&name.strip_prefix("node:").unwrap_or(name))
}

/// The built-in modules that a source names between quotes.
fn named_modules(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for piece in source.split(['\'', '"', '`']) {
        if is_module(piece) && !found.contains(&piece) {
            found.push(piece);
        }
    }
    found
}

impl Booted<'_> {
    /// Compiles a script whose imports may be modules of Node.
    pub(super) fn compile_importing(&mut self, script: &Script<'_>) -> Result<Compiled, DriverError> {
        if script.source.contains("import") || script.source.contains("export") {
            for name in named_modules(script.source) {
                self.import(name)?;
            }
        }
        // Each round creates one of them.
        for _ in &MODULES {
            let compiled = self.compile(script)?;
            let Compiled::Failed(thrown, facts) = &compiled else { return Ok(compiled) };
            let Some(name) = missing(facts).filter(|name| is_module(name)) else { return Ok(compiled) };
            let (thrown, name) = (*thrown, name.to_owned());
            if !self.import(&name)? {
                return Ok(compiled);
            }
            self.guest.free(thrown)?;
        }
        self.compile(script)
    }

    /// Creates the module of this name unless it exists; returns whether it did.
    fn import(&mut self, name: &str) -> Result<bool, DriverError> {
        let Some(at) = self.copy_in(name.as_bytes())? else { return Ok(false) };
        let string = self.guest.string(at, u32::try_from(name.len()).unwrap_or_default())?;
        self.free_copy(at)?;
        let source = self.ask(self.at.facade, &[string])?;
        self.guest.free(string)?;
        let Some(source) = source else { return Ok(false) };
        let text = self.guest.whole_text(source)?.unwrap_or_default();
        self.guest.free(source)?;
        if text.is_empty() {
            return Ok(false);
        }
        let Some(at) = self.copy_in(text.as_bytes())? else { return Ok(false) };
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let bytes = u32::try_from(text.len()).unwrap_or_default();
        let promise = self.guest.eval(at, bytes, self.at.name, EVAL_MODULE)?;
        self.free_copy(at)?;
        if promise.is_exception() {
            self.guest.discard_exception()?;
            return Ok(false);
        }
        self.guest.free(promise)?;
        Ok(true)
    }
}

/// The module that could not be found.
fn missing(facts: &Facts) -> Option<&str> {
    if !facts.is_missing_module() {
        return None;
    }
    let (_, message) = facts.kind();
    message.split('\'').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_their_names_between_quotes() {
        assert_eq!(
            named_modules("import a from 'fs'; import \"node:path\"; import('x'); const y = 'fs'"),
            ["fs", "node:path"]
        );
    }
}
