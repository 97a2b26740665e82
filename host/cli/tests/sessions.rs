//! Tests sessions across processes, and the REPL at a terminal.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use support::{interrupt, prepare, text, up, wait};

/// The JSON output of `terminal.py`.
#[derive(serde::Deserialize)]
struct AtTerminal {
    output: String,
    code: i64,
    untyped: Vec<(String, String)>,
}

/// The state directory for one test.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        prepare();
        Self(tempfile::tempdir().unwrap())
    }

    fn with_state(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_STATE_HOME", self.0.path()).env_remove("GLOVEBOX_STORE").env_remove("GLOVEBOX_KEY_FILE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn glovebox(&self, args: &[&str]) -> Command {
        let mut command = self.with_state(env!("CARGO_BIN_EXE_glovebox"));
        command.args(args);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.glovebox(args).output().unwrap()
    }

    /// Returns the output of a command that must succeed.
    fn stdout(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns the error from a command that must fail.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stderr)
    }

    /// Starts a command and waits for its first line, `up`.
    fn started(&self, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child = self.glovebox(args).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        up(&mut out);
        (child, out)
    }

    /// Runs a command at a terminal. Each step is a string to wait for and a string to type afterwards.
    fn at_terminal(&self, variables: &[(&str, &str)], args: &[&str], steps: &[(&str, &str)]) -> (String, i64) {
        let mut command = self.with_state("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal.py")).arg(env!("CARGO_BIN_EXE_glovebox"));
        command.args(args).env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for (expected, typed) in steps {
            writeln!(stdin, "{}", serde_json::json!([expected, typed])).unwrap();
        }
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let AtTerminal { output, code, untyped } = serde_json::from_slice(&output.stdout).unwrap();
        assert!(untyped.is_empty(), "{untyped:?} {output}");
        (output, code)
    }
}

/// Starts a REPL that uses the session `s` until its standard input is closed.
fn holding(home: &Home) -> Child {
    let mut child = home.glovebox(&["repl", "--session", "s"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"print('up', flush=True)\nx = 7\nprint('up')\n").unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    up(&mut out);
    up(&mut out);
    child
}

#[test]
fn session_in_another_process_is_busy_or_awaited() {
    let home = Home::new();
    let mut holder = holding(&home);
    let refused = home.refused(&["run", "--session", "s", "--no-wait", "-e", "x"]);
    assert!(refused.contains("session `s` is in use"), "{refused}");
    assert!(home.refused(&["session", "delete", "s"]).contains("in use"));
    assert!(home.stdout(&["session", "show", "s"]).contains("in use      yes"));
    let pruned = home.output(&["session", "prune", "--keep", "0"]);
    assert_eq!(text(&pruned.stderr), "glovebox: `s` was not deleted: another process is using it\n");
    assert_eq!(text(&pruned.stdout), "deleted 0 sessions, 0 B\n");

    let mut waiting = home.glovebox(&["run", "--session", "s", "-e", "x + 1"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiting.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "glovebox: waiting for another process to finish with session `s`\n");
    drop(holder.stdin.take());
    assert_eq!(wait(&mut holder), 0);
    assert_eq!(wait(&mut waiting), 0);
    let mut value = String::new();
    waiting.stdout.take().unwrap().read_to_string(&mut value).unwrap();
    assert_eq!(value, "8\n");
}

#[test]
fn ctrl_c_ends_a_wait_for_a_session() {
    let home = Home::new();
    let mut holder = holding(&home);
    let mut waiting = home.glovebox(&["run", "--session", "s", "-e", "x"]).spawn().unwrap();
    let mut err = BufReader::new(waiting.stderr.take().unwrap());
    err.read_line(&mut String::new()).unwrap();
    interrupt(&waiting);
    assert_eq!(wait(&mut waiting), 130);
    drop(holder.stdin.take());
    assert_eq!(wait(&mut holder), 0);
}

#[test]
fn killed_process_leaves_the_saved_session() {
    let home = Home::new();
    home.stdout(&["run", "--session", "s", "-e", "x = [1]"]);
    let (mut child, _out) = home.started(&[
        "run",
        "--session",
        "s",
        "--timeout-ms",
        "100000",
        "-e",
        "x.append(2); print('up', flush=True); import time; time.sleep(90)",
    ]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(home.stdout(&["run", "--session", "s", "-e", "x"]), "[1]\n");
}

#[test]
fn json_has_the_value_and_the_session() {
    let home = Home::new();
    let printed = home.stdout(&["run", "--session", "s", "--json", "-e", "[1, {'a': None}]"]);
    let value: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(value["value"], serde_json::json!({ "repr": "[1, {'a': None}]", "json": [1, { "a": null }] }));
    assert_eq!(value["session_id"], "s");
    assert_eq!(value["stdout"], "");
}

#[test]
fn sealed_session_requires_its_key() {
    let home = Home::new();
    let path = |name: &str| home.0.path().join(name).to_str().unwrap().to_owned();
    let (key, other, short, exported) = (path("key"), path("other"), path("short"), path("s.glovebox"));
    fs::write(&key, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n").unwrap();
    fs::write(&other, "another-key-of-thirty-two-bytes!").unwrap();
    fs::write(&short, "a-key-of-thirty-one-bytes-only!").unwrap();
    home.stdout(&["run", "--session", "s", "--key-file", &key, "-e", "x = 7"]);
    assert_eq!(home.stdout(&["run", "--session", "s", "--key-file", &key, "-e", "x"]), "7\n");
    home.refused(&["run", "--session", "s", "-e", "x"]);
    home.refused(&["run", "--session", "s", "--key-file", &other, "-e", "x"]);
    assert!(
        home.refused(&["run", "--session", "s", "--key-file", &short, "-e", "x"]).contains("does not contain a key")
    );
    home.stdout(&["session", "export", "s", &exported, "--key-file", &key]);
    home.refused(&["session", "import", &exported, "--as", "t"]);
    home.refused(&["session", "import", &exported, "--as", "t", "--key-file", &other]);
    home.stdout(&["session", "import", &exported, "--as", "t", "--key-file", &key]);
    assert_eq!(home.stdout(&["run", "--session", "t", "--key-file", &key, "-e", "x"]), "7\n");
    // Files that the REPL writes are sealed, too.
    let typed = |key: &[&str], input: &str| {
        let mut child = home.glovebox(&[&["repl"], key].concat()).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let saved = path("typed.glovebox");
    assert_eq!(typed(&["--key-file", &key], &format!("x = 8\n:save {saved}\n")), (String::new(), String::new()));
    assert_eq!(typed(&["--key-file", &key], &format!(":load {saved}\nx\n")).0, "8\n");
    for key in [&[][..], &["--key-file", &other]] {
        let (shown, stderr) = typed(key, &format!(":load {saved}\nglobals().get('x')\n"));
        assert!(shown.is_empty() && stderr.contains("cannot load session file"), "{shown}{stderr}");
    }
}

#[test]
fn store_accessible_to_others_is_rejected() {
    let home = Home::new();
    home.stdout(&["run", "--session", "s", "-e", "1"]);
    let sessions = home.0.path().join("glovebox/sessions");
    for entry in [sessions.clone(), home.0.path().join("glovebox")] {
        assert_eq!(fs::metadata(&entry).unwrap().permissions().mode() & 0o777, 0o700, "{}", entry.display());
    }
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = home.refused(&["run", "--session", "s", "-e", "1"]);
    assert!(refused.contains("glovebox/sessions") && refused.contains("--store"), "{refused}");
    let doctor = home.output(&["doctor", "--no-run"]);
    assert_eq!(doctor.status.code(), Some(1));
    let printed = text(&doctor.stdout);
    assert!(printed.lines().any(|line| line.starts_with("wrong    stored sessions")), "{printed}");
}

#[test]
fn missing_state_directory_error_names_the_option() {
    let home = Home::new();
    for state in [None, Some("relative/is/ignored")] {
        let mut command = home.glovebox(&["session", "list"]);
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        if let Some(state) = state {
            command.env("XDG_STATE_HOME", state);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains("choose a directory with --store"), "{}", text(&output.stderr));
    }
    let elsewhere = home.0.path().join("elsewhere");
    let output =
        home.glovebox(&["session", "list", "--store", elsewhere.to_str().unwrap()]).env_remove("HOME").output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}

#[test]
fn import_refuses_other_data_before_its_end() {
    let home = Home::new();
    let mut command = home.glovebox(&["session", "import", "-", "--as", "t"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The pipe stays open until the command has ended.
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[b'x'; 8 << 10]).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("not a hibernated session"), "{}", text(&output.stderr));
}

#[test]
fn a_damaged_session_is_listed_and_can_be_deleted() {
    let home = Home::new();
    home.stdout(&["run", "--session", "s", "-e", "1"]);
    home.stdout(&["run", "--session", "t", "-e", "1"]);
    let sessions = home.0.path().join("glovebox/sessions");
    let file = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("s.")).unwrap();
    fs::write(&file, "glovebox-session 1 but not really\n").unwrap();
    let listed = home.stdout(&["session", "list"]);
    assert!(listed.lines().any(|line| line.starts_with("s  ") && line.contains("damaged")), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("t  ") && line.contains("python")), "{listed}");
    assert!(home.refused(&["run", "--session", "s", "-e", "1"]).contains("damaged"));
    let printed = home.stdout(&["doctor", "--no-run"]);
    assert!(
        printed.lines().any(|line| line.starts_with("warning  stored sessions") && line.ends_with(": s")),
        "{printed}"
    );
    home.stdout(&["session", "delete", "s"]);
    assert_eq!(home.stdout(&["run", "--session", "s", "-e", "2"]), "2\n");
}

#[test]
fn ctrl_c_ends_a_repl_without_a_terminal() {
    let home = Home::new();
    let mut child = home
        .glovebox(&["repl", "--timeout-ms", "100000", "--fuel", "1000000000000"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"import itertools\nfor n in itertools.count(): n or print('up', flush=True)\n\nprint('never')\n")
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    up(&mut out);
    interrupt(&child);
    assert_eq!(wait(&mut child), 130);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn closed_output_pipe_ends_a_repl() {
    let home = Home::new();
    let flags = ["repl", "--timeout-ms", "100000", "--fuel", "1000000000000", "--stdout-bytes", "1000000000"];
    let mut child = home.glovebox(&flags).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"while True: print('up')\n\n").unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    up(&mut out);
    drop(out);
    assert_eq!(wait(&mut child), 141);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
}

#[test]
fn terminal_lines_are_edited_and_kept_in_history() {
    let home = Home::new();
    // Without colours, the editor draws each prompt once, so steps match the next prompt.
    let (shown, code) = home.at_terminal(
        &[("NO_COLOR", "1")],
        &["repl", "--timeout-ms", "200000", "--fuel", "1000000000000"],
        &[
            (">>> ", "x = 40\r"),
            (">>> ", "def f():\r"),
            ("def f():\r\n    ", "if x:\r"),
            ("if x:\r\n        ", "return 2\r"),
            ("return 2\r\n    ", "return 3\r"),
            ("return 3", "\r"),
            (">>> ", "print('go' '!', flush=True) or all(True for x in iter(int, 1))\r"),
            ("go!", "\x03"),
            ("\nKeyboardInterrupt\r\n", ""),
            ("cancelled", ""),
            (">>> ", "x = 4"),
            ("x = 4", "\x03"),
            ("KeyboardInterrupt\r\n", ""),
            (">>> ", " secret = 1\r"),
            (">>> ", "print('no', x, secret, end='')\r"),
            ("no 40 1\r\n", ""),
            (">>> ", "'fo' 'rk', f()\r"),
            ("('fork', 2)", ":fo\tb\r"),
            ("use `:switch b` to switch to it", ":sw\tb\r"),
            ("b>>> ", "\x04"),
        ],
    );
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("\x1b[1m") && !shown.contains("\x1b[3"), "{shown}");
    let history = home.0.path().join("glovebox/history.python");
    let held = fs::read_to_string(&history).unwrap();
    assert!(held.contains("x = 40") && held.contains("return 2") && held.contains(":fork b"), "{held}");
    assert!(!held.contains("secret = 1"), "{held}");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    let (shown, code) = home.at_terminal(
        &[("NO_COLOR", "1")],
        &["repl"],
        &[
            (">>> ", "\x1b[A"),
            (":switch b", "\x03"),
            (">>> ", "\x12= 4"),
            ("(reverse-i-search)`= 4': x = 40", "\r"),
            (">>> ", "exit(x)\r"),
        ],
    );
    assert_eq!(code, 40, "{shown}");
}

#[test]
fn terminal_completion_runs_no_code() {
    let home = Home::new();
    let (shown, code) = home.at_terminal(
        &[("NO_COLOR", "1")],
        &["repl"],
        &[
            (">>> ", "class Tree: pine = property(lambda self: print('side' ' effect'))\r\r"),
            (">>> ", "forest = Tree()\r"),
            (">>> ", "setattr(Tree, '\\x1b[2Jx', 1); Tree.__dir__ = lambda self: [print('side' ' effect')]\r"),
            (">>> ", "f'{fore\t"),
            ("\x07", "\x03"),
            (">>> ", "[fore\t.\t"),
            ("[forest.pine", ".\t"),
            ("\x07", "\x03"),
            (">>> ", "whi\t"),
            ("while", "\x03"),
            (">>> ", "6 * 7\r"),
            ("42", ""),
            (">>> ", "_ + 1\r"),
            ("43", ""),
            (">>> ", "None\r"),
            (">>> ", "exit(_)\r"),
        ],
    );
    assert_eq!(code, 43, "{shown}");
    assert!(!shown.contains("side effect") && !shown.contains("\x1b[2J"), "{shown}");
}

#[test]
fn inputs_typed_ahead_are_kept() {
    let home = Home::new();
    let steps = [(">>> ", "a = 6\rprint(a * 7)\rexit(a)\r")];
    let (shown, code) = home.at_terminal(&[("NO_COLOR", "1")], &["repl"], &steps);
    assert_eq!(code, 6, "{shown}");
    assert!(shown.contains("\n42\r\n"), "{shown}");
}

#[test]
fn terminal_javascript_completes_and_keeps_the_last_value() {
    let home = Home::new();
    let (shown, code) = home.at_terminal(
        &[("NO_COLOR", "1")],
        &["repl", "-l", "js"],
        &[
            ("> ", "let zebra = { seed: [1], get core() { console.log('side' + ' effect') } }\r"),
            ("> ", "zeb\t.se\t\r"),
            ("[ 1 ]", ""),
            ("> ", "_.push(2)\r"),
            ("\n2\r\n", ""),
            ("> ", "zebra.seed\r"),
            ("[ 1, 2 ]", ""),
            ("> ", "function f() {\rreturn 3\r}\r"),
            ("> ", "f() + missing\r"),
            ("(<sandbox>:1:7)", ""),
            ("> ", "() => 1\r"),
            ("[Function (anonymous)]", ""),
            ("> ", "_ = 5\r"),
            ("your variable", ""),
            ("\n5\r\n", ""),
            ("> ", "8\r"),
            ("\n8\r\n", ""),
            ("> ", "process.exit(_)\r"),
        ],
    );
    assert_eq!(code, 5, "{shown}");
    assert!(shown.contains("\r\n}"), "the bracket is not indented: {shown}");
    assert!(!shown.contains("side effect"), "{shown}");
}

#[test]
fn terminal_inputs_and_errors_are_coloured() {
    let home = Home::new();
    let steps = [(">>> ", "if 1: 'a' + 2\r\r"), ("TypeError", ""), ("\x1b[32m>>> ", "\x04")];
    let (shown, code) = home.at_terminal(&[], &["repl"], &steps);
    assert_eq!(code, 0, "{shown}");
    for colored in
        ["\x1b[1m\x1b[32m>>> ", "\x1b[35mif\x1b[0m", "\x1b[36m1\x1b[0m", "\x1b[32m'a'\x1b[0m", "\x1b[31mTrace"]
    {
        assert!(shown.contains(colored), "{colored:?}: {shown}");
    }
}

#[test]
fn values_cannot_control_the_terminal() {
    let home = Home::new();
    let typed = "type('E', (), {'__repr__': lambda self: '\\x1b[2J!'})()\r";
    let steps = [(">>> ", typed), ("u{1b}[2J!", ""), (">>> ", "\x04")];
    let (shown, code) = home.at_terminal(&[], &["repl"], &steps);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("\\u{1b}[2J!"), "{shown}");
    assert!(!shown.contains("\x1b[2J"), "{shown}");
}

#[test]
fn scripts_control_the_terminal_only_if_allowed() {
    let home = Home::new();
    let script = r"import sys; print('\x1b[2J\u202e\x9bA|50%\r60%'); print('\x1b]0;t\x07', file=sys.stderr)";
    let (shown, code) = home.at_terminal(&[], &["run", "-e", script], &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("\\u{1b}[2J\\u{202e}\\u{9b}A|50%\r60%") && shown.contains("\\u{1b}]0;t\\u{7}"), "{shown}");
    assert!(!shown.contains("\x1b[2J") && !shown.contains('\u{202e}'), "{shown}");
    let (shown, code) = home.at_terminal(&[], &["run", "--raw-output", "-e", script], &[]);
    assert!(code == 0 && shown.contains("\x1b[2J\u{202e}\u{9b}A|50%\r60%"), "{shown}");
    let piped = home.output(&["run", "-e", script]);
    assert_eq!(text(&piped.stdout), "\x1b[2J\u{202e}\u{9b}A|50%\r60%\n");
}
