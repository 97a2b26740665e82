//! Tests sessions of both languages that share one workspace.

use std::{fs, thread};

use glovebox::{
    Commit, ExecuteError, IfBusy, Language, Policy, Request, Sandbox, Session, SessionOptions, SharedWorkspace,
};
use glovebox_tests::{sandbox, short};
use tempfile::TempDir;

fn quick_to_unwind(policy: &mut Policy) {
    policy.limits.fuel = 300_000_000;
    policy.limits.fuel_reserve = 0;
}

fn sandboxes(edit: fn(&mut Policy)) -> [Sandbox; 2] {
    [Language::Python, Language::JavaScript].map(|language| {
        sandbox(language, |policy| {
            quick_to_unwind(policy);
            edit(policy);
        })
    })
}

fn open(sandbox: &Sandbox, workspace: &SharedWorkspace) -> Session {
    sandbox.open_session(SessionOptions::default().workspace(workspace)).unwrap()
}

fn pair(edit: fn(&mut Policy)) -> (SharedWorkspace, Session, Session) {
    let [python, javascript] = sandboxes(edit);
    let workspace = SharedWorkspace::new(&python).unwrap();
    let sessions = (open(&python, &workspace), open(&javascript, &workspace));
    (workspace, sessions.0, sessions.1)
}

fn ok(session: &Session, source: &str) -> String {
    let execution = session.execute(source).unwrap();
    assert!(execution.is_success(), "{source}: {:?} {}", execution.outcome, execution.stderr.text());
    execution.stdout.text()
}

#[test]
fn sessions_see_each_others_writes_at_once() {
    let (_, python, javascript) = pair(|_| {});
    ok(&python, "open('a', 'w').write('from Python')");
    assert_eq!(ok(&javascript, "console.log(std.loadFile('a'))"), "from Python\n");
    ok(&javascript, "{ let f = std.open('a', 'w'); f.puts('from JavaScript'); f.close(); os.mkdir('d') }");
    assert_eq!(ok(&python, "import os\nprint(open('a').read(), sorted(os.listdir()))"), "from JavaScript ['a', 'd']\n");
    ok(&python, "os.remove('a')");
    assert_eq!(ok(&javascript, "console.log(std.loadFile('a'))"), "null\n");
}

#[test]
fn execution_reports_only_its_own_changes() {
    let (_, python, javascript) = pair(|_| {});
    ok(&python, "open('a', 'w').write('1')");
    let execution = javascript.execute("std.open('b', 'w').close()").unwrap();
    assert_eq!((execution.files_created, execution.files_modified), (vec!["b".to_owned()], vec![]));
}

#[test]
fn open_file_is_usable_while_others_execute() {
    let (_, python, javascript) = pair(|_| {});
    ok(&python, "f = open('log', 'w+')\nf.write('a')\nf.flush()");
    ok(&javascript, "{ let f = std.open('log', 'a'); f.puts('b'); f.close() }");
    assert_eq!(ok(&python, "f.seek(0)\nprint(f.read())"), "ab\n");
    ok(&javascript, "os.remove('log')");
    assert_eq!(ok(&python, "f.seek(0)\nprint(f.read())"), "ab\n", "a deleted file stays readable while it is open");
}

#[test]
fn closed_session_releases_its_open_files() {
    let (workspace, python, javascript) = pair(|policy| policy.limits.workspace_bytes = 4 << 20);
    let fill = "f = open('big', 'wb+')\nf.write(bytes(3 << 20))\nf.flush()\nimport os\nos.remove('big')";
    let write = "{ let f = std.open('mine', 'w'); f.puts('x'.repeat(2 << 20)); f.flush(); f.close(); }";
    let fits = || {
        javascript.execute(write).unwrap();
        let size: u64 = javascript.execute("os.stat('mine')[0].size").unwrap().value.unwrap().repr.parse().unwrap();
        ok(&javascript, "os.remove('mine')");
        size == 2 << 20
    };
    assert!(fits());
    ok(&python, fill);
    assert!(!fits(), "quotas are shared by all sessions");
    python.execute("while True: pass").unwrap();
    assert!(!fits(), "the rolled back session still has the file open");
    drop(python);
    assert!(fits(), "the file is closed everywhere");
    let next = open(&sandboxes(|policy| policy.limits.workspace_bytes = 4 << 20)[0], &workspace);
    ok(&next, fill);
    assert!(!fits());
    next.close().unwrap();
    assert!(fits());
}

#[test]
fn rollback_keeps_changes_of_other_sessions() {
    let (_, python, javascript) = pair(|_| {});
    ok(&python, "x = 1\nopen('mine', 'w').write('1')");
    ok(&javascript, "{ let f = std.open('theirs', 'w'); f.puts('1'); f.close() }");
    let unwound =
        python.execute("x = 2\nopen('mine', 'w').write('2')\nopen('theirs', 'w').write('2')\nwhile True: pass");
    assert!(unwound.unwrap().rolled_back_to.is_some());
    assert_eq!(ok(&python, "print(x, open('mine').read(), open('theirs').read())"), "1 1 1\n");
    assert_eq!(ok(&javascript, "console.log(std.loadFile('mine') + std.loadFile('theirs'))"), "11\n");
}

#[test]
fn older_checkpoint_keeps_the_current_files() {
    let (_, python, javascript) = pair(|policy| policy.session.checkpoints = glovebox::Checkpoints::Never);
    ok(&python, "x = 1\nf = open('log', 'w')\nf.write('a')\nf.flush()");
    let id = python.checkpoint().unwrap();
    ok(&python, "x = 2\nf.write('b')\nf.close()\nopen('more', 'w').write('2')");
    ok(&javascript, "{ let f = std.open('theirs', 'w'); f.puts('1'); f.close() }");
    let unwound = python.execute("open('more', 'w').write('3')\nwhile True: pass").unwrap();
    assert_eq!(unwound.rolled_back_to.unwrap().executions_lost, 1);
    assert_eq!(
        ok(&python, "import os\nprint(x, open('more').read(), sorted(os.listdir()))"),
        "1 2 ['log', 'more', 'theirs']\n"
    );
    ok(&python, "f.write('c')\nf.close()");
    assert_eq!(ok(&javascript, "console.log(std.loadFile('log'))"), "ac\n", "writing continues at the old offset");
    python.undo_to(id).unwrap();
    assert_eq!(ok(&python, "print(x, open('more').read())"), "1 2\n", "undo does not revert files");
}

#[test]
fn fork_of_a_shared_workspace_gets_a_copy() {
    let (workspace, python, javascript) = pair(|_| {});
    ok(&python, "open('a', 'w').write('1')\nf = open('a')");
    let fork = python.fork().unwrap();
    ok(&fork, "open('a', 'w').write('2')");
    assert_eq!(ok(&javascript, "console.log(std.loadFile('a'))"), "1\n");
    ok(&javascript, "os.remove('a')");
    assert_eq!(ok(&fork, "print(f.read(), open('a').read())"), "2 2\n");
    let refused = python.fork_with(SessionOptions::default().workspace(&workspace));
    assert!(matches!(refused, Err(ExecuteError::ForkWorkspace)));
}

#[test]
fn sandbox_with_other_mounts_is_rejected() {
    let [python, _] = sandboxes(|_| {});
    let [other, _] = sandboxes(|policy| policy.commit = Commit::Never);
    let workspace = SharedWorkspace::new(&python).unwrap();
    let error = other.open_session(SessionOptions::default().workspace(&workspace)).unwrap_err();
    assert!(matches!(error, ExecuteError::OtherWorkspace { key: "commit" }), "{error}");
}

#[test]
fn executions_exclude_each_other() {
    let (_, python, javascript) = pair(|policy| policy.limits.timeout_ms = 60_000);
    ok(&python, "open('n', 'w').write('0')");
    let add = [
        (&python, "n = int(open('n').read())\nwith open('n', 'w') as f: f.write(str(n + 1))"),
        (&javascript, "{ let n = +std.loadFile('n'), f = std.open('n', 'w'); f.puts(String(n + 1)); f.close() }"),
    ];
    thread::scope(|scope| {
        for (session, source) in add.into_iter().cycle().take(6) {
            scope.spawn(move || (0..30).for_each(|_| drop(ok(session, source))));
        }
    });
    assert_eq!(ok(&python, "print(open('n').read())"), "180\n");
}

#[test]
fn changes_before_a_script_exit_stay() {
    let (_, python, javascript) = pair(|_| {});
    let left =
        python.execute("import os\nfd = os.open('a', os.O_CREAT | os.O_WRONLY)\nos.write(fd, b'1')\nos._exit(0)");
    assert_eq!(short(&left.unwrap().outcome), "exited 0");
    assert!(python.ended().is_some());
    assert_eq!(ok(&javascript, "console.log(std.loadFile('a'))"), "1\n");
}

#[test]
fn reading_files_commits_nothing() {
    let dir = TempDir::new().unwrap();
    let python = sandbox(Language::Python, |policy| {
        policy.workspace = Some(dir.path().into());
        policy.commit = Commit::OnSuccess;
    });
    let workspace = SharedWorkspace::new(&python).unwrap();
    let session = open(&python, &workspace);
    session.execute("open('a', 'w').write('1')\nraise ValueError").unwrap();
    assert_eq!(workspace.files().read("a").unwrap(), b"1");
    assert_eq!(workspace.files().list("*").unwrap().len(), 1);
    assert!(!dir.path().join("a").exists(), "the script failed");
    ok(&session, "pass");
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "1");
}

#[test]
fn busy_error_names_session_or_workspace() {
    let (_workspace, python, javascript) = pair(|_| {});
    let (sender, errors) = std::sync::mpsc::channel();
    let (one, other) = (python.clone(), javascript.clone());
    let execution = python.run(Request::new("print('here')").on_output(move |_, _| {
        for session in [&one, &other] {
            let refused = session.run(Request::new("1").if_busy(IfBusy::Refuse));
            sender.send(refused.unwrap_err()).unwrap();
        }
    }));
    assert!(execution.unwrap().is_success());
    let errors: Vec<_> = errors.try_iter().take(2).collect();
    assert!(matches!(&errors[..], [ExecuteError::SessionBusy { .. }, ExecuteError::WorkspaceBusy]), "{errors:?}");
    ok(&javascript, "1");
}
