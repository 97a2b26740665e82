//! Runs the tasks in `docs/examples/`, each in a copy of its directory. The output of a task's command must equal
//! `output.txt` and the output in `README.md`. `BLESS=1` writes both.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The page in the directory of all tasks, and in each task's directory.
const PAGE: &str = "README.md";
/// The file with a task's expected output.
const OUTPUT: &str = "output.txt";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

/// Returns the tasks' directories, sorted by name.
fn tasks() -> Vec<PathBuf> {
    let entries = fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap().path());
    let mut tasks: Vec<_> = entries.filter(|path| path.file_name().unwrap() != PAGE).collect();
    tasks.sort();
    tasks
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Splits a page at its block of commands. Returns the text before the block, the command's arguments after `glovebox`,
/// and the displayed output.
fn shown(page: &str) -> Option<(&str, &str, &str)> {
    let (before, block) = page.split_once("```console\n$ glovebox ")?;
    let (command, rest) = block.split_once('\n')?;
    Some((before, command, rest.strip_suffix("```\n")?))
}

/// Runs a task. Returns the difference between its output and the page, or an empty string if they are equal.
fn check(task: &Path, is_blessing: bool) -> String {
    let directory = tempfile::tempdir().unwrap();
    copy(task, directory.path());
    let page = fs::read_to_string(task.join(PAGE)).unwrap();
    let Some((before, command, output)) = shown(&page) else {
        return format!("{}: the page does not end with one command and its output\n", task.display());
    };
    let ran = Command::new(env!("CARGO_BIN_EXE_glovebox"))
        .args(command.split_whitespace())
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if !ran.status.success() {
        return format!("{}: {}\n{stdout}{stderr}\n", task.display(), ran.status);
    }
    if is_blessing {
        fs::write(task.join(OUTPUT), stdout.as_bytes()).unwrap();
        fs::write(task.join(PAGE), format!("{before}```console\n$ glovebox {command}\n{stdout}```\n")).unwrap();
        return String::new();
    }
    let expected = fs::read_to_string(task.join(OUTPUT)).unwrap_or_default();
    if stdout != expected {
        return format!(
            "{}: the command prints\n{stdout}{stderr}--- but {OUTPUT} contains\n{expected}\n",
            task.display()
        );
    }
    if output != expected {
        format!("{}: {PAGE} does not show the text of {OUTPUT}\n", task.display())
    } else {
        String::new()
    }
}

#[test]
fn examples_print_the_shown_output() {
    let prepared = Command::new(env!("CARGO_BIN_EXE_glovebox")).args(["runtimes", "prepare"]).output().unwrap();
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    let is_blessing = env::var_os("BLESS").is_some_and(|value| value == "1");
    let wrong: String = tasks().iter().map(|task| check(task, is_blessing)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn list_contains_every_example() {
    let list = fs::read_to_string(examples().join(PAGE)).unwrap();
    let mut listed: Vec<_> =
        list.split("](").skip(1).filter_map(|rest| Some(examples().join(rest.split_once("/README.md)")?.0))).collect();
    listed.sort();
    assert_eq!(listed, tasks());
    assert_eq!(listed.len(), 13);
}

#[test]
fn a_page_shows_one_command() {
    let page = "# T\n\n```console\n$ glovebox run a.py\n1\n\n2\n```\n";
    assert_eq!(shown(page), Some(("# T\n\n", "run a.py", "1\n\n2\n")));
    assert_eq!(shown("```console\n$ glovebox run a.py\n```\n"), Some(("", "run a.py", "")));
    for other in ["", "```console\n$ glovebox run a.py\n1\n```\nmore\n", "```console\n$ echo\n```\n"] {
        assert_eq!(shown(other), None, "{other}");
    }
}
