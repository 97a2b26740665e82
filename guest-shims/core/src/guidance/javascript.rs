//! Advice on common failures of JavaScript and TypeScript scripts.

use super::{
    Advice, AdviceKind, Correction, UncaughtException, VENDORED, fenced, has_word, is_fenced,
    limits::{self, PathError},
    modules, nearest, quoted,
    replacements::replacement,
};
use crate::Language;

/// Globals of other environments, separated by spaces, and their replacements.
const FOREIGN_GLOBALS: &[(&str, &str)] = &[
    (
        "document window navigator location history localStorage sessionStorage HTMLElement",
        "The sandbox has no browser or DOM. Use text and files, and print the result.",
    ),
    (
        "alert confirm prompt",
        "No user can answer prompts. Print with `console.log`, and read values from the script or from files.",
    ),
    ("Deno Bun", "The runtime is neither Deno nor Bun. Use the available Node modules, such as `fs` and `path`."),
    ("WebAssembly", "Use JavaScript: scripts cannot run WebAssembly."),
];

const WHOLE_FILES: &str = "Read whole files with `fs.readFileSync(file, 'utf8')`, and write them with `fs.writeFileSync` and `fs.appendFileSync`.";

/// Modules of Node.js and npm that do not exist here, separated by spaces, and their replacements.
const INSTEAD: &[(&str, &str)] = &[
    ("stream stream/promises through2", WHOLE_FILES),
    (
        "readline readline/promises readline-sync line-reader",
        "Use `readLines(file)` for the lines of a file, and `fs.readFileSync(0, 'utf8').split('\\n')` for standard input.",
    ),
    (
        "zlib archiver adm-zip jszip tar pako",
        "Do that part in Python, which has `zlib`, `gzip`, `zipfile` and `tarfile`.",
    ),
    ("sqlite sqlite3 better-sqlite3", "Do that part in Python, which has `sqlite3`."),
    (
        "papaparse csv csv-parse csv-parser csv-stringify fast-csv csvtojson",
        "Use `parse` and `stringify` from `requireVendor('csv-simple')`.",
    ),
    (
        "lodash underscore ramda",
        "Use `groupBy`, `sortBy`, `unique` and `chunk` from `requireVendor('sandbox-utils')`, or `get`, `set`, `merge` and `clone` from `requireVendor('json-utils')`.",
    ),
    (
        "slugify change-case pluralize",
        "Use `slugify`, `camelCase`, `snakeCase`, `kebabCase` and others from `requireVendor('string-utils')`.",
    ),
    (
        "fs-extra graceful-fs glob fast-glob rimraf mkdirp",
        "Use `mkdirSync` and `rmSync` with `recursive`, `cpSync` and `globSync` from `fs`.",
    ),
    ("uuid nanoid", "Use `crypto.randomUUID()`."),
    ("qs query-string", "Use `querystring`, or `URLSearchParams`."),
    ("ms", "Calculate the number of milliseconds in the script."),
    ("moment dayjs date-fns luxon", "Use `Date`, which parses, formats and calculates in UTC."),
    ("chalk colors kleur", "Print plain text."),
    ("dotenv", "Use `process.env`, which contains the policy's variables."),
    ("minimist yargs commander", "Use `process.argv.slice(2)` for the arguments."),
    ("jest mocha chai test vitest", "Use `node:test`, or `assert`: a script fails if it throws."),
];

/// Returns advice on an exception; `None` if the exception's message is clear enough.
pub(super) fn advice(failure: &UncaughtException<'_>) -> Option<Advice> {
    // Checked first, because JavaScript can parse the fence's backticks as a tagged template.
    if is_fenced(failure.source) {
        return Some(fenced());
    }
    if let Some(advice) = limits::advice(failure.message()) {
        return Some(advice);
    }
    match failure.raised.type_name.as_str() {
        "SyntaxError" => typescript_advice(failure).or_else(|| export(failure)).or_else(|| Some(syntax(failure))),
        "ReferenceError" | "Error" => reference(failure),
        "TypeError" => null_file(failure).or_else(|| directory_entries(failure)).or_else(|| stream(failure)),
        _ => None,
    }
}

fn reference(failure: &UncaughtException<'_>) -> Option<Advice> {
    let message = failure.message();
    if let Some(file) = file(failure) {
        return Some(file);
    }
    if let Some(name) = failure.text_between("Vendored package not found: '", "'") {
        return Some(vendored(name));
    }
    let prefixes = ["could not load module filename '", "Cannot find module '", "Cannot find package '"];
    if let Some(name) = prefixes.iter().find_map(|prefix| failure.text_between(prefix, "'")) {
        return Some(module(failure, name));
    }
    let name = message.strip_suffix(" is not defined")?;
    match name {
        "XMLHttpRequest" | "WebSocket" | "EventSource" => Some(Advice::new(
            AdviceKind::Network,
            format!("{} is not available. Use `fetch`, if the sandbox's policy allows network access.", quoted(name)),
            &limits::STEPS,
        )),
        "Worker" | "SharedWorker" => Some(threads()),
        "None" | "True" | "False" => {
            let value = if name == "None" { "null".to_owned() } else { name.to_lowercase() };
            let summary = format!("{} is Python: in JavaScript it is `{value}`.", quoted(name));
            let advice = Advice::new(AdviceKind::Syntax, summary, &[LOOKS_LIKE_PYTHON]);
            Some(advice.with(failure.with_word(name, &value)))
        }
        _ if has_word(PYTHON_FUNCTIONS, name) => {
            failure.line().filter(|line| line.contains(&format!("{name}(")))?;
            let summary = format!("There is no {} in JavaScript.", quoted(name));
            Some(Advice::new(AdviceKind::Syntax, summary, &[LOOKS_LIKE_PYTHON]))
        }
        _ => {
            let instead = replacement(FOREIGN_GLOBALS, name)?;
            Some(Advice::new(AdviceKind::Environment, format!("{} is not available.", quoted(name)), &[instead]))
        }
    }
}

const LOOKS_LIKE_PYTHON: &str = "This looks like Python: run it as Python, or rewrite it in JavaScript.";

const PYTHON_FUNCTIONS: &str =
    "dict enumerate float input int isinstance len list open range set sorted str sum tuple zip";

/// Advises on a file that an `fs` function, or a function built on one, could not find or access.
fn file(failure: &UncaughtException<'_>) -> Option<Advice> {
    let (code, rest) = failure.message().split_once(": ")?;
    let error = match code {
        "ENOENT" => PathError::Missing,
        "EACCES" => PathError::Denied,
        "EPERM" => PathError::NotPermitted,
        _ => return None,
    };
    let (_, named) = rest.split_once(", ")?.1.split_once(" '")?;
    let (named, _) = named.rsplit_once('\'')?;
    let (path, target) = match named.split_once("' -> '") {
        Some((path, target)) => (path, Some(target)),
        None => (named, None),
    };
    limits::path(path, target, error, Language::JavaScript)
}

/// Advises on a `requireVendor` of a package that does not exist.
fn vendored(name: &str) -> Advice {
    let missing = format!("There is no vendored package {}.", quoted(name));
    if modules(Language::JavaScript).any(|module| module == name) {
        let step = format!("Use `require('{name}')`: it is built into the interpreter.");
        return Advice::new(AdviceKind::Module, missing, &[&step]);
    }
    if let Some(instead) = replacement(INSTEAD, name) {
        return Advice::new(AdviceKind::Module, missing, &[instead]);
    }
    let there = VENDORED.map(|name| format!("`{name}`")).join(", ");
    let there = format!("The vendored packages are {there}. Write any other code that you need in the script.");
    let mut advice = Advice::new(AdviceKind::Module, missing, &[&there]);
    if let Some(near) = nearest(name, VENDORED) {
        advice.steps.insert(0, format!("Did you mean `requireVendor('{near}')`?"));
    }
    advice
}

fn threads() -> Advice {
    Advice::new(
        AdviceKind::Threads,
        "The sandbox has no threads or workers.",
        &["Do the work sequentially; `async` functions and promises work."],
    )
}

fn module(failure: &UncaughtException<'_>, name: &str) -> Advice {
    let bare = name.strip_prefix("node:").unwrap_or(name);
    let missing = format!("Module {} was not found.", quoted(name));
    match bare {
        "http" | "https" | "http2" | "net" | "tls" | "dgram" | "dns" | "axios" | "node-fetch" | "got" | "undici"
        | "ws" | "superagent" => {
            return Advice::new(
                AdviceKind::Network,
                format!("{missing} Use `fetch`, if the sandbox's policy allows network access."),
                &limits::STEPS,
            );
        }
        "child_process" | "cluster" | "execa" | "shelljs" => {
            return Advice::new(
                AdviceKind::Subprocess,
                format!("{missing} Scripts cannot start processes, and the sandbox has no shell."),
                &[
                    "Use JavaScript, with files in `/app`.",
                    "Ask the operator for a tool that performs the task, and call it.",
                ],
            );
        }
        "worker_threads" => return Advice { summary: format!("{missing} The sandbox has no threads."), ..threads() },
        _ => {}
    }
    // The interpreter reports imported paths without a leading `./`.
    let is_file = [".js", ".mjs", ".cjs", ".json"].iter().any(|extension| bare.ends_with(extension));
    if is_file || bare.starts_with(['.', '/']) {
        return Advice::new(
            AdviceKind::Module,
            missing,
            &[
                "Use a path relative to the script, with the extension: `./name.js`.",
                "Write the file first: without a session, each execution starts with only the files that its caller provides.",
            ],
        );
    }
    if let Some(instead) = replacement(INSTEAD, bare) {
        return Advice::new(AdviceKind::Module, missing, &[instead]);
    }
    let mut advice = Advice::new(
        AdviceKind::Module,
        missing,
        &[
            "Write the code that you need in the script: scripts cannot install packages.",
            "Put your own modules into `/app`, and load them as `./name.js`.",
        ],
    );
    if let Some(near) = nearest(bare, modules(Language::JavaScript)) {
        advice.steps.insert(0, format!("Did you mean `{near}`?"));
        advice.correction = failure.with_word(bare, near);
    } else if let Some(near) = nearest(bare, VENDORED) {
        advice.steps.insert(0, format!("Did you mean `requireVendor('{near}')`?"));
    }
    advice
}

/// Advises on an imported name that the module does not export.
fn export(failure: &UncaughtException<'_>) -> Option<Advice> {
    let name = failure.text_between("does not provide an export named '", "'")?;
    let module = failure.text_between("The requested module '", "'")?;
    if is_stream(name) {
        return Some(no_stream(name));
    }
    // `require` rejects ES modules, and resolves a path from the script instead of the file that imports it.
    let look = if module.starts_with(['.', '/']) || module.starts_with("file:") {
        "Import a name that the file exports.".to_owned()
    } else {
        format!("List its exports with `console.log(Object.keys(require({})))`.", quoted(module).replace('`', "'"))
    };
    Some(Advice::new(AdviceKind::Module, format!("{} has no export {}.", quoted(module), quoted(name)), &[&look]))
}

fn is_stream(name: &str) -> bool {
    matches!(name, "createReadStream" | "createWriteStream" | "ReadStream" | "WriteStream")
}

fn no_stream(name: &str) -> Advice {
    Advice::new(
        AdviceKind::Module,
        format!("`fs` has no {}: files are in memory.", quoted(name)),
        &[WHOLE_FILES, "Use `readLines(file)` for the lines of a file."],
    )
}

/// Returns the line of a failed call. QuickJS-NG 0.11 does not name the callee in the message.
fn uncallable_line<'a>(failure: &UncaughtException<'a>) -> Option<&'a str> {
    failure.line().filter(|_| failure.message().ends_with("not a function"))
}

/// Advises on file streams, which do not exist.
fn stream(failure: &UncaughtException<'_>) -> Option<Advice> {
    let line = uncallable_line(failure)?;
    ["createReadStream", "createWriteStream"].into_iter().find(|name| line.contains(name)).map(no_stream)
}

/// Advises on the use of a `null` file: `std.open` and `std.loadFile` return `null` if the file does not exist.
fn null_file(failure: &UncaughtException<'_>) -> Option<Advice> {
    let is_null = failure.message().ends_with(" of null");
    let line = failure.line().filter(|_| is_null)?;
    let path = ["std.open(", "std.loadFile("].iter().find_map(|call| {
        let (_, argument) = line.split_once(call)?;
        let quote = argument.chars().next().filter(|char| matches!(char, '\'' | '"' | '`'))?;
        argument.get(1..)?.split_once(quote).map(|(path, _)| path)
    })?;
    limits::path(path, None, PathError::Missing, Language::JavaScript)
}

/// Advises on functions such as `os.readdir`, which return an array of the result and the error.
fn directory_entries(failure: &UncaughtException<'_>) -> Option<Advice> {
    let line = uncallable_line(failure)?;
    let call =
        ["os.readdir(", "os.stat(", "os.getcwd(", "os.realpath("].into_iter().find(|call| line.contains(call))?;
    let name = call.trim_end_matches('(');
    Some(Advice::new(
        AdviceKind::Environment,
        format!("`{name}` returns an array of two values: the result and the error number."),
        &[&format!("Destructure the array: `const [result, error] = {name}(…)`.")],
    ))
}

fn syntax(failure: &UncaughtException<'_>) -> Advice {
    let advice = |steps: &[&str]| Advice::new(AdviceKind::Syntax, "The script is not valid JavaScript.", steps);
    let is_comprehension = |line: &str| failure.message().ends_with("'for'") && line.contains(" in ");
    if failure.line().is_some_and(|line| is_comprehension(line) || looks_like_python(line)) {
        return advice(&[LOOKS_LIKE_PYTHON]);
    }
    if failure.line().is_some_and(|line| line.trim_start().starts_with('@')) {
        return advice(&["Decorators are not supported: call the function instead."]);
    }
    if failure.line().is_some_and(looks_like_typescript) {
        return Advice {
            kind: AdviceKind::TypescriptSyntax,
            ..advice(&[
                "This looks like TypeScript: run it as TypeScript, under a name that ends in `.ts`, or remove the types.",
            ])
        };
    }
    let step = match failure.message() {
        "Unexpected end of input" => "Add the brace, bracket or parenthesis that is missing at the end.",
        message if message.contains("string") => "Close the string. Use backticks for a multi-line string.",
        _ => "Check the line that the message names, and the line before it.",
    };
    advice(&[step])
}

fn looks_like_python(line: &str) -> bool {
    let line = line.trim();
    let after = |words: &[&str]| words.iter().find_map(|word| line.strip_prefix(word)?.strip_prefix(' '));
    // JavaScript requires parentheses around conditions.
    let is_head = after(&["if", "for", "while", "with"])
        .is_some_and(|rest| rest.ends_with(':') || !(rest.starts_with('(') || rest.starts_with("await ")));
    let is_block =
        ["class ", "try", "except", "else", "finally"].iter().any(|head| line.starts_with(head)) && line.ends_with(':');
    let is_import = after(&["import"]).is_some_and(|rest| !rest.contains(['\'', '"', '`', '{', '(', '=']))
        || after(&["from"]).is_some_and(|rest| rest.contains(" import "));
    let is_formatted = ["f'", "f\""].iter().any(|start| {
        let mut places = line.match_indices(start).filter_map(|(at, _)| line.get(..at));
        places.any(|before| before.is_empty() || before.ends_with(['(', ' ', ',', '=']))
    });
    let words = ["#", "assert", "def", "del", "elif", "except", "global", "lambda", "nonlocal", "print", "raise"];
    is_head
        || is_block
        || is_import
        || is_formatted
        || after(&words).is_some()
        || line == "pass"
        || ["\"\"\"", " lambda ", " = not ", " is None"].iter().any(|part| line.contains(part))
}

// Advice on TypeScript. Glovebox removes only types; other TypeScript syntax stays in the source and is a syntax error.

/// TypeScript that the TypeScript stripper rejects: the beginning of its message, an explanation, and a replacement.
const UNSUPPORTED_TYPESCRIPT: &[(&str, &str, &str)] = &[
    (
        "TypeScript enum is",
        "An `enum` generates code, but Glovebox only removes types.",
        "Write `const Color = { Red: 0, Green: 1 } as const;` and `type Color = (typeof Color)[keyof typeof Color];`.",
    ),
    (
        "TypeScript namespace declaration is",
        "A `namespace` with values generates code, but Glovebox only removes types.",
        "Put the values into an object, `const Name = { … };`, or declare them without the namespace.",
    ),
    (
        "TypeScript parameter property is",
        "A parameter property generates code, but Glovebox only removes types.",
        "Declare the property in the class, and set it in the constructor: `x: number; constructor(x: number) { this.x = x; }`.",
    ),
    (
        "TypeScript import equals declaration is",
        "`import … =` generates code, but Glovebox only removes types.",
        "Write `const name = require('…');` or `import name from '…';`.",
    ),
    (
        "TypeScript export assignment is",
        "`export =` generates code, but Glovebox only removes types.",
        "Write `export default …;`.",
    ),
    ("The angle-bracket syntax for type assertions", "`<Type>value` is ambiguous.", "Write `value as Type`."),
    (
        "cannot remove the types: the script is nested too deeply",
        "The script's brackets or operators are nested too deeply to remove its types.",
        "Move the inner parts into separate variables and functions, or data into a file.",
    ),
];

/// Returns advice on a TypeScript module, or on TypeScript that the TypeScript stripper rejected; `None` if the
/// exception has another origin.
pub(super) fn typescript_advice(failure: &UncaughtException<'_>) -> Option<Advice> {
    let message = failure.message();
    if is_in_module(failure) {
        return Some(Advice::new(
            AdviceKind::TypescriptSyntax,
            "Types are removed from the script, but not from the modules that it loads.",
            &["Write the module in JavaScript, as `.js` or `.mjs`, or move its code into the script."],
        ));
    }
    let mut known = UNSUPPORTED_TYPESCRIPT.iter();
    let (_, summary, step) = known.find(|(beginning, _, _)| message.starts_with(beginning))?;
    Some(Advice::new(AdviceKind::TypescriptSyntax, *summary, &[step]).with(required(failure)))
}

/// Returns `true` if the error is in a TypeScript file that the script imports, and not in the script.
fn is_in_module(failure: &UncaughtException<'_>) -> bool {
    let place = failure.raised.traceback.lines().find_map(|line| line.trim_start().strip_prefix("at "));
    let is_types = |place: &str| [".ts:", ".mts:", ".cts:"].iter().any(|extension| place.contains(extension));
    failure.raised.line.is_none() && place.is_some_and(is_types)
}

/// Converts `import name = require('…')` to JavaScript.
fn required(failure: &UncaughtException<'_>) -> Option<Correction> {
    let line = failure.line()?;
    let rest = line.trim_start().strip_prefix("import ")?;
    let (name, value) = rest.split_once('=')?;
    let is_name =
        !name.trim().is_empty() && name.trim().chars().all(|char| char.is_alphanumeric() || "_$".contains(char));
    let is_call = value.trim_start().starts_with("require(") && value.trim_end().trim_end_matches(';').ends_with(')');
    if !is_name || !is_call {
        return None;
    }
    let indent = line.len() - line.trim_start().len();
    failure.corrected(format!("{}const {rest}", line.get(..indent)?))
}

/// Returns `true` if a line of JavaScript probably contains types.
fn looks_like_typescript(line: &str) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let declares = |word: &str, after: char| {
        let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
        rest.is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_uppercase()) && rest.contains(after))
    };
    let is_basic = |rest: &str| {
        let rest = rest.trim_start();
        let word = rest.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
        matches!(word, "string" | "number" | "boolean" | "any" | "void" | "unknown")
            || ["Record<", "Array<", "Promise<"].iter().any(|generic| rest.starts_with(generic))
    };
    let is_typed = || line.match_indices(':').any(|(at, _)| line.get(at + 1..).is_some_and(is_basic));
    let holds = || ["const ", "let ", "var ", "function ", "async function "].iter().any(|word| line.starts_with(word));
    declares("interface", '{') || declares("type", '=') || (holds() && is_typed())
}
