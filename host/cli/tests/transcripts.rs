//! Runs the transcripts in `tests/transcripts/` literally: commands and their output.
//!
//! A transcript is a Markdown file. In its `console` blocks, a line that begins with `$ ` is a shell command. The lines
//! up to the next empty line before a command, or to the end of the block, are the command's output, including standard
//! error. A first output line such as `? 3` states the exit code, which is 0 by default. `[..]` matches any text within
//! a line. If a directory has the transcript's name with the extension `.in`, commands run in a copy of it. Sessions
//! are stored in a separate state directory.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// A command and its expected output.
#[derive(Debug, Default)]
struct TranscriptStep {
    command: String,
    lines: Vec<String>,
}

fn steps(text: &str) -> Vec<TranscriptStep> {
    let mut steps: Vec<TranscriptStep> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if !inside {
            inside = line == "```console";
        } else if line == "```" {
            inside = false;
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(TranscriptStep { command: command.into(), ..TranscriptStep::default() });
        } else {
            steps.last_mut().unwrap_or_else(|| panic!("`{line}` belongs to no command")).lines.push(line.into());
        }
    }
    for step in &mut steps {
        while step.lines.last().is_some_and(String::is_empty) {
            step.lines.pop();
        }
        if !step.lines.first().is_some_and(|line| line.starts_with("? ")) {
            step.lines.insert(0, "? 0".into());
        }
    }
    steps
}

/// Returns `true` if `line` matches `pattern`, in which `[..]` matches any text.
fn matches(pattern: &str, line: &str) -> bool {
    match pattern.split_once("[..]") {
        None => pattern == line,
        Some((before, after)) => line
            .strip_prefix(before)
            .is_some_and(|rest| (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|tail| matches(after, tail)))),
    }
}

fn run(step: &TranscriptStep, directory: &Path, state: &Path) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_glovebox")).parent().unwrap();
    let mut path = OsString::from(binary);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {}", step.command)])
        .current_dir(directory)
        .env("PATH", path)
        .env("XDG_STATE_HOME", state)
        .env_remove("GLOVEBOX_STORE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut lines = vec![format!("? {}", output.status.code().unwrap_or(-1))];
    lines.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn check(transcript: &Path) -> String {
    // The directories are separate, because scripts must not have access to a directory that contains the state.
    let (directory, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = transcript.with_extension("in");
    if files.is_dir() {
        for entry in fs::read_dir(files).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
        }
    }
    let mut differences = String::new();
    for step in steps(&fs::read_to_string(transcript).unwrap()) {
        let found = run(&step, directory.path(), state.path());
        let same = found.len() == step.lines.len()
            && step.lines.iter().zip(&found).all(|(pattern, line)| matches(pattern, line));
        if !same {
            writeln!(
                differences,
                "{}: $ {}\n--- expected\n{}\n--- found\n{}\n",
                transcript.display(),
                step.command,
                step.lines.join("\n"),
                found.join("\n")
            )
            .unwrap();
        }
    }
    differences
}

/// Prepares the interpreters. If the cache is empty, the first run reports its progress on standard error, which
/// transcripts do not contain.
fn prepare() {
    for arguments in [&["runtimes", "prepare"][..], &["runtimes", "prepare", "typescript"]] {
        let prepared = Command::new(env!("CARGO_BIN_EXE_glovebox")).args(arguments).output().unwrap();
        assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    }
}

#[test]
fn transcripts_match_the_command() {
    let mut transcripts: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    transcripts.sort();
    prepare();
    assert!(transcripts.len() >= 5, "transcripts are missing");
    let differences: String = transcripts.iter().map(|transcript| check(transcript)).collect();
    assert!(differences.is_empty(), "{differences}");
}

/// The tour in `docs/sessions.md` is a transcript, too: the text under its heading, up to the next heading.
#[test]
fn session_tour_matches_the_command() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sessions.md")).unwrap();
    let (_, tour) = page.split_once("\n## Sessions in ten commands\n").unwrap();
    let tour = tour.split_once("\n## ").unwrap().0;
    assert_eq!(steps(tour).len(), 10);
    let directory = tempfile::tempdir().unwrap();
    let transcript = directory.path().join("sessions.md");
    fs::write(&transcript, tour).unwrap();
    prepare();
    let differences = check(&transcript);
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn wrong_transcript_fails() {
    assert!(matches("a[..]c", "abc") && matches("[..]", "") && matches("a[..]", "a") && matches("[..]b[..]b", "ab.b"));
    assert!(!matches("a[..]c", "abd") && !matches("ab", "abc") && !matches("[..]b", "bc"));
    let steps = steps("```console\n$ a\n? 3\nb\n\nc\n\n$ d\n```\n$ e\n");
    let found: Vec<_> = steps.iter().map(|step| (step.command.as_str(), step.lines.join("|"))).collect();
    assert_eq!(found, [("a", "? 3|b||c".into()), ("d", "? 0".to_owned())]);
}
