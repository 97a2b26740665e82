//! Advice on common failures of Python scripts.

use super::{
    Advice, AdviceKind, Correction, UncaughtException, fenced, has_word, is_fenced,
    limits::{self, PathError},
    modules, nearest, packages, quoted,
    replacements::{DATA_RUNTIME, IN_DATA_RUNTIME, INSTEAD, INSTEAD_WITH_DATA, RESEMBLING, replacement},
};
use crate::Language;

/// Returns advice on an exception; `None` if the exception's message is clear enough.
pub(super) fn advice(failure: &UncaughtException<'_>) -> Option<Advice> {
    if let Some(advice) = limits::advice(failure.message()) {
        return Some(advice);
    }
    match failure.raised.type_name.as_str() {
        "SyntaxError" | "IndentationError" | "TabError" => Some(syntax(failure)),
        "MemoryError" if limits::is_parser_stack(failure.message()) => {
            Some(deep_nesting_advice("The source is nested too deeply for Python's parser. More memory does not help."))
        }
        "RecursionError" if limits::is_compiler_stack(failure.message()) => {
            Some(deep_nesting_advice("The source is nested too deeply for Python's compiler."))
        }
        "ImportError" if failure.message().contains("is required for parquet support") => Some(Advice::new(
            AdviceKind::Module,
            "The packages pyarrow and fastparquet are not available, and scripts cannot install packages.",
            &["Leave out `engine`: `read_parquet` and `to_parquet` work without these packages."],
        )),
        "ModuleNotFoundError" => Some(module(failure, failure.text_between("No module named '", "'")?)),
        "PermissionError" | "FileNotFoundError" => path(failure),
        "EOFError" => failure.message().starts_with("EOF when reading").then(input),
        "RuntimeError" if failure.message().starts_with("asyncio.run() cannot be called") => Some(Advice::new(
            AdviceKind::Environment,
            "An event loop is already running: an `async` function made the call, or the script has `await` outside functions.",
            &[
                "Replace `asyncio.run(f())` with `await f()`.",
                "If the call is in a function without `async`, declare the function with `async def`, and await its calls.",
            ],
        )),
        "RuntimeError" => needs_threads(failure.message()).then(threads),
        "ZoneInfoNotFoundError" if !failure.has_data_packages => Some(Advice::new(
            AdviceKind::Module,
            "The time zone does not exist, or this runtime has no time zone data for `zoneinfo`.",
            &[
                "Check the name of the time zone.",
                "Use `dateutil.tz.gettz(name)`, which has its own data.",
                DATA_RUNTIME,
            ],
        )),
        "OSError" if needs_processes(failure.message()) => Some(subprocess()),
        // Many calls raise this error, but only socket calls concern the network.
        "OSError" if failure.message().starts_with("[Errno 58] Not supported") => {
            failure.raised.traceback.contains("socket").then(network)
        }
        "OSError" => directory(failure),
        // The message already describes the server's failure.
        "URLError" if limits::was_tried(failure.message()) => None,
        "URLError" | "SSLError" | "gaierror" => Some(network()),
        "AttributeError" => attribute(failure),
        "NameError" => name(failure),
        _ => None,
    }
}

fn deep_nesting_advice(summary: &str) -> Advice {
    Advice::new(
        AdviceKind::Syntax,
        summary,
        &[
            "Split the expression: assign its parts to variables, or build it in a loop.",
            "Read data with `json.loads` instead of as Python source.",
        ],
    )
}

/// Recognizes the messages of CPython and `boot/threads.py`.
fn needs_threads(message: &str) -> bool {
    message == "can't start new thread" || message.ends_with("the sandbox has no threads")
}

/// Recognizes the messages of CPython and `boot/world.py`.
fn needs_processes(message: &str) -> bool {
    message.contains("does not support processes") || message.ends_with("the sandbox has no processes")
}

fn module(failure: &UncaughtException<'_>, name: &str) -> Advice {
    if name.starts_with("concurrent.futures.") {
        return threads();
    }
    if name.starts_with("multiprocessing.") {
        return subprocess();
    }
    let top = name.split('.').next().unwrap_or(name);
    let missing = format!("Module {} was not found.", quoted(name));
    if top == "IPython" {
        return Advice::new(
            AdviceKind::Module,
            missing,
            &["Remove the import: `display` is built in. It shows tables, figures and text."],
        );
    }
    if failure.has_data_packages
        && let Some(instead) = replacement(INSTEAD_WITH_DATA, top)
    {
        return Advice::new(AdviceKind::Module, missing, &[instead]);
    }
    // Compare the full name: the replacements are for whole packages, not for a missing submodule.
    match name {
        "httpx" | "aiohttp" | "websockets" | "websocket" | "ssl" | "_ssl" | "paramiko" | "boto3" | "grpc"
        | "telnetlib" | "nntplib" => {
            return Advice {
                summary: format!("{missing} Use `requests`, if the sandbox's policy allows network access."),
                ..network()
            };
        }
        "_multiprocessing" | "_posixshmem" | "pexpect" | "psutil" => {
            return Advice { summary: format!("{missing} Scripts cannot start processes."), ..subprocess() };
        }
        _ => {}
    }
    let instead = replacement(INSTEAD, name);
    if !failure.has_data_packages && has_word(IN_DATA_RUNTIME, name) {
        let steps = match instead {
            Some(instead) => [instead, DATA_RUNTIME],
            None => [DATA_RUNTIME, "Use the standard library."],
        };
        return Advice::new(AdviceKind::Module, missing, &steps);
    }
    if let Some(instead) = instead {
        return Advice::new(AdviceKind::Module, missing, &[instead]);
    }
    if packages().any(|package| package == name) {
        return Advice::new(
            AdviceKind::Module,
            format!("{missing} It is a package, and this sandbox runs without packages."),
            &[
                "Use the standard library, or write the code that you need in the script.",
                "Ask the operator to enable packages (`inject_setup`).",
            ],
        );
    }
    let is_misspelt = !has_word(RESEMBLING, top);
    let near = is_misspelt.then(|| nearest(top, modules(Language::Python).chain(packages()))).flatten();
    let mut advice = Advice::new(
        AdviceKind::Module,
        missing,
        &[
            "Use the standard library or an available package, or write the code that you need in the script.",
            "Put your own modules into `/app`.",
        ],
    );
    if let Some(near) = near {
        advice.steps.insert(0, format!("Did you mean `{near}`?"));
        advice.correction = failure.with_word(top, near);
    }
    advice
}

fn attribute(failure: &UncaughtException<'_>) -> Option<Advice> {
    let (_, rest) = failure.message().split_once("module '")?;
    let (module, rest) = rest.split_once("' has no attribute '")?;
    let name = rest.split_once('\'')?.0;
    match (module, name) {
        ("_socket", _) | ("socket", "getaddrinfo" | "gethostbyname") => Some(network()),
        ("os", "system" | "fork" | "forkpty" | "kill" | "wait" | "waitpid") => Some(subprocess()),
        ("os", name) if name.starts_with("exec") || name.starts_with("spawn") || name.starts_with("posix_spawn") => {
            Some(subprocess())
        }
        ("signal", "alarm" | "setitimer") => Some(Advice::new(
            AdviceKind::Time,
            "Timers cannot interrupt a script.",
            &["Check `time.monotonic()` in the loop.", "Set `limits.timeout_ms` to limit the whole execution."],
        )),
        _ => None,
    }
}

fn network() -> Advice {
    Advice::new(
        AdviceKind::Network,
        "The sandbox has no sockets, and no network access unless its policy allows it.",
        &limits::STEPS,
    )
}

fn subprocess() -> Advice {
    Advice::new(
        AdviceKind::Subprocess,
        "Scripts cannot start processes, and the sandbox has no shell.",
        &[
            "Use Python: `pathlib`, `shutil` and `glob` for files, `re` and `textwrap` for text, `zipfile` and `tarfile` for archives.",
            "Ask the operator for a tool that performs the task, and call it.",
        ],
    )
}

fn threads() -> Advice {
    Advice::new(
        AdviceKind::Threads,
        "The sandbox has no threads.",
        &["Do the work sequentially, in a loop.", "Use `asyncio` for code that waits: it needs no threads."],
    )
}

fn input() -> Advice {
    Advice::new(
        AdviceKind::Input,
        "Standard input has ended, and no user can answer.",
        &["Put the values into the script, or into a file in `/app`.", "Pass standard input to the execution."],
    )
}

/// Advises on pandas' message about a missing directory.
fn directory(failure: &UncaughtException<'_>) -> Option<Advice> {
    let directory = failure.text_between("Cannot save file into a non-existent directory: '", "'")?;
    limits::path(&format!("{directory}/x"), None, PathError::Missing, Language::Python).map(|mut advice| {
        advice.summary = format!("There is no directory {}.", quoted(directory));
        advice
    })
}

/// Advises on the one or two paths at the end of the message, which are Python string literals.
fn path(failure: &UncaughtException<'_>) -> Option<Advice> {
    let (text, written) = failure.message().split_once("]")?.1.split_once(": ")?;
    let (path, rest) = literal(written)?;
    let target = rest.strip_prefix(" -> ").and_then(literal).map(|(target, _)| target);
    let error = if failure.is("FileNotFoundError") {
        PathError::Missing
    } else if text.ends_with("Operation not permitted") {
        PathError::NotPermitted
    } else {
        PathError::Denied
    };
    limits::path(&path, target.as_deref(), error, Language::Python)
}

/// Splits a string literal from the text that follows it.
fn literal(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|char| matches!(char, '\'' | '"'))?;
    let (inside, rest) = text.get(1..)?.split_once(quote)?;
    Some((inside.replace(r"\\", r"\"), rest))
}

/// Advises on JavaScript names, such as `null` or `console`.
fn name(failure: &UncaughtException<'_>) -> Option<Advice> {
    const VALUES: [(&str, &str); 4] = [("null", "None"), ("undefined", "None"), ("true", "True"), ("false", "False")];
    const OBJECTS: [&str; 15] = [
        "Array", "Date", "JSON", "Map", "Math", "Number", "Object", "Promise", "Set", "String", "console", "document",
        "parseInt", "process", "require",
    ];
    let name = failure.text_between("name '", "' is not defined")?;
    if name == "get_ipython" {
        return Some(Advice::new(
            AdviceKind::Environment,
            "`get_ipython` exists only in notebooks (IPython).",
            &["Remove the call: figures and tables are shown without it, and there is no shell."],
        ));
    }
    if let Some((_, value)) = VALUES.iter().find(|(theirs, _)| *theirs == name) {
        return Some(
            Advice::new(
                AdviceKind::Syntax,
                format!("{} is JavaScript: in Python it is `{value}`.", quoted(name)),
                &[&format!("Write `{value}`, or parse JSON text with `json.loads`.")],
            )
            .with(failure.with_word(name, value)),
        );
    }
    let line = failure.line().filter(|_| OBJECTS.contains(&name))?;
    let is_used = ['.', '('].into_iter().any(|sign| line.contains(&format!("{name}{sign}")));
    is_used.then(|| {
        Advice::new(AdviceKind::Syntax, format!("There is no {} in Python.", quoted(name)), &[LOOKS_LIKE_JAVASCRIPT])
    })
}

const LOOKS_LIKE_JAVASCRIPT: &str = "This looks like JavaScript: run it as JavaScript, or rewrite it in Python.";

fn syntax(failure: &UncaughtException<'_>) -> Advice {
    let line = failure.line();
    let advice = |steps: &[&str]| Advice::new(AdviceKind::Syntax, "The script is not valid Python.", steps);
    if is_fenced(failure.source) {
        return fenced();
    }
    if let Some(step) = line.and_then(notebook_command) {
        return Advice::new(AdviceKind::Syntax, "This is a notebook command (IPython), not Python.", &[step]);
    }
    if line.is_some_and(looks_like_javascript) {
        return advice(&[LOOKS_LIKE_JAVASCRIPT]);
    }
    if ["'await' outside function", "'async with' outside function", "'async for' outside function"]
        .iter()
        .any(|text| failure.message().starts_with(text))
    {
        return Advice::new(
            AdviceKind::Syntax,
            "`await` is used in a class body, or at the top level of an imported file or of code for `exec`.",
            &["Move the call into an `async` function, or to the top level of the script."],
        );
    }
    if ["'await'", "'async ", "asynchronous comprehension"].iter().any(|text| failure.message().starts_with(text)) {
        return Advice::new(
            AdviceKind::Syntax,
            "`await` is used in a function that is not `async`.",
            &["Declare the function with `async def`, and await its calls, or run it with `asyncio.run`."],
        );
    }
    let message = failure.message();
    let correction = line.and_then(|line| match message {
        _ if message.starts_with("Missing parentheses in call to 'print'") => print_call(failure, line),
        _ if message.starts_with("expected ':'") => colon(failure, line),
        _ => None,
    });
    let step = match message {
        _ if message.starts_with("Missing parentheses") => "`print` is a function: `print(x)`.",
        _ if message.starts_with("expected ':'") && line.is_some_and(is_else_if) => {
            "Write `elif` instead of `else if`."
        }
        _ if message.starts_with("expected ':'") => "End the first line of the block with a colon.",
        _ if message.starts_with("unterminated") => "Close the string. Use triple quotes for a multi-line string.",
        _ if message.contains("was never closed") => "Close the bracket that the message names.",
        _ if message.contains("indent") => "Indent all lines of a block equally, with four spaces per level.",
        _ => "Check the line that the message names, and the line before it.",
    };
    advice(&[step]).with(correction)
}

/// Returns `true` if the text is complete enough to become an argument: balanced, without a comment or a second
/// statement.
fn is_whole(text: &str) -> bool {
    let closed = |open: char, close: char| text.matches(open).count() == text.matches(close).count();
    let quotes = |quote: char| text.matches(quote).count().is_multiple_of(2);
    !text.contains(['#', ';', '\\'])
        && closed('(', ')')
        && closed('[', ']')
        && closed('{', '}')
        && quotes('"')
        && quotes('\'')
}

/// Adds parentheses to `print x`. Returns no correction for a trailing comma or `>>`, which parentheses alone cannot
/// express.
fn print_call(failure: &UncaughtException<'_>, line: &str) -> Option<Correction> {
    let (before, inside) = line.split_once("print ")?;
    let inside = inside.trim();
    let is_alone = before.trim().is_empty() && !inside.is_empty() && is_whole(inside);
    let is_plain = !inside.ends_with(',') && !inside.starts_with(">>") && !inside.starts_with('(');
    (is_alone && is_plain).then(|| failure.corrected(format!("{before}print({inside})"))).flatten()
}

const ELSE_IF: &str = "else if ";

fn is_else_if(line: &str) -> bool {
    line.trim_start().starts_with(ELSE_IF)
}

/// Adds a missing colon to a block's first line, if the line is otherwise complete. Replaces `else if` with `elif`.
fn colon(failure: &UncaughtException<'_>, line: &str) -> Option<Correction> {
    const HEADS: [&str; 12] =
        ["if ", "elif ", "else", "for ", "while ", "def ", "class ", "try", "except", "finally", "with ", "match "];
    let head = line.trim();
    if let Some(condition) = head.strip_prefix(ELSE_IF).filter(|condition| is_whole(condition)) {
        let indentation = line.get(..line.len() - line.trim_start().len())?;
        let colon = if condition.ends_with(':') { "" } else { ":" };
        return failure.corrected(format!("{indentation}elif {condition}{colon}"));
    }
    let is_head = HEADS.iter().any(|start| head.starts_with(start)) && !head.contains(':') && is_whole(head);
    is_head.then(|| failure.corrected(format!("{}:", line.trim_end()))).flatten()
}

/// Returns advice on a line with a notebook command, such as `!pip` or `%matplotlib`.
fn notebook_command(line: &str) -> Option<&'static str> {
    const INSTALLERS: [&str; 7] = ["pip", "pip3", "conda", "mamba", "uv", "apt", "apt-get"];
    const NO_INSTALLATION: &str =
        "Remove the line: scripts cannot install packages. Ask the operator to add them with `glovebox packages add`.";
    let line = line.trim();
    let mut words = line.split_whitespace();
    if words.next().is_some_and(|first| INSTALLERS.contains(&first)) && words.next() == Some("install") {
        return Some(NO_INSTALLATION);
    }
    let command = line.split_once("= ").map_or(line, |(name, rest)| match rest.trim_start() {
        rest if rest.starts_with(['!', '%']) && !name.contains(['(', '"', '\'']) => rest,
        _ => line,
    });
    let is_magic = command.starts_with('%');
    if let Some(command) = command.strip_prefix(['!', '%']) {
        let mut words = command.trim_start_matches(['!', '%']).split_whitespace();
        let first = words.next().unwrap_or_default();
        if INSTALLERS.contains(&first) {
            return Some(NO_INSTALLATION);
        }
        if command.starts_with('=') {
            return None;
        }
        let instead = if is_magic && matches!(first, "time" | "timeit") {
            "Remove the command. Use the `time` module to measure time."
        } else if line.starts_with('%') {
            "Remove the line: figures and tables are shown without it."
        } else {
            "Replace the line with Python: there is no shell. Use `pathlib` and `shutil` for files."
        };
        return Some(instead);
    }
    (line.starts_with('?') || line.ends_with('?') && !line.contains('#')).then_some("Use `help(…)` instead of `?`.")
}

fn looks_like_javascript(line: &str) -> bool {
    let line = line.trim();
    let starts =
        ["const ", "let ", "var ", "function ", "async function ", "//", "/*", "export ", "} else", "throw new "];
    let parts = ["console.log(", "===", "!==", "${", "++;", "=> {", ") => "];
    // Parenthesized conditions and these operators indicate JavaScript, unless the line ends with Python's colon.
    let is_block = ["if (", "for (", "while (", "switch ("].iter().any(|head| line.starts_with(head));
    let has_operator = [" && ", " || ", " = new "].iter().any(|operator| line.contains(operator));
    let is_new = || line.strip_prefix("new ").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    starts.iter().any(|start| line.starts_with(start))
        || parts.iter().any(|part| line.contains(part))
        || ["++", "--"].iter().any(|end| line.ends_with(end))
        || is_new()
        || ((is_block || has_operator) && !line.ends_with(':'))
}
