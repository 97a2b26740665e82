//! Advice on exceeded limits and on the missing network.

use super::{Advice, AdviceKind, Facts, UncaughtException, quoted};
use crate::{Language, Outcome, Resource, SCRATCH, TrapKind, WORKSPACE};

/// Returns advice on an outcome that concerns a limit.
pub(super) fn of_outcome(facts: &Facts<'_>) -> Option<Advice> {
    match facts.outcome {
        Outcome::Exhausted { resource: Resource::Fuel, limit, .. } => {
            let advice = Advice::new(
                AdviceKind::Fuel,
                format!("The script used all of its fuel, {limit} units, before it finished."),
                &[
                    "Check for an endless loop.",
                    "Do less work in one execution: process part of the data, or split the work into several executions of a session.",
                ],
            );
            Some(or_raised(advice, facts, "fuel"))
        }
        Outcome::Exhausted { resource: Resource::Time, limit, .. } => {
            let advice = Advice::new(
                AdviceKind::Time,
                format!("The script took longer than {limit} ms."),
                &[
                    "Remove waits: `sleep`, `setTimeout` and slow tools count towards the limit.",
                    "Do less work in one execution, or check for an endless loop.",
                ],
            );
            Some(or_raised(advice, facts, "timeout_ms"))
        }
        outcome if outcome.is_out_of_session_memory() => Some(session_memory(facts)),
        Outcome::Exhausted { resource: Resource::Memory, .. } => Some(memory(facts)),
        Outcome::Trapped { trap: TrapKind::StackOverflow } => Some(call_depth(facts.language)),
        Outcome::Raised(raised) => {
            let failure =
                UncaughtException { raised, source: facts.source, has_data_packages: facts.has_data_packages };
            let is_deep = match facts.language {
                Language::Python => failure.is("RecursionError") && !is_compiler_stack(failure.message()),
                Language::JavaScript => failure.is("RangeError") && failure.message().contains("call stack"),
            };
            let is_memory = match facts.language {
                Language::Python => failure.is("MemoryError") && !is_parser_stack(failure.message()),
                Language::JavaScript => failure.is("InternalError") && failure.message() == "out of memory",
            };
            if is_deep { Some(call_depth(facts.language)) } else { is_memory.then(|| memory(facts)) }
        }
        Outcome::Completed | Outcome::Exited { .. } | Outcome::Cancelled | Outcome::Trapped { .. } => None,
    }
}

/// Returns `true` if Python's parser exhausted its own stack. The parser's stack is independent of the script's memory
/// limit.
pub(super) fn is_parser_stack(message: &str) -> bool {
    message.contains("too complex to parse") || message.contains("Parser stack overflow")
}

/// Returns `true` if Python's compiler exceeded its depth limit, which means that the source is nested too deeply.
pub(super) fn is_compiler_stack(message: &str) -> bool {
    message.ends_with("during compilation")
}

/// Adds a step that suggests raising the limit, if it can be raised.
fn or_raised(mut advice: Advice, facts: &Facts<'_>, limit: &str) -> Advice {
    let raised = facts.limits.raised_limit(limit, 200);
    advice.steps.extend(raised.map(|raised| format!("If the script needs more, raise `limits.{limit}` to {raised}.")));
    advice
}

fn memory(facts: &Facts<'_>) -> Advice {
    let advice = Advice::new(
        AdviceKind::Memory,
        format!("The script exceeded its memory limit of {} bytes (`limits.memory_bytes`).", facts.limits.memory_bytes),
        &[
            "Process the data in parts: read line by line, and write each result immediately.",
            "Avoid copies of the data: files in `/app` count towards the limit.",
        ],
    );
    or_raised(advice, facts, "memory_bytes")
}

/// Returns advice on an allocation that failed because the memory for all sessions is exhausted.
fn session_memory(facts: &Facts<'_>) -> Advice {
    let limit = facts.limits.session_total_bytes;
    let advice = Advice::new(
        AdviceKind::Memory,
        format!(
            "All sessions together have reached their memory limit of {limit} bytes (`limits.session_total_bytes`)."
        ),
        &["Close sessions that are no longer needed, or run the script again later."],
    );
    or_raised(advice, facts, "session_total_bytes")
}

fn call_depth(language: Language) -> Advice {
    let replace = match language {
        Language::Python => "Replace the recursion with a loop that keeps its own stack in a list.",
        Language::JavaScript => "Replace the recursion with a loop that keeps its own stack in an array.",
    };
    Advice::new(
        AdviceKind::CallDepth,
        "The calls are nested deeper than the interpreter allows.",
        &["Check for endless recursion.", replace],
    )
}

/// Returns advice on truncated output.
pub(super) fn of_output(facts: &Facts<'_>) -> Option<Advice> {
    let streams = [
        ("Standard output", facts.stdout_bytes, facts.limits.stdout_bytes, "stdout_bytes"),
        ("Standard error", facts.stderr_bytes, facts.limits.stderr_bytes, "stderr_bytes"),
    ];
    let (stream, total, limit, name) = streams.into_iter().find(|(_, total, limit, _)| total > limit)?;
    let advice = Advice::new(
        AdviceKind::Output,
        format!("{stream} was truncated: the script wrote {total} bytes, but only the first {limit} are retained."),
        &["Print a summary, and write the rest to a file in `/app`."],
    );
    Some(or_raised(advice, facts, name))
}

/// Returns `true` if a path is in the workspace or in the scratch directory. Relative paths start in the workspace.
fn is_in_workspace(path: &str) -> bool {
    let from = if path.starts_with('/') { "" } else { WORKSPACE };
    let mut parts = Vec::new();
    for part in from.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.first().is_some_and(|first| [WORKSPACE, SCRATCH].iter().any(|top| top.strip_prefix('/') == Some(*first)))
}

/// The error of a call on a path, according to the exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathError {
    /// `ENOENT`: a file or directory does not exist.
    Missing,
    /// `EACCES`: the path, or a symlink on it, leads out of its mount.
    Denied,
    /// `EPERM`: the call is never allowed, such as a hard link to a directory.
    NotPermitted,
}

/// Explains the failure of a call on a path, or on a path and a target.
pub(super) fn path(path: &str, target: Option<&str>, error: PathError, language: Language) -> Option<Advice> {
    let mut paths = [Some(path), target].into_iter().flatten();
    if let Some(advice) = paths.find_map(|path| outside_advice(path, language)) {
        return Some(advice);
    }
    if path.is_empty() || target == Some("") {
        return None;
    }
    match error {
        PathError::Missing => Some(missing_path_advice(path, target, language)),
        PathError::Denied => Some(denied(path, target, language)),
        PathError::NotPermitted => None,
    }
}

/// Returns advice on a Windows path or on a path outside the workspace.
fn outside_advice(path: &str, language: Language) -> Option<Advice> {
    let is_windows = path.contains('\\') || path.get(1..3) == Some(":/");
    let named = quoted(path);
    if is_windows {
        return Some(Advice::new(
            AdviceKind::Path,
            format!("{named} is a Windows path, but the sandbox uses POSIX paths."),
            &["Put the file into the workspace, and use a path relative to `/app`, with `/` between the parts."],
        ));
    }
    if is_in_workspace(path) {
        return None;
    }
    let relative = match language {
        Language::Python => "Use a path relative to `/app`, the working directory, or a temporary file (`tempfile`).",
        Language::JavaScript => "Use a path relative to `/app`, the working directory.",
    };
    Some(Advice::new(
        AdviceKind::Path,
        format!("{named} is outside the workspace: scripts can access only `/app`, `/tmp` and mounted directories."),
        &[relative, "To read a host file, put it into the workspace, or ask the operator to mount its directory."],
    ))
}

/// Returns advice on a path in the workspace that may exist.
fn denied(path: &str, target: Option<&str>, language: Language) -> Advice {
    let find = match language {
        Language::Python => "`os.readlink(…)`",
        Language::JavaScript => "`fs.lstatSync(…).isSymbolicLink()`",
    };
    let links =
        format!("Check the path for symlinks with {find}: a symlink cannot lead out of `/app`, `/tmp` or its mount.");
    let mut advice =
        Advice::new(AdviceKind::Path, format!("The sandbox denies access to {}.", quoted(path)), &[&links]);
    if target.is_some() {
        advice.steps.push("To create a symlink, use a relative target: an absolute one is not allowed.".to_owned());
    }
    advice
}

/// Returns advice on a path in the workspace that does not exist, or whose directory does not exist. If the call has
/// two paths, the missing directory is the directory of the target.
fn missing_path_advice(path: &str, target: Option<&str>, language: Language) -> Advice {
    let list = "List the directory before you open a file. Without a session, each execution starts with only the files that its caller provides.";
    let named = quoted(path);
    let written = target.unwrap_or(path);
    let within = written.strip_prefix(WORKSPACE).map_or(written, |rest| rest.trim_start_matches('/'));
    let directory = within.rsplit_once('/').map(|(directory, _)| directory);
    let Some(directory) = directory.filter(|directory| !matches!(*directory, "." | SCRATCH)) else {
        let steps = [list, "Write the file first, in the same execution or session."];
        return Advice::new(AdviceKind::Path, format!("There is no file {named} in the workspace."), &steps);
    };
    let make = match language {
        Language::Python => "os.makedirs(…, exist_ok=True)",
        Language::JavaScript => "fs.mkdirSync(…, { recursive: true })",
    };
    let parent = target.map_or_else(|| "its directory".to_owned(), |to| format!("the directory of {}", quoted(to)));
    let directory = quoted(directory);
    Advice::new(
        AdviceKind::Path,
        format!("{named} or {parent} does not exist in the workspace."),
        &[
            &*format!("To write the file, first create the directory {directory} if it is missing: `{make}`."),
            list,
            "To read the file, write it first, in the same execution or session.",
        ],
    )
}

/// Possible solutions in a sandbox without a network.
pub(super) const STEPS: [&str; 3] = [
    "Put the data into the workspace, and read it from `/app`.",
    "Ask the operator for a tool that fetches the data, and call it.",
    "Ask the operator to allow the address, with `[network] allow = [\"https://api.example.com/*\"]` in the policy or with `--allow-net`. Scripts can then use `fetch`, `urllib.request` and `requests`.",
];

// Fragments that identify network errors. The first fragment is from messages of the drivers (`fetch.js`,
// `network.py`); the others are from messages of `glovebox-network`.
const OFF: &str = "the network is off in this sandbox";
const BEFORE_ORIGIN: &str = "requests to `";
const AFTER_ORIGIN: &str = "` are not allowed at this path";
const NOT_PUBLIC: [&str; 2] = ["is not a public address", "has no public address"];

/// Returns advice on an exception about the network.
pub(super) fn advice(message: &str) -> Option<Advice> {
    let of = |summary: String, steps: &[&str]| Some(Advice::new(AdviceKind::Network, summary, steps));
    if message.contains(OFF) {
        return of("The network is off in this sandbox.".to_owned(), &STEPS);
    }
    if let Some((_, rest)) = message.split_once(BEFORE_ORIGIN)
        && let Some((origin, _)) = rest.split_once(AFTER_ORIGIN)
    {
        return of(
            format!("The sandbox's policy does not allow this request to {}.", quoted(origin)),
            &[
                "Request one of the addresses that the message names. Scheme, host, port and path must all match.",
                "Ask the operator to add the address to `network.allow` in the policy, or to pass `--allow-net`.",
            ],
        );
    }
    if NOT_PUBLIC.iter().any(|text| message.contains(text)) && message.contains("network.allow_private") {
        return of(
            "The address is not public, and the sandbox's policy does not allow it.".to_owned(),
            &[
                "If scripts may access it, ask the operator to add its range to `network.allow_private` in the policy, or to pass `--allow-private-net`.",
            ],
        );
    }
    None
}

/// Returns `true` if the message is about a request that the policy allowed and that failed. Recognizes the messages
/// of `glovebox-network`.
pub(super) fn was_tried(message: &str) -> bool {
    ["cannot connect to `", "sent an invalid response: ", "the response was incomplete after "]
        .iter()
        .any(|text| message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limits,
        guidance::{guidance, tests::facts},
    };

    #[test]
    fn guidance_raises_no_limit_above_its_maximum() {
        let max = i64::MAX.unsigned_abs();
        for (fuel, suggested) in [(max / 2, Some(max - 1)), (max - 1, Some(max)), (max, None)] {
            let limits = Limits { fuel, ..Limits::default() };
            let outcome = Outcome::Exhausted { resource: Resource::Fuel, limit: fuel, used: fuel };
            let found = guidance(&facts(Language::JavaScript, "", &outcome, &limits));
            assert_eq!(found.fuel.suggested_limit, suggested);
            let is_suggested =
                found.advice.iter().any(|advice| advice.steps.iter().any(|step| step.contains("limits.fuel")));
            assert_eq!(is_suggested, suggested.is_some());
        }
    }

    #[test]
    fn guidance_names_the_memory_limit_that_was_reached() {
        let limits = Limits { memory_bytes: 16 << 20, session_total_bytes: 64 << 20, ..Limits::default() };
        for (used, key, limit) in [
            (12 << 20, "limits.session_total_bytes", 64 << 20),
            ((16 << 20) - 1, "limits.memory_bytes", 16 << 20),
            (17 << 20, "limits.memory_bytes", 16 << 20),
        ] {
            let outcome = Outcome::Exhausted { resource: Resource::Memory, limit: limits.memory_bytes, used };
            let found = guidance(&facts(Language::Python, "", &outcome, &limits)).advice;
            let [advice] = &*found else { panic!("{used}: {found:?}") };
            assert!(
                advice.summary.contains(&format!("limit of {limit} bytes (`{key}`)")),
                "{used}: {}",
                advice.summary
            );
            assert!(
                advice.steps.iter().any(|step| step.contains(&format!("raise `{key}`"))),
                "{used}: {:?}",
                advice.steps
            );
            assert_eq!(outcome.describe().contains("session_total_bytes"), key.contains("session"), "{used}");
        }
    }

    #[test]
    fn guidance_reports_truncated_output() {
        let limits = Limits { stdout_bytes: 10, stderr_bytes: 20, ..Limits::default() };
        for (stdout, stderr, says) in
            [(10, 20, None), (11, 20, Some("Standard output")), (10, 21, Some("Standard error"))]
        {
            let facts = Facts {
                stdout_bytes: stdout,
                stderr_bytes: stderr,
                ..facts(Language::Python, "", &Outcome::Completed, &limits)
            };
            let advice = guidance(&facts).advice;
            assert_eq!(advice.first().map(|advice| advice.kind), says.map(|_| AdviceKind::Output));
            assert!(advice.iter().all(|advice| advice.summary.starts_with(says.unwrap())));
        }
    }
}
