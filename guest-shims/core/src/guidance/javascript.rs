//! What JavaScript scripts run into.

use super::{
    Advice, AdviceKind, Failure, is_fenced, limits,
    names::{self, nearest},
    quoted, typescript,
};
use crate::Language;

/// What belongs to other environments, and what to do instead.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["document", "window", "navigator", "location", "history", "localStorage", "sessionStorage", "HTMLElement"],
        "There is no browser and no page: work with text and files, and print the result.",
    ),
    (
        &["alert", "confirm", "prompt"],
        "There is nobody to ask: print with `console.log`, and take values from the script or from files.",
    ),
    (&["Deno", "Bun"], "This is neither Deno nor Bun: use what `std` and `os` have."),
];

/// What an exception is about; none where nothing better is to be said than it says itself.
pub(super) fn advice(failure: &Failure<'_>) -> Option<Advice> {
    // The lines around it may as well be a template, which is called.
    if is_fenced(failure.source) {
        return Some(syntax(failure));
    }
    match failure.raised.type_name.as_str() {
        "SyntaxError" => typescript::advice(failure).or_else(|| Some(syntax(failure))),
        "ReferenceError" | "Error" => reference(failure),
        "TypeError" => null_file(failure).or_else(|| directory_entries(failure)),
        _ => None,
    }
}

fn reference(failure: &Failure<'_>) -> Option<Advice> {
    let message = failure.message();
    if let Some(name) =
        failure.within("could not load module filename '", "'").or(failure.within("Cannot find module '", "'"))
    {
        return Some(module(failure, name));
    }
    let name = message.strip_suffix(" is not defined")?;
    match name {
        "fetch" | "XMLHttpRequest" | "WebSocket" | "EventSource" => Some(Advice::new(
            AdviceKind::Network,
            format!("There is no {}: the sandbox has no network.", quoted(name)),
            &[
                "Put the data into the workspace, and read it from `/app`.",
                "Have the host offer a tool that fetches, and call that.",
            ],
        )),
        "Worker" | "SharedWorker" => Some(threads()),
        _ => {
            let (_, instead) = ELSEWHERE.iter().find(|(names, _)| names.contains(&name))?;
            Some(Advice::new(AdviceKind::Environment, format!("There is no {} here.", quoted(name)), &[instead]))
        }
    }
}

fn threads() -> Advice {
    Advice::new(
        AdviceKind::Threads,
        "There are no threads in the sandbox, and no workers.",
        &["Do one thing after the other; `async` functions and promises work."],
    )
}

fn module(failure: &Failure<'_>, name: &str) -> Advice {
    let bare = name.strip_prefix("node:").unwrap_or(name);
    let missing = format!("There is no module {} here.", quoted(name));
    match bare {
        "http" | "https" | "http2" | "net" | "tls" | "dgram" | "dns" | "axios" | "node-fetch" | "got" | "undici"
        | "ws" | "superagent" => {
            return Advice::new(
                AdviceKind::Network,
                format!("{missing} Nor is there a network."),
                &[
                    "Put the data into the workspace, and read it from `/app`.",
                    "Have the host offer a tool that fetches, and call that.",
                ],
            );
        }
        "child_process" | "cluster" | "execa" | "shelljs" => {
            return Advice::new(
                AdviceKind::Subprocess,
                format!("{missing} Nor are there other processes, or a shell."),
                &["Do it in JavaScript, with files in `/app`.", "Have the host offer a tool for it, and call that."],
            );
        }
        "worker_threads" => return Advice { summary: format!("{missing} Nor are there threads."), ..threads() },
        _ => {}
    }
    let mut advice = Advice::new(
        AdviceKind::Module,
        missing,
        &[
            "Write what you need of it in the script: packages are not installed here.",
            "Put modules of your own into `/app`, and import them as `./name.js`.",
        ],
    );
    let is_file = bare.starts_with(['.', '/']) || bare.contains('/');
    if !is_file && let Some(near) = nearest(bare, names::of(Language::JavaScript)) {
        advice.steps.insert(0, format!("Did you mean `{near}`?"));
        advice.correction = failure.with_word(bare, near);
    }
    advice
}

/// What opens a file gives `null` where there is none.
fn null_file(failure: &Failure<'_>) -> Option<Advice> {
    let is_null = failure.message().ends_with(" of null");
    let line = failure.line().filter(|_| is_null)?;
    let path = ["std.open(", "std.loadFile("].iter().find_map(|call| {
        let (_, argument) = line.split_once(call)?;
        let quote = argument.chars().next().filter(|char| matches!(char, '\'' | '"' | '`'))?;
        argument.get(1..)?.split_once(quote).map(|(path, _)| path)
    })?;
    limits::path(path)
}

/// `os.readdir` and its like give two things: what was asked for, and the error.
fn directory_entries(failure: &Failure<'_>) -> Option<Advice> {
    let line = failure.line().filter(|_| failure.message() == "not a function")?;
    let call =
        ["os.readdir(", "os.stat(", "os.getcwd(", "os.realpath("].into_iter().find(|call| line.contains(call))?;
    let name = call.trim_end_matches('(');
    Some(Advice::new(
        AdviceKind::Environment,
        format!("`{name}` gives an array of two: what was asked for, and the error's number."),
        &[&format!("Take it apart: `const [result, error] = {name}(…)`.")],
    ))
}

fn syntax(failure: &Failure<'_>) -> Advice {
    let advice = |steps: &[&str]| Advice::new(AdviceKind::Syntax, "The script is not valid JavaScript.", steps);
    if is_fenced(failure.source) {
        return advice(&["Send the code alone, without the ``` lines around it."]);
    }
    if failure.line().is_some_and(looks_like_python) {
        return advice(&["This looks like Python: run it as that, or write it in JavaScript."]);
    }
    if failure.line().is_some_and(typescript::looks_like) {
        return Advice {
            kind: AdviceKind::TypescriptSyntax,
            ..advice(&["This looks like TypeScript: run it under a name that ends in `.ts`."])
        };
    }
    let step = match failure.message() {
        "Unexpected end of input" => "Close what is open: a brace, a bracket or a parenthesis is missing at the end.",
        message if message.contains("string") => {
            "Close the string; one that goes over several lines is between backquotes."
        }
        _ => "Look at the line that the message names, and at the one before it.",
    };
    advice(&[step, "`validate` checks a script without running it."])
}

fn looks_like_python(line: &str) -> bool {
    let line = line.trim();
    let is_block = ["def ", "class ", "if ", "for ", "while ", "with ", "elif ", "try", "except"]
        .iter()
        .any(|head| line.starts_with(head));
    (is_block && line.ends_with(':'))
        || (line.starts_with("from ") && line.contains(" import "))
        || line.starts_with("# ")
}
