//! Checks of snippets that run one after the other in a session, such as those of Monty's client.
//!
//! The result is the checker's own text, and annotations that a snippet contradicts are errors too. Names come from the
//! client's declarations and from the source of earlier snippets. The checker finds both as modules. The declarations
//! of the globals import all their names, so that lines of the checked snippet keep their numbers. Modules that the
//! checker does not find are no errors, because they can be packages of the sandbox or modules of the client.

use std::{collections::BTreeSet, fmt::Write as _, fs, io, path::Path};

use anyhow::Context as _;
use glovebox::CancelToken;
use serde_json::Value;

use super::{
    CheckLimits, CheckerMode, SCRIPT, TypeChecker,
    checker::{self, MISSING_MODULES},
    declarations::names_in_global_statements,
    findings::{MAX_DIAGNOSTICS, ReportedError},
    write,
};

/// The modules with the client's declarations and with the earlier snippets. The second is not a stub file, so that it
/// also exports its imports.
const STUBS: &str = "repl_type_stubs";
const EARLIER: &str = "repl_snippets";

/// The rule that the checker names for syntax errors.
const SYNTAX: &str = "invalid-syntax";

/// The rules whose violations are not type errors.
const LEFT_OUT: [&str; 2] = [SYNTAX, MISSING_MODULES];

/// The escape sequences at the start of a colored error.
const ERROR_COLOR: &str = "\x1b[1m\x1b[91m";

/// The escape sequence before the file name in the position of a colored error.
const END_OF_COLOR: &str = "\x1b[0m";

/// The severity of errors in the checker's JSON report for GitLab.
const GITLAB_SEVERITY: &str = "major";

/// The start of an error in the checker's output for GitHub.
const GITHUB_ERROR: &str = "::error title=ty (";

/// The escaped line break in the output for GitHub.
const GITHUB_LINE_BREAK: &str = "%0A";

/// The part of a message about syntax that only functions accept. At the top level of a snippet, `await` is valid.
const OUTSIDE_OF_A_FUNCTION: &str = "outside of a";

/// A snippet and the texts that it is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypedSnippet<'a> {
    /// The file name in messages.
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    /// The version of the interpreter, such as `3.15.0`, if known.
    pub(crate) version: Option<&'a str>,
    /// Declarations of names that the client provides, in the syntax of a stub file.
    pub(crate) stubs: &'a str,
    /// The source of all earlier snippets.
    pub(crate) earlier: &'a str,
    /// The stubs of modules that the client provides.
    pub(crate) modules: &'a [ModuleStub],
}

/// Maximum number of names in the path of a module, and the maximum length of each name.
const MAX_MODULE_DEPTH: usize = 16;
const MAX_MODULE_NAME_BYTES: usize = 100;

/// The stub of a module or of a submodule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleStub {
    module: String,
    source: String,
}

impl ModuleStub {
    /// Returns the stub of a module such as `tools.mail`. Returns `None` if the names in its path are not short ASCII
    /// identifiers.
    pub(crate) fn new(module: String, source: String) -> Option<Self> {
        let is_module = module.split('.').count() <= MAX_MODULE_DEPTH && module.split('.').all(is_module_name);
        is_module.then_some(Self { module, source })
    }

    pub(crate) fn module(&self) -> &str {
        &self.module
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Writes the stub as a package. The modules of a client are attributes of the modules that contain them, so the
    /// package imports those of its submodules that are in `all`.
    fn write(&self, all: &[Self], dir: &Path) -> io::Result<()> {
        let package = self.module.split('.').fold(dir.to_owned(), |path, name| path.join(name));
        let paths = all.iter().filter_map(|stub| stub.module.strip_prefix(self.module.as_str())?.strip_prefix('.'));
        let submodules = paths.filter(|path| !path.contains('.'));
        let imports: String = submodules.map(|name| format!("\nfrom . import {name} as {name}\n")).collect();
        fs::create_dir_all(&package)?;
        fs::write(package.join("__init__.pyi"), format!("{}{imports}", self.source))
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnippetReport {
    pub(crate) errors: Vec<SnippetError>,
    /// The names of the top-level modules that the checker does not find, except long names.
    pub(crate) missing_modules: BTreeSet<String>,
}

/// An error in a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnippetError {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) rule: String,
    pub(crate) message: String,
}

/// A text about the errors of a snippet that the checker writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnippetFormat {
    /// Several lines per error, with quoted lines of the snippet.
    Full { is_colored: bool },
    /// A JSON report for GitLab.
    Gitlab,
    /// A workflow command for GitHub per error.
    Github,
}

impl TypeChecker {
    /// Returns the type errors of a snippet. Returns none for a snippet with a syntax error, which the interpreter
    /// reports.
    pub(crate) fn find_snippet_errors(
        &self,
        snippet: &TypedSnippet<'_>,
        cancel: &CancelToken,
    ) -> anyhow::Result<SnippetReport> {
        Ok(report(&self.check_snippet(snippet, CheckerMode::Concise, cancel)?))
    }

    /// Returns the checker's own text about the errors of a snippet.
    pub(crate) fn describe_snippet_errors(
        &self,
        snippet: &TypedSnippet<'_>,
        format: SnippetFormat,
        cancel: &CancelToken,
    ) -> anyhow::Result<String> {
        let mode = match format {
            SnippetFormat::Full { is_colored: false } => CheckerMode::Full,
            SnippetFormat::Full { is_colored: true } => CheckerMode::ColoredFull,
            SnippetFormat::Gitlab => CheckerMode::Gitlab,
            SnippetFormat::Github => CheckerMode::Github,
        };
        let output = self.check_snippet(snippet, mode, cancel)?;
        Ok(match format {
            SnippetFormat::Full { .. } => descriptions(&output, snippet.name),
            SnippetFormat::Gitlab => gitlab_report(&output, snippet.name),
            SnippetFormat::Github => github_commands(&output, snippet.name),
        })
    }

    fn check_snippet(
        &self,
        snippet: &TypedSnippet<'_>,
        mode: CheckerMode,
        cancel: &CancelToken,
    ) -> anyhow::Result<String> {
        let configuration = checker::strict_configuration(snippet.version);
        let failed = "cannot write the files for the type checker";
        let dir = write(&configuration, &declarations(snippet), snippet.source).context(failed)?;
        // `__all__` would hide names from `import *`.
        let earlier = snippet.earlier.replace("__all__", "_all_");
        for (file, text) in [(format!("{STUBS}.pyi"), snippet.stubs), (format!("{EARLIER}.py"), earlier.as_str())] {
            fs::write(dir.path().join(file), text).context(failed)?;
        }
        for module in snippet.modules {
            module.write(snippet.modules, dir.path()).context(failed)?;
        }
        self.run(dir.path(), None, mode, &CheckLimits::new(cancel))
    }
}

/// Returns the declarations of the snippet's globals. `import *` omits names with a leading underscore, and names that
/// only functions assign, so these names are imported separately. Names that a module does not have are accepted.
fn declarations(snippet: &TypedSnippet<'_>) -> String {
    let mut text = format!("from {STUBS} import *\nfrom {EARLIER} import *\n");
    for (module, source) in [(STUBS, snippet.stubs), (EARLIER, snippet.earlier)] {
        let words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
        let private = words.filter(|word| word.starts_with('_') && !word.starts_with("__") && word.is_ascii());
        let global = names_in_global_statements(source).into_iter().filter(|name| is_name(name));
        for name in private.chain(global).collect::<BTreeSet<_>>() {
            let _ = writeln!(text, "from {module} import {name} as {name}");
        }
    }
    text
}

/// Returns `true` for short ASCII identifiers.
fn is_module_name(name: &str) -> bool {
    let is_identifier = is_name(name) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_identifier && name.len() <= MAX_MODULE_NAME_BYTES
}

fn is_name(word: &str) -> bool {
    word.is_ascii() && word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Reads the errors and the missing modules in the checker's output.
fn report(output: &str) -> SnippetReport {
    let reported: Vec<_> = output.lines().filter_map(ReportedError::read).collect();
    let (syntax, others): (Vec<_>, Vec<_>) = reported.into_iter().partition(|error| error.rule == SYNTAX);
    if syntax.iter().any(|error| !error.message.contains(OUTSIDE_OF_A_FUNCTION)) {
        return SnippetReport::default();
    }
    let (missing, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|error| error.rule == MISSING_MODULES);
    // The message quotes the path of the module.
    let paths = missing.iter().filter_map(|error| error.message.split('`').nth(1));
    let names = paths.filter_map(|path| path.split('.').next()).filter(|name| is_module_name(name));
    let missing_modules = names.map(str::to_owned).collect();
    let owned = others.into_iter().take(MAX_DIAGNOSTICS).map(|error| SnippetError {
        line: error.line,
        column: error.column,
        rule: error.rule.to_owned(),
        message: error.message.to_owned(),
    });
    SnippetReport { errors: owned.collect(), missing_modules }
}

/// Returns the parts of the checker's output that describe type errors, with `name` as the file name. Empty lines
/// separate the parts.
fn descriptions(output: &str, name: &str) -> String {
    let left_out = LEFT_OUT.map(|rule| format!("error[{rule}]"));
    let is_described = |part: &&str| {
        let text = part.strip_prefix(ERROR_COLOR).unwrap_or(part);
        text.starts_with("error[") && !left_out.iter().any(|rule| text.starts_with(rule))
    };
    let parts = output.split("\n\n").filter(is_described);
    let text: String = parts.take(MAX_DIAGNOSTICS).flat_map(|part| [part, "\n\n"]).collect();
    ["", END_OF_COLOR]
        .iter()
        .fold(text, |text, color| text.replace(&format!("--> {color}{SCRIPT}:"), &format!("--> {color}{name}:")))
}

/// Returns the type errors in the checker's report for GitLab, which is possibly cut off, with `name` as the file name.
fn gitlab_report(output: &str, name: &str) -> String {
    let mut errors = Vec::new();
    let mut rest = output.trim_start().strip_prefix('[').unwrap_or_default();
    while errors.len() < MAX_DIAGNOSTICS {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let Some(Ok(mut error)) = values.next() else { break };
        rest = rest.get(values.byte_offset()..).unwrap_or_default().trim_start().trim_start_matches(',');
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_left_out = text("severity") != GITLAB_SEVERITY || LEFT_OUT.contains(&text("check_name"));
        if !is_left_out && let Some(path) = error.pointer_mut("/location/path") {
            *path = Value::String(name.to_owned());
            errors.push(error);
        }
    }
    Value::Array(errors).to_string()
}

/// Returns the type errors in the checker's output for GitHub, with `name` as the file name.
fn github_commands(output: &str, name: &str) -> String {
    // These characters separate the properties of a command.
    let property = name.replace('%', "%25").replace(':', "%3A").replace(',', "%2C");
    let message = name.replace('%', "%25");
    let commands = output.lines().filter_map(|line| {
        let (rule, rest) = line.strip_prefix(GITHUB_ERROR)?.split_once("),file=")?;
        let (position, text) = rest.split_once(SCRIPT)?.1.split_once("::")?;
        let lines = text.split(GITHUB_LINE_BREAK).map(|line| {
            let text = line.trim_start();
            match (line.strip_suffix(text), text.strip_prefix(SCRIPT)) {
                (Some(indent), Some(rest)) => format!("{indent}{message}{rest}"),
                _ => line.to_owned(),
            }
        });
        let text = lines.collect::<Vec<_>>().join(GITHUB_LINE_BREAK);
        (!LEFT_OUT.contains(&rule)).then(|| format!("{GITHUB_ERROR}{rule}),file={property}{position}::{text}\n"))
    });
    commands.take(MAX_DIAGNOSTICS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_is_read() {
        let output = "__main__.py:2:5: error[missing-attribute] Object of type `str` has no attribute `x`\n\
                      __main__.py:3:1: error[invalid-syntax] `await` outside of an asynchronous function\n\
                      __main__.py:4:1: warning[unused-awaitable] Object of type `C` is not awaited\n\
                      __main__.py:5:8: error[import-not-found] Cannot resolve imported module `tools.mail`\n\
                      __main__.py:6:8: error[import-not-found] Cannot resolve imported module `tools`\n\
                      __main__.py:7:8: error[import-not-found] Cannot resolve imported module `../x`\n\
                      Found 6 diagnostics\n";
        let error = SnippetError {
            line: 2,
            column: 5,
            rule: "missing-attribute".to_owned(),
            message: "Object of type `str` has no attribute `x`".to_owned(),
        };
        let missing_modules = BTreeSet::from(["tools".to_owned()]);
        assert_eq!(report(output), SnippetReport { errors: vec![error], missing_modules });
        // The interpreter reports syntax errors.
        let broken = format!("{output}__main__.py:5:1: error[invalid-syntax] Expected an expression\n");
        assert_eq!(report(&broken), SnippetReport::default());
        let many = output.repeat(MAX_DIAGNOSTICS + 1);
        assert_eq!(report(&many).errors.len(), MAX_DIAGNOSTICS);
    }

    #[test]
    fn stubs_are_written_as_packages() {
        let dir = tempfile::tempdir().unwrap();
        let new = |module: &str| ModuleStub::new(module.to_owned(), "x: int".to_owned());
        let all = ["tools.mail", "tools", "tools.mail.sent", "toolsmith"].map(|module| new(module).unwrap());
        for module in &all {
            module.write(&all, dir.path()).unwrap();
        }
        for (package, expected) in [
            ("tools", "x: int\nfrom . import mail as mail\n"),
            ("tools/mail", "x: int\nfrom . import sent as sent\n"),
            ("tools/mail/sent", "x: int"),
        ] {
            let text = fs::read_to_string(dir.path().join(package).join("__init__.pyi")).unwrap();
            assert_eq!(text, expected, "{package}");
        }
        let long = "x".repeat(MAX_MODULE_NAME_BYTES + 1);
        let deep = ["x"; MAX_MODULE_DEPTH + 1].join(".");
        for module in
            ["", "a.", ".a", "a..b", "../a", "a/b", "/a", "1a", "a b", "a\0", "é", long.as_str(), deep.as_str()]
        {
            assert_eq!(new(module), None, "{module}");
        }
    }

    #[test]
    fn descriptions_have_the_name_of_the_snippet() {
        let output = "error[missing-attribute]: Object of type `str` has no attribute `x`\n \
                      --> __main__.py:2:5\n  |\n2 | a.x\n  | ^^^\n\n\
                      error[invalid-syntax]: `await` outside of an asynchronous function\n --> __main__.py:3:1\n\n\
                      error[import-not-found]: Cannot resolve imported module `tools`\n --> __main__.py:4:8\n\n\
                      warning[other]: x\n --> __main__.py:4:1\n\nFound 4 diagnostics\n";
        let expected = "error[missing-attribute]: Object of type `str` has no attribute `x`\n \
                        --> agent.py:2:5\n  |\n2 | a.x\n  | ^^^\n\n";
        assert_eq!(descriptions(output, "agent.py"), expected);
        assert_eq!(descriptions("Found 1 diagnostic\n", "agent.py"), "");
    }

    #[test]
    fn colored_descriptions_have_the_name_of_the_snippet() {
        let output = "\x1b[1m\x1b[91merror[missing-attribute]\x1b[0m\x1b[1m: No `x`\x1b[0m\n \
                      \x1b[1m\x1b[94m--> \x1b[0m__main__.py:2:5\n\n\
                      \x1b[1m\x1b[91merror[invalid-syntax]\x1b[0m\x1b[1m: `await`\x1b[0m\n\nFound 2 diagnostics\n";
        let expected = "\x1b[1m\x1b[91merror[missing-attribute]\x1b[0m\x1b[1m: No `x`\x1b[0m\n \
                        \x1b[1m\x1b[94m--> \x1b[0magent.py:2:5\n\n";
        assert_eq!(descriptions(output, "agent.py"), expected);
    }

    #[test]
    fn gitlab_reports_have_the_name_of_the_snippet() {
        let error = |rule: &str, severity: &str, path: &str| {
            let location = json!({ "path": path, "positions": { "begin": { "line": 2, "column": 3 } } });
            json!({ "check_name": rule, "description": "[,]", "severity": severity, "location": location })
        };
        let reported = [
            error("missing-attribute", "major", SCRIPT),
            error(SYNTAX, "major", SCRIPT),
            error(MISSING_MODULES, "major", SCRIPT),
            error("other", "minor", SCRIPT),
            error("missing-argument", "major", SCRIPT),
        ];
        let output = serde_json::to_string_pretty(&reported).unwrap();
        let report = |output: &str| serde_json::from_str::<Vec<Value>>(&gitlab_report(output, "agent.py")).unwrap();
        let expected = ["missing-attribute", "missing-argument"].map(|rule| error(rule, "major", "agent.py"));
        assert_eq!(report(&output), expected);
        // The end of a long report is missing.
        assert_eq!(report(&output[..output.len() - 10]), expected[..1]);
        let many = vec![error("missing-attribute", "major", SCRIPT); MAX_DIAGNOSTICS + 1];
        assert_eq!(report(&json!(many).to_string()).len(), MAX_DIAGNOSTICS);
        for output in ["", "[", "[]", "[1, {}]", "{}"] {
            assert!(report(output).is_empty(), "{output}");
        }
    }

    #[test]
    fn github_commands_have_the_name_of_the_snippet() {
        let output = "::error title=ty (missing-argument),file=/tmp/x/__main__.py,line=2,col=1,endLine=2,endColumn=4::\
                      __main__.py:2:1: missing-argument: No `a`::b%0A  __main__.py:1:5: info: Here\n\
                      ::error title=ty (invalid-syntax),file=/tmp/x/__main__.py,line=3,col=1::__main__.py:3:1: x\n\
                      ::warning title=ty (other),file=/tmp/x/__main__.py,line=3,col=1::__main__.py:3:1: x\n\
                      ::error title=ty (missing-argument),file=/tmp/x/__ma";
        let expected = "::error title=ty (missing-argument),file=a%2C%25.py,line=2,col=1,endLine=2,endColumn=4::\
                        a,%25.py:2:1: missing-argument: No `a`::b%0A  a,%25.py:1:5: info: Here\n";
        assert_eq!(github_commands(output, "a,%.py"), expected);
    }

    #[test]
    fn names_that_a_star_import_omits_are_imported() {
        let earlier = "_seen = {}\ndef f():\n    global late, _seen\n    late = self.__dict__\n_é = _";
        let snippet = TypedSnippet { name: "a.py", source: "", version: None, stubs: "_T: int", earlier, modules: &[] };
        let expected = "from repl_type_stubs import *\nfrom repl_snippets import *\n\
                        from repl_type_stubs import _T as _T\nfrom repl_snippets import _ as _\n\
                        from repl_snippets import _seen as _seen\nfrom repl_snippets import late as late\n";
        assert_eq!(declarations(&snippet), expected);
    }
}
