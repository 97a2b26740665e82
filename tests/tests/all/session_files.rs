//! Tests a session's files, as seen by the caller and by scripts.

use std::{fs, sync::mpsc, thread, time::Duration};

use glovebox::{
    Commit, FileError, FilesError, IfExists, Language, OnUnwind, Request, Session, SessionOptions, SharedWorkspace,
};
use glovebox_tests::{fixed, sandbox, short};

const LANGUAGES: [Language; 2] = Language::ALL;

/// Returns a script that prints a file's contents.
fn cat(language: Language, path: &str) -> String {
    match language {
        Language::Python => format!("print(open('{path}').read(), end='')"),
        Language::JavaScript => format!("std.out.puts(std.loadFile('{path}'))"),
    }
}

/// Returns a script that writes a file.
fn put(language: Language, path: &str, text: &str) -> String {
    match language {
        Language::Python => format!("open('{path}', 'w').write('{text}') and None"),
        Language::JavaScript => {
            format!("{{ const f = std.open('{path}', 'w'); f.puts('{text}'); f.close(); }}")
        }
    }
}

fn session(language: Language) -> Session {
    sandbox(language, |_| {}).session().unwrap()
}

#[test]
fn files_are_shared_between_host_and_guest() {
    for language in LANGUAGES {
        let session = session(language);
        session.files().write("data/in.txt", "from outside", IfExists::Fail).unwrap();
        let seen = session.execute(&cat(language, "data/in.txt")).unwrap();
        assert_eq!(seen.stdout.text(), "from outside", "{language}: {}", seen.stderr.text());
        let wrote = session.execute(&put(language, "out.txt", "from inside")).unwrap();
        assert_eq!(wrote.files_created, ["out.txt"], "{language}: {}", wrote.stderr.text());
        assert_eq!(session.files().read("out.txt").unwrap(), b"from inside");
        let paths: Vec<String> = session.files().list("**").unwrap().into_iter().map(|entry| entry.path).collect();
        assert_eq!(paths, ["data", "data/in.txt", "out.txt"]);
    }
}

#[test]
fn host_changes_are_not_reported_as_the_scripts() {
    for language in LANGUAGES {
        let session = session(language);
        session.execute(&put(language, "theirs", "1")).unwrap();
        session.files().write("ours", "1", IfExists::Fail).unwrap();
        session.files().write("theirs", "2", IfExists::Replace).unwrap();
        session.files().write("gone", "", IfExists::Fail).unwrap();
        session.files().delete("gone").unwrap();
        let after = session.execute(&put(language, "own", "1")).unwrap();
        let changes = (after.files_created, after.files_modified, after.files_deleted);
        assert_eq!(changes, (vec!["own".to_owned()], vec![], vec![]), "{language}");
    }
}

#[test]
fn reading_files_does_not_affect_undo() {
    for language in LANGUAGES {
        let session = session(language);
        session.execute(&put(language, "f", "1")).unwrap();
        let first = session.checkpoint().unwrap();
        session.execute(&put(language, "f", "2")).unwrap();
        session.undo().unwrap();
        assert_eq!(session.files().read("f").unwrap(), b"1", "{language}");
        session.files().list("**").unwrap();
        session.undo_to(first).unwrap();
        assert_eq!(session.files().read("f").unwrap(), b"1");
    }
}

#[test]
fn host_changes_are_undone() {
    for language in LANGUAGES {
        let session = session(language);
        session.files().write("f", "before", IfExists::Fail).unwrap();
        let before = session.checkpoint().unwrap();
        session.files().write("f", "after", IfExists::Replace).unwrap();
        session.files().write("g", "new", IfExists::Fail).unwrap();
        let seen = session.execute(&cat(language, "f")).unwrap();
        assert_eq!(seen.stdout.text(), "after");
        session.undo_to(before).unwrap();
        assert_eq!(session.execute(&cat(language, "f")).unwrap().stdout.text(), "before", "{language}");
        assert!(session.files().read("g").is_err());
    }
}

#[test]
fn fork_has_separate_files() {
    for language in LANGUAGES {
        let one = session(language);
        one.files().write("f", "shared", IfExists::Fail).unwrap();
        let two = one.fork().unwrap();
        one.files().write("f", "one", IfExists::Replace).unwrap();
        two.files().write("f", "two", IfExists::Replace).unwrap();
        assert_eq!(one.execute(&cat(language, "f")).unwrap().stdout.text(), "one");
        assert_eq!(two.execute(&cat(language, "f")).unwrap().stdout.text(), "two");
    }
}

#[test]
fn a_snapshot_outlives_the_session() {
    for language in LANGUAGES {
        let session = session(language);
        session.execute(&put(language, "f", "held")).unwrap();
        let snapshot = session.files().snapshot().unwrap();
        session.execute(&put(language, "f", "later")).unwrap();
        session.close().unwrap();
        assert_eq!(snapshot.read("f").unwrap(), b"held", "{language}");
    }
}

#[test]
fn an_ended_session_has_no_files() {
    for (language, exit) in [(Language::Python, "import os; os._exit(3)"), (Language::JavaScript, "while (true);")] {
        let session = sandbox(language, |policy| {
            policy.limits.fuel = 50_000_000;
            policy.limits.fuel_reserve = 0;
            policy.session.on_unwind = OnUnwind::End;
        })
        .session()
        .unwrap();
        session.execute(exit).unwrap();
        let errors = [
            session.files().read("f").map(drop),
            session.files().list("**").map(drop),
            session.files().write("f", "", IfExists::Fail),
            session.files().delete("f"),
        ];
        for error in errors {
            assert!(matches!(error, Err(FilesError::Session(_))), "{language}: {error:?}");
        }
    }
}

#[test]
fn file_access_waits_for_the_running_execution() {
    let session = session(Language::Python);
    let script = "\
f = open('f', 'w'); f.write('half'); f.flush(); print('half written', flush=True)
import time; time.sleep(0.3)
f.write(' and half'); f.close()";
    let (half_written, seen) = mpsc::channel();
    thread::scope(|scope| {
        let session = &session;
        scope.spawn(move || {
            let request = Request::new(script).on_output(move |_, _| half_written.send(()).unwrap());
            assert_eq!(short(&session.run(request).unwrap().outcome), "completed");
        });
        seen.recv().unwrap();
        assert_eq!(session.files().read("f").unwrap(), b"half and half");
    });
}

#[test]
fn host_writes_respect_the_guest_quota() {
    for language in LANGUAGES {
        let session = sandbox(language, |policy| policy.limits.workspace_bytes = 64 << 10).session().unwrap();
        let error = session.files().write("big", vec![0; 65 << 10], IfExists::Fail).unwrap_err();
        assert!(matches!(error, FilesError::Workspace(FileError::Refused { .. })), "{language}: {error:?}");
        session.files().write("fits", vec![0; 60 << 10], IfExists::Fail).unwrap();
        assert!(session.files().write("more", vec![0; 8 << 10], IfExists::Fail).is_err());
        // The guest still works and can free space.
        let removed = session.execute(match language {
            Language::Python => "import os; os.remove('fits')",
            Language::JavaScript => "os.remove('fits')",
        });
        assert_eq!(removed.unwrap().files_deleted, ["fits"], "{language}");
        session.files().write("more", vec![0; 8 << 10], IfExists::Fail).unwrap();
    }
}

#[test]
fn open_descriptor_survives_host_changes() {
    let session = session(Language::Python);
    session.execute("f = open('log', 'w'); f.write('a'); f.flush()").unwrap();
    session.files().delete("log").unwrap();
    session.files().write("log", "another", IfExists::Fail).unwrap();
    let after = session.execute("f.write('b'); f.flush(); print(f.tell(), open('log').read())").unwrap();
    assert_eq!(after.stdout.text(), "2 another\n", "{}", after.stderr.text());
}

#[test]
fn a_guest_cannot_make_its_files_unusable() {
    // Names that are troublesome in other programs; links that are dangling, circular or point outside; and a tree of
    // the maximum depth.
    let script = r#"
import os
for name in ['user_code.py', '.metadata.json', 'a\nb', 'a\\b', '-rf', '*', '[', 'CON', ' ', '\u202e', 'x' * 255]:
    os.mkdir(name)
os.symlink('nowhere', 'dangling')
os.symlink('loop', 'loop')
os.symlink('../..', 'up')
try:
    os.symlink('/etc/passwd', 'absolute')
except OSError: pass
path = 'deep'
os.mkdir(path)
for i in range(300):
    try:
        os.mkdir(path + '/d')
    except OSError: break
    path += '/d'
"#;
    let session = session(Language::Python);
    assert_eq!(short(&session.execute(script).unwrap().outcome), "completed");
    let before = session.files().list("**").unwrap();
    assert!(before.len() > 250, "{}", before.len());
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    let report = session.files().copy_out("", &target, IfExists::Fail).unwrap();
    assert_eq!(report.skipped_count, 1);
    let mut archive = Vec::new();
    session.files().export_tar(&mut archive).unwrap();
    for entry in session.files().list("*").unwrap() {
        session.files().delete_all(&entry.path).unwrap();
    }
    assert_eq!(session.files().list("**").unwrap(), []);
    session.files().import_tar(&archive[..], IfExists::Fail).unwrap();
    let again = session.files().list("**").unwrap();
    let paths = |entries: &[glovebox::FileEntry]| -> Vec<String> { entries.iter().map(|e| e.path.clone()).collect() };
    assert_eq!(paths(&again), paths(&before));
    assert_eq!(session.execute("print('usable')").unwrap().stdout.text(), "usable\n");
}

#[test]
fn host_changes_are_committed_to_the_workspace() {
    for (commit, reaches) in [(Commit::OnSuccess, true), (Commit::Always, true), (Commit::Never, false)] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("there"), "host").unwrap();
        let sandbox = sandbox(Language::Python, |policy| {
            policy.workspace = Some(dir.path().to_owned());
            policy.commit = commit;
        });
        let session = sandbox.session().unwrap();
        assert_eq!(session.files().read("there").unwrap(), b"host");
        session.files().write("sub/new", "ours", IfExists::Fail).unwrap();
        session.files().delete("there").unwrap();
        assert_eq!(dir.path().join("sub/new").exists(), reaches, "{commit:?}");
        assert_eq!(dir.path().join("there").exists(), !reaches, "{commit:?}");
        assert!(matches!(
            session.files().write("sub/new", "", IfExists::Fail),
            Err(FilesError::Workspace(FileError::Exists { .. }))
        ));
    }
}

#[test]
fn listing_shows_only_its_session() {
    let sandbox = sandbox(Language::Python, |_| {});
    let (one, two) = (sandbox.session().unwrap(), sandbox.session().unwrap());
    one.files().write("secret", "1", IfExists::Fail).unwrap();
    for pattern in ["**", "*", "**/*", "*/*"] {
        assert_eq!(two.files().list(pattern).unwrap(), [], "{pattern}");
    }
    for pattern in ["../*/*", "../**", "/**", "/app/../*"] {
        assert!(
            matches!(two.files().list(pattern), Err(FilesError::Workspace(FileError::Pattern { .. }))),
            "{pattern}"
        );
    }
    assert!(two.files().read("secret").is_err());
    assert!(two.files().delete_all(".").is_err());
    assert_eq!(one.files().read("secret").unwrap(), b"1");
}

#[test]
fn file_times_use_the_policy_clock() {
    let session = sandbox(Language::Python, fixed).session().unwrap();
    session.files().write("f", "", IfExists::Fail).unwrap();
    assert_eq!(session.files().stat("f").unwrap().modified_ns, 1_700_000_000_000_000_000);
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    let before = std::time::SystemTime::now();
    session.files().write("f", "", IfExists::Fail).unwrap();
    let modified = std::time::UNIX_EPOCH + Duration::from_nanos(session.files().stat("f").unwrap().modified_ns);
    assert!(modified >= before - Duration::from_millis(10) && modified <= std::time::SystemTime::now());
}

#[test]
fn shared_workspace_is_visible_to_host_and_sessions() {
    let (python, javascript) = (sandbox(Language::Python, |_| {}), sandbox(Language::JavaScript, |_| {}));
    let shared = SharedWorkspace::new(&python).unwrap();
    shared.files().write("first", "before anybody", IfExists::Fail).unwrap();
    let one = python.open_session(SessionOptions::default().workspace(&shared)).unwrap();
    let two = javascript.open_session(SessionOptions::default().workspace(&shared)).unwrap();
    for (session, language) in [(&one, Language::Python), (&two, Language::JavaScript)] {
        assert_eq!(session.execute(&cat(language, "first")).unwrap().stdout.text(), "before anybody");
    }
    two.execute(&put(Language::JavaScript, "second", "from two")).unwrap();
    assert_eq!(one.execute(&cat(Language::Python, "second")).unwrap().stdout.text(), "from two");
    for files in [shared.files(), one.files(), two.files()] {
        assert_eq!(files.read("second").unwrap(), b"from two");
        files.write("third", "again", IfExists::Replace).unwrap();
    }
    one.files().delete("third").unwrap();
    assert!(two.files().stat("third").is_err());
    let (fork, _one) = (one.fork().unwrap(), &one);
    fork.files().write("own", "", IfExists::Fail).unwrap();
    assert!(shared.files().stat("own").is_err());
    drop((one, two));
    assert_eq!(shared.files().read("second").unwrap(), b"from two");
}
