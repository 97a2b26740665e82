//! Tests scripts that wait for a person in a stored session.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{
    inside,
    killed::{kill, temporary_files, wait_for},
    output, suspend,
};
use crate::{
    rest,
    support::{interrupt, text, wait},
};

const FILE: &str = "script.suspended";
pub(super) const SESSION: [&str; 4] = ["--session", "trip", "--store", "store"];

fn in_session(dir: &Path, args: &[&str]) -> Output {
    output(dir, &[args, &SESSION].concat())
}

/// Runs `code` in the session, and returns what it prints.
fn printed(dir: &Path, code: &str) -> String {
    let ran = in_session(dir, &["run", "-e", code]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    text(&ran.stdout).to_string()
}

/// Like [`printed`], but runs `code` in a copy, so that the session does not change.
fn peeked(dir: &Path, code: &str) -> String {
    let copied = Command::new("cp").args(["-R", "store", "copy"]).current_dir(dir).status().unwrap();
    assert!(copied.success());
    let ran = output(dir, &["run", "--session", "trip", "--store", "copy", "-e", code]);
    fs::remove_dir_all(dir.join("copy")).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    text(&ran.stdout)
}

/// Returns the first waiting call.
fn waiting(dir: &Path) -> u64 {
    let listed = in_session(dir, &["resume", FILE, "--json"]);
    assert_eq!(listed.status.code(), Some(75), "{}", text(&listed.stderr));
    let report: Value = serde_json::from_slice(&listed.stdout).unwrap();
    report.pointer("/calls/0/id").and_then(Value::as_u64).unwrap()
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

/// The file contains the session's state before the script. Resuming it would overwrite the changes.
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

    // Create another session with the same ID and the same number of writes.
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

/// After each kill, the session still has its state before the script. Once the file is complete, the script can be
/// resumed from it.
#[test]
fn killed_run_changes_nothing_or_stores_the_script() {
    let dir = tempfile::tempdir().unwrap();
    printed(dir.path(), "total = 20");
    let run = ["run", "--tool", "pay=@ask", "-e", "total += 1; print(tools.pay()); total += 1"];
    let (mut delay, mut kills) = (Duration::ZERO, 0);
    // An empty file only shows that a process was checking whether it can create the file.
    while fs::metadata(dir.path().join(FILE)).map_or(0, |metadata| metadata.len()) == 0 {
        let mut child = inside(dir.path(), &[&run[..], &SESSION].concat()).spawn().unwrap();
        thread::sleep(delay);
        kills += usize::from(kill(&mut child));
        assert_eq!(peeked(dir.path(), "print(total)"), "20\n");
        assert!(temporary_files(dir.path()) <= 1, "temporary files accumulate");
        delay += Duration::from_millis(1) + delay / 8;
    }
    assert!(kills > 0, "no process was killed");
    let ran = in_session(dir.path(), &["resume", FILE, "--answer", "0=1"]);
    assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(0), "1\n"), "{}", text(&ran.stderr));
    assert_eq!(printed(dir.path(), "print(total)"), "22\n");
    assert_eq!(temporary_files(dir.path()), 0, "something was left behind");
}

/// After each kill, either the script can continue, or the session contains the script's changes exactly once.
#[test]
fn killed_script_ends_once_in_its_session() {
    let dir = tempfile::tempdir().unwrap();
    printed(dir.path(), "total = 20");
    suspend_in_session(dir.path(), "for n in range(2):\n    total += 1\n    print(tools.pay(n=n))");
    let (mut delay, mut kills, mut call) = (Duration::ZERO, 0, 0);
    loop {
        let answer = format!("{call}=1");
        let resume = [&["resume", FILE, "--answer", &answer][..], &SESSION].concat();
        let mut child = inside(dir.path(), &resume).spawn().unwrap();
        thread::sleep(delay);
        kills += usize::from(kill(&mut child));
        assert!(temporary_files(dir.path()) <= 1, "temporary files accumulate");
        let total = peeked(dir.path(), "print(total)");
        if total != "20\n" {
            assert_eq!((call, &*total), (1, "22\n"));
            break;
        }
        let next = waiting(dir.path());
        assert!(next == call || next == call + 1, "call {next} follows call {call}");
        delay = if next == call { delay + Duration::from_millis(1) + delay / 8 } else { delay * 3 / 4 };
        call = next;
    }
    assert!(kills > 0, "no process was killed");
    if dir.path().join(FILE).exists() {
        // The process was killed after it had saved the session.
        let again = in_session(dir.path(), &["resume", FILE, "--answer", "1=1"]);
        assert_eq!(again.status.code(), Some(125));
        assert!(text(&again.stderr).contains("session `trip` has changed since"), "{}", text(&again.stderr));
    }
    assert_eq!(temporary_files(dir.path()), 0, "something was left behind");
    assert_eq!(printed(dir.path(), "print(total)"), "22\n");
}

/// Ctrl-C is pressed while one call waits for a person and a program answers another call.
#[test]
fn interrupted_wait_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    printed(dir.path(), "total = 20");
    let slow = "slow=sh -c 'echo run >>runs; sleep 60'";
    let limits = ["--timeout-ms", "100000", "--timeout-reserve-ms", "10000", "--tool-timeout-ms", "90000"];
    let asking = "import asyncio\nasync def main():\n    await asyncio.gather(tools.slow.aio(), tools.pay.aio())\n";
    let options = [&["--tool", slow, "--tool", "pay=@ask"][..], &limits, &SESSION].concat();
    let interrupted = |args: &[&str]| {
        let mut child = inside(dir.path(), &[args, &options].concat()).spawn().unwrap();
        wait_for(&dir.path().join("runs"));
        interrupt(&child);
        assert_eq!(wait(&mut child), 130);
        fs::remove_file(dir.path().join("runs")).unwrap();
        assert_eq!(temporary_files(dir.path()), 0, "something was left behind");
        rest(child.stderr.take().unwrap())
    };
    interrupted(&["run", "-e", &format!("{asking}asyncio.run(main())")]);
    assert!(!dir.path().join(FILE).exists());
    assert_eq!(peeked(dir.path(), "print(total)"), "20\n");

    let code = format!("{asking}total += 1\nprint(tools.pay())\nasyncio.run(main())\ntotal += 1");
    suspend(dir.path(), &[&["run", "-e", &code][..], &options].concat());
    let before = fs::read(dir.path().join(FILE)).unwrap();
    let stderr = interrupted(&["resume", FILE, "--answer", "0=1"]);
    assert!(stderr.contains("`script.suspended` is unchanged"), "{stderr}");
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), before);
    assert_eq!(peeked(dir.path(), "print(total)"), "20\n");

    let quick = ["--tool", "slow=sh -c 'echo 1'"];
    let ran = in_session(dir.path(), &[&["resume", FILE, "--answer", "0=1"][..], &quick].concat());
    assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(75), "1\n"), "{}", text(&ran.stderr));
    let answer = format!("{}=2", waiting(dir.path()));
    let ran = in_session(dir.path(), &[&["resume", FILE, "--answer", &answer][..], &quick].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert_eq!(printed(dir.path(), "print(total)"), "22\n");
}
