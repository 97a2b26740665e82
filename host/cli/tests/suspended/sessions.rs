//! Tests scripts that wait for a person in a stored session.

use std::{fs, path::Path, process::Output};

use super::{output, suspend};
use crate::support::text;

const FILE: &str = "script.suspended";
const SESSION: [&str; 4] = ["--session", "trip", "--store", "store"];

fn in_session(dir: &Path, args: &[&str]) -> Output {
    output(dir, &[args, &SESSION].concat())
}

/// Runs `code` in the session, and returns what it prints.
fn printed(dir: &Path, code: &str) -> String {
    let ran = in_session(dir, &["run", "-e", code]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    text(&ran.stdout).to_string()
}

fn suspend_in_session(dir: &Path, code: &str) {
    suspend(dir, &[&["run", "--tool", "pay=@ask", "-e", code][..], &SESSION].concat());
}

#[test]
fn script_continues_in_its_session() {
    let dir = tempfile::tempdir().unwrap();
    printed(dir.path(), "total = 20");
    suspend_in_session(
        dir.path(),
        "total += 1; print(tools.pay(euros=total)); total += 1; receipt = tools.pay(euros=total); receipt",
    );
    let unnamed = output(dir.path(), &["resume", FILE, "--answer", "0=1"]);
    assert_eq!(unnamed.status.code(), Some(125));
    assert!(text(&unnamed.stderr).contains("the script was suspended in session `trip`"), "{}", text(&unnamed.stderr));

    let first = in_session(dir.path(), &["resume", FILE, "--answer", "0=16"]);
    assert_eq!((first.status.code(), &*text(&first.stdout)), (Some(75), "16\n"), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("call 1: pay({\"euros\":22})"), "{}", text(&first.stderr));
    let second = in_session(dir.path(), &["resume", FILE, "--answer", "1=17"]);
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    assert!(!dir.path().join(FILE).exists());
    assert_eq!(printed(dir.path(), "print(total, receipt)"), "22 17\n");
}

/// The file contains the state before the script, which would replace the changes.
#[test]
fn changed_session_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    suspend_in_session(dir.path(), "receipt = tools.pay()");
    let suspended = fs::read(dir.path().join(FILE)).unwrap();
    printed(dir.path(), "total = 30");
    let resumed = in_session(dir.path(), &["resume", FILE, "--answer", "0=1"]);
    assert_eq!(resumed.status.code(), Some(125));
    assert!(text(&resumed.stderr).contains("session `trip` has changed since"), "{}", text(&resumed.stderr));
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), suspended);
    assert_eq!(printed(dir.path(), "print(total, 'receipt' in globals())"), "30 False\n");

    // A new session with the same ID and the same number of writes.
    let deleted = output(dir.path(), &["session", "delete", "trip", "--store", "store"]);
    assert_eq!(deleted.status.code(), Some(0), "{}", text(&deleted.stderr));
    printed(dir.path(), "total = 40");
    for _ in 0..2 {
        let resumed = in_session(dir.path(), &["resume", FILE, "--answer", "0=1"]);
        assert_eq!(resumed.status.code(), Some(125));
        printed(dir.path(), "total = 40");
    }
}

/// A refusal that ends the script is saved like every exception in a session.
#[test]
fn refused_call_ends_the_script_in_its_session() {
    let dir = tempfile::tempdir().unwrap();
    suspend_in_session(dir.path(), "tried = True\ntools.pay()");
    let refused = in_session(dir.path(), &["resume", FILE, "--deny", "0=too expensive"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("ToolDenied: too expensive"), "{}", text(&refused.stderr));
    assert_eq!(printed(dir.path(), "print(tried)"), "True\n");
}

#[test]
fn session_must_match_the_suspended_script() {
    let dir = tempfile::tempdir().unwrap();
    suspend(dir.path(), &["run", "--tool", "pay=@ask", "-e", "tools.pay()"]);
    let resumed = in_session(dir.path(), &["resume", FILE, "--answer", "0=1"]);
    assert!(text(&resumed.stderr).contains("was not suspended in a session"), "{}", text(&resumed.stderr));
    fs::remove_file(dir.path().join(FILE)).unwrap();

    suspend_in_session(dir.path(), "tools.pay()");
    for options in [["--session", "other", "--store", "store"], ["--session", "trip", "--store", "elsewhere"]] {
        let resumed = output(dir.path(), &[&["resume", FILE, "--answer", "0=1"][..], &options].concat());
        assert_eq!(resumed.status.code(), Some(125), "{options:?}: {}", text(&resumed.stderr));
        assert!(dir.path().join(FILE).exists(), "{options:?}");
    }
}
