//! `import` of the modules that `require` provides. A module is created when a source first imports it.
//!
//! The interpreter's loader finds files, and finds evaluated modules by name. Before compiling a source, the driver
//! therefore evaluates every Node module that the source imports. If only an imported file names a Node module,
//! compiling fails: the driver then evaluates that module and compiles the source again.
//!
//! A package in `node_modules` becomes a module of the same name with the exports of the package's file. The driver
//! compiles this module before a source that may import it, or when the script calls `import()`. The module runs when
//! it is first imported.
//!
//! The driver compiles imported files that contain `import.meta` or `import()` in the same way, and replaces these
//! expressions.

use super::{
    compile::{CompileOutcome, NAME_BYTES},
    guest::{EVAL_COMPILE_ONLY, EVAL_MODULE, JsValue},
    report::{Facts, Position},
    split::{may_import, replace_expressions},
    state::BootedGuest,
};
use crate::{DriverError, Script};

/// The modules defined in `lazy.js`, `fs.js`, `path.js` and `modules.js`.
const MODULES: [&str; 25] = [
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
    "path/win32",
    "perf_hooks",
    "process",
    "querystring",
    "string_decoder",
    "sys",
    "test",
    "timers",
    "timers/promises",
    "tty",
    "url",
    "util",
    "util/types",
];

/// Returns `true` if this is the name of a built-in module, with or without the scheme `node:`. As in Node, `test` needs
/// the scheme.
fn is_module(name: &str) -> bool {
    name != "test" && MODULES.contains(&name.strip_prefix("node:").unwrap_or(name))
}

/// Maximum number of steps of one search for modules to create: two per package (`node/imports.js` limits the number of
/// packages), two per Node module, and one that ends the search.
const MAX_SURVEYED: usize = 2 * 256 + 2 * MODULES.len() + 1;

/// Maximum number of declared names in one search.
const MAX_DECLARED: usize = 256;
/// Maximum length of a declared name, in bytes.
const MAX_DECLARED_BYTES: usize = 1024;

/// The names of the interpreter's own modules, without a scheme.
const NATIVE: [&str; 3] = ["std", "os", "bjson"];

/// Returns the modules named in a source's import declarations, except built-in ones.
fn declared_names(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, quote) in source.match_indices(['\'', '"']) {
        let Some((before, rest)) = source.split_at_checked(at) else { continue };
        let before = before.trim_end();
        if !before.ends_with("from") && !before.ends_with("import") {
            continue;
        }
        let rest = rest.get(1..).unwrap_or_default();
        let rest = rest.get(..rest.floor_char_boundary(MAX_DECLARED_BYTES)).unwrap_or_default();
        let Some((name, _)) = rest.split_once(quote) else { continue };
        let is_own = is_module(name) || NATIVE.contains(&name) || name.starts_with("qjs:");
        if name.is_empty() || name.contains('\n') || is_own || found.contains(&name) {
            continue;
        }
        if found.len() == MAX_DECLARED {
            break;
        }
        found.push(name);
    }
    found
}

/// Finds the import of a module in a source. Returns the name as written there, and its position. In `name`, the
/// interpreter has already resolved a leading `./`.
fn import_of<'a>(source: &'a str, name: &str) -> Option<(&'a str, Position)> {
    if name.is_empty() {
        return None;
    }
    source.match_indices(name).find_map(|(at, _)| {
        let (before, rest) = source.split_at_checked(at)?;
        let before = before.strip_suffix("./").unwrap_or(before);
        let quote = before.chars().next_back().filter(|c| matches!(c, '\'' | '"'))?;
        let end = at + name.len();
        rest.get(name.len()..).filter(|rest| rest.starts_with(quote))?;
        let line = before.matches('\n').count().saturating_add(1);
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
        let [line, column] = [line, column].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Some((source.get(before.len()..end)?, Position { line, column }))
    })
}

/// Returns the built-in modules whose names occur in quotes in a source.
fn named_modules(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for piece in source.split(['\'', '"', '`']) {
        if is_module(piece) && !found.contains(&piece) {
            found.push(piece);
        }
    }
    found
}

impl BootedGuest<'_> {
    /// Compiles a script that may import Node's modules.
    pub(super) fn compile_importing(&mut self, script: &Script<'_>) -> Result<CompileOutcome, DriverError> {
        match self.compile_with_modules(script)? {
            CompileOutcome::Failed(thrown, facts) if facts.is_missing_module() => {
                let thrown = self.import_error(thrown, &facts, script)?;
                Ok(CompileOutcome::Failed(thrown, facts))
            }
            compiled => Ok(compiled),
        }
    }

    /// Replaces the interpreter's error for a failed import with Node's error, with the import's position. Consumes the
    /// original error.
    pub(super) fn import_error(
        &mut self,
        thrown: JsValue,
        facts: &Facts,
        script: &Script<'_>,
    ) -> Result<JsValue, DriverError> {
        let (_, message) = facts.kind();
        let name = message.rsplit('\'').nth(1).unwrap_or_default();
        let (specifier, at) = match import_of(script.source, name) {
            Some((specifier, Position { line, column })) => {
                (specifier, format!("    at {}:{line}:{column}", script.name))
            }
            None => (name, String::new()),
        };
        let mut arguments = Vec::new();
        for text in [message, specifier, at.as_str()] {
            match self.string(text)? {
                Some(string) => arguments.push(string),
                None => break,
            }
        }
        let made = self.ask(self.at.import_error, &arguments)?.filter(|made| made.address().is_some());
        for argument in arguments {
            self.guest.free(argument)?;
        }
        let Some(made) = made else { return Ok(thrown) };
        self.guest.free(thrown)?;
        Ok(made)
    }

    /// Creates all of Node's modules, for imports whose names are known only at run time. Omits `process`, whose
    /// exports depend on the running script.
    pub(super) fn import_all(&mut self) -> Result<(), DriverError> {
        for name in MODULES.into_iter().filter(|name| *name != "process") {
            for name in [name.to_owned(), format!("node:{name}")] {
                self.import(&name)?;
                while self.guest.job()?.is_some() {}
            }
        }
        self.forget_rejections()
    }

    fn compile_with_modules(&mut self, script: &Script<'_>) -> Result<CompileOutcome, DriverError> {
        self.import_named(script)?;
        if may_import(script.source) {
            let names = declared_names(script.source);
            if !names.is_empty() {
                self.add_packages(Some(&names.join("\n")))?;
            }
        }
        // Each iteration creates one module.
        for _ in &MODULES {
            let compiled = self.compile(script)?;
            let CompileOutcome::Failed(thrown, facts) = &compiled else { return Ok(compiled) };
            let Some(name) = missing(facts).filter(|name| is_module(name)) else { return Ok(compiled) };
            let (thrown, name) = (*thrown, name.to_owned());
            if !self.import(&name)? {
                return Ok(compiled);
            }
            self.guest.free(thrown)?;
        }
        self.compile(script)
    }

    /// Makes packages importable: the packages that imports of `names` need or, without `names`, the packages that
    /// `import()` expressions wait for. Runs no code of a package.
    pub(super) fn add_packages(&mut self, names: Option<&str>) -> Result<(), DriverError> {
        let argument = match names {
            Some(names) => match self.string(names)? {
                Some(string) => string,
                None => return Ok(()),
            },
            None => JsValue::UNDEFINED,
        };
        let found = self.ask(self.at.survey, &[argument])?;
        self.guest.free(argument)?;
        // Without names, an empty survey is also processed, because the processing ends the wait.
        if names.is_some() && found != Some(JsValue::TRUE) {
            return Ok(());
        }
        let mut failure = JsValue::UNDEFINED;
        for _ in 0..MAX_SURVEYED {
            let next = self.ask(self.at.next_package, &[failure])?;
            self.guest.free(failure)?;
            failure = JsValue::UNDEFINED;
            let Some(next) = next else { return Ok(()) };
            let text = self.guest.whole_text(next)?;
            self.guest.free(next)?;
            // Ignore a package whose text is too long.
            let Some(text) = text else { continue };
            match text.split_once('\n') {
                None => return Ok(()),
                Some((name, "")) => {
                    if is_module(name) {
                        self.import(name)?;
                    }
                }
                Some((name, source)) => failure = self.register(name, source)?,
            }
        }
        Ok(self.guest.free(failure)?)
    }

    /// Compiles a module that runs when a script imports `name`. Returns the exception, or `undefined`.
    fn register(&mut self, name: &str, source: &str) -> Result<JsValue, DriverError> {
        let replaced = replace_expressions(source);
        let source = replaced.as_deref().unwrap_or(source);
        let fits = u32::try_from(name.len()).is_ok_and(|bytes| bytes < NAME_BYTES);
        if !fits || name.contains('\0') {
            return Ok(JsValue::UNDEFINED);
        }
        // The module's text imports `node:module`.
        self.import("node:module")?;
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let Some(module) = self.eval(source, EVAL_MODULE | EVAL_COMPILE_ONLY)? else { return Ok(JsValue::UNDEFINED) };
        if module.is_exception() {
            return Ok(self.guest.exception()?);
        }
        self.guest.free(module)?;
        Ok(JsValue::UNDEFINED)
    }

    /// Creates the Node modules that a script names.
    pub(super) fn import_named(&mut self, script: &Script<'_>) -> Result<(), DriverError> {
        if may_import(script.source) {
            for name in named_modules(script.source) {
                self.import(name)?;
            }
        }
        Ok(())
    }

    /// Creates the module `name` unless it exists. Returns `true` if it was created.
    fn import(&mut self, name: &str) -> Result<bool, DriverError> {
        let Some(string) = self.string(name)? else { return Ok(false) };
        let source = self.ask(self.at.facade, &[string])?;
        self.guest.free(string)?;
        let Some(source) = source else { return Ok(false) };
        let text = self.guest.whole_text(source)?.unwrap_or_default();
        self.guest.free(source)?;
        if text.is_empty() {
            return Ok(false);
        }
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let Some(promise) = self.eval(&text, EVAL_MODULE)? else { return Ok(false) };
        if promise.is_exception() {
            self.guest.discard_exception()?;
            return Ok(false);
        }
        self.guest.free(promise)?;
        Ok(true)
    }
}

/// Returns the name of the module that was not found.
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
    fn imports_are_located_by_their_specifier() {
        let at = |line, column| Position { line, column };
        let source = "import a from 'fs';\nimport b from './b.mjs';\n\nimport \"pad\"";
        assert_eq!(import_of(source, "b.mjs"), Some(("./b.mjs", at(2, 15))));
        assert_eq!(import_of(source, "pad"), Some(("pad", at(4, 8))));
        assert_eq!(import_of(source, "import"), None);
        assert_eq!(import_of(source, ""), None);
    }

    #[test]
    fn declared_names_leave_out_modules_that_exist() {
        let source = "import 'a';import b from\n\"@b/c\"; export * from './d.mjs'; import e from 'node:fs';\n\
                      import * as std from 'std'; import os from 'qjs:os'; f('g'); import 'a'; import 'h\n'; import 'i";
        assert_eq!(declared_names(source), ["a", "@b/c", "./d.mjs"]);
    }

    #[test]
    fn declared_names_are_limited() {
        let import = |name: &str| format!("import '{name}';");
        let all = (0..=MAX_DECLARED).map(|i| import(&i.to_string())).collect::<String>();
        assert_eq!(declared_names(&all).len(), MAX_DECLARED);
        for (bytes, count) in [(MAX_DECLARED_BYTES - 1, 1), (MAX_DECLARED_BYTES, 0)] {
            assert_eq!(declared_names(&import(&"a".repeat(bytes))).len(), count);
        }
        assert_eq!(declared_names(&import(&"é".repeat(MAX_DECLARED_BYTES))), [""; 0]);
    }

    #[test]
    fn quoted_module_names_are_found() {
        assert_eq!(
            named_modules("import a from 'fs'; import \"node:path\"; import('x'); const y = 'fs'"),
            ["fs", "node:path"]
        );
    }
}
