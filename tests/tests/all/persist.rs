//! Tests persisted globals in ways that a case cannot express: in host directories, and with backends that cannot
//! persist globals.

use std::{fs, thread};

use glovebox::{BuildError, CancelToken, Commit, HibernateOptions, Language, Policy, Request, ResumeOptions, Sandbox};
use glovebox_component_host::SandboxHost;
use glovebox_tests::{engine, sandbox, short};

const FILES: [(Language, &str); 2] =
    [(Language::Python, ".globals_py.json"), (Language::JavaScript, ".globals_js.json")];

#[test]
fn globals_file_is_committed_but_not_a_script_change() {
    for (language, name) in FILES {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(name);
        let with = |commit: Commit| {
            sandbox(language, |policy| {
                policy.workspace = Some(directory.path().to_owned());
                policy.commit = commit;
                policy.auto_persist_globals = true;
            })
        };
        let run = |commit: Commit, source: &str| {
            let execution = with(commit).execute(source).unwrap();
            assert_eq!(execution.stderr.text().lines().filter(|line| line.starts_with("glovebox")).count(), 0);
            assert!(execution.files_created.is_empty() && execution.files_modified.is_empty(), "{language} {source}");
            fs::read_to_string(&file).ok()
        };
        assert_eq!(run(Commit::Never, "a = 1"), None);
        assert_eq!(run(Commit::OnSuccess, "a = 1; missing()"), None);
        assert_eq!(run(Commit::Always, "a = 1; missing()").unwrap(), r#"{"_state":{},"a":1}"#);
        assert_eq!(run(Commit::OnSuccess, "a += 1").unwrap(), r#"{"_state":{},"a":2}"#);
        assert_eq!(run(Commit::Never, "a += 1").unwrap(), r#"{"_state":{},"a":2}"#);
    }
}

#[test]
fn cancelled_script_does_not_change_the_globals_file() {
    for (language, name) in FILES {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = sandbox(language, |policy| {
            policy.workspace = Some(directory.path().to_owned());
            policy.auto_persist_globals = true;
        });
        sandbox.execute("a = 1").unwrap();
        let token = CancelToken::new();
        let endless = match language {
            Language::Python => "a = 2\nwhile True: pass",
            Language::JavaScript => "a = 2; for (;;);",
        };
        let execution = thread::scope(|scope| {
            scope.spawn(|| token.cancel());
            sandbox.run(Request::new(endless).cancel(&token))
        });
        assert_eq!(short(&execution.unwrap().outcome), "cancelled");
        assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), r#"{"_state":{},"a":1}"#);
    }
}

#[test]
fn unsupported_runtime_rejects_persistent_globals() {
    let mut policy = Policy::default();
    policy.auto_persist_globals = true;
    let plain = Sandbox::builder(engine()).language(Language::Python).policy(policy.clone()).prepared(false).build();
    assert!(matches!(plain, Err(BuildError::NotPersisting { .. })));
    // A component always uses prepared runtimes.
    assert!(SandboxHost::builder(engine()).policy(policy).build().is_ok());
}

#[test]
fn session_keeps_globals_without_writing_the_file() {
    for (language, name) in FILES {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), r#"{"a":7}"#).unwrap();
        let sandbox = sandbox(language, |policy| {
            policy.workspace = Some(directory.path().to_owned());
            policy.auto_persist_globals = true;
        });
        let session = sandbox.session().unwrap();
        assert!(session.execute("b = 1").unwrap().outcome.is_success());
        assert_eq!(session.execute("b").unwrap().value.unwrap().repr, "1");
        assert!(!session.execute("a").unwrap().outcome.is_success(), "the file applies only to new interpreters");
        let bytes = session.hibernate(&HibernateOptions::default()).unwrap();
        let resumed = sandbox.resume(&bytes, ResumeOptions::default()).unwrap();
        assert_eq!(resumed.execute("b").unwrap().value.unwrap().repr, "1");
        session.close().unwrap();
        resumed.close().unwrap();
        assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), r#"{"a":7}"#);
        // Changes that the session's own script makes to the file are reported like changes to any other file.
        let session = sandbox.session().unwrap();
        let write = match language {
            Language::Python => format!("open('/app/{name}', 'w').write('{{}}')"),
            Language::JavaScript => format!("require('fs').writeFileSync('/app/{name}', '{{}}')"),
        };
        assert_eq!(session.execute(&write).unwrap().files_modified, [name]);
    }
}
