//! Tests scripts that wait for a person: processes that run at the same time, interruptions, and effects of tools.

mod killed;
mod sessions;

use std::{
    fs,
    io::BufReader,
    path::Path,
    process::{Command, Output},
    thread,
    time::Duration,
};

use super::{
    prepared, rest,
    support::{interrupt, text, up, wait},
};

/// Returns a command that runs in a directory.
fn inside(dir: &Path, args: &[&str]) -> Command {
    let mut command = prepared(args);
    command.current_dir(dir);
    command
}

fn output(dir: &Path, args: &[&str]) -> Output {
    inside(dir, args).output().unwrap()
}

/// Runs a command that must end with a script waiting for a person.
fn suspend(dir: &Path, args: &[&str]) {
    let ran = output(dir, args);
    assert_eq!(ran.status.code(), Some(75), "{}", text(&ran.stderr));
    assert!(dir.join("script.suspended").exists());
}

#[test]
fn script_is_suspended_after_running_programs_have_answered() {
    let dir = tempfile::tempdir().unwrap();
    let slow = "slow=sh -c 'echo run >>runs; sleep 1; echo 7'";
    for (language, code) in [
        (
            "python",
            "import asyncio\nasync def main(): print(await asyncio.gather(tools.slow.aio(), tools.ok.aio()))\n\
             asyncio.run(main())",
        ),
        ("javascript", "console.log(JSON.stringify(await Promise.all([tools.slow(), tools.ok()])).replace(',', ', '))"),
    ] {
        let _ = fs::remove_file(dir.path().join("runs"));
        suspend(dir.path(), &["run", "--tool", slow, "--tool", "ok=@ask", "-l", language, "-e", code]);
        let ran = output(dir.path(), &["resume", "script.suspended", "--tool", slow, "--answer", "1=8"]);
        assert_eq!(text(&ran.stdout), "[7, 8]\n", "{language}: {}", text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(0), "{language}");
        assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "run\n", "{language}");
        assert!(!dir.path().join("script.suspended").exists(), "{language}");
    }
}

#[test]
fn program_runs_once_after_its_approval() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("policy.toml"), "[tools.pay]\napprove = 'always'\n").unwrap();
    let pay = "pay=sh -c 'cat >>runs; echo >>runs; echo 7'";
    let options = ["--policy", "policy.toml", "--tool", pay];
    let code = "for n in range(3):\n try: print(tools.pay(n=n))\n except tools.ToolDenied as error: print(error)";
    suspend(dir.path(), &[&["run"][..], &options, &["-e", code]].concat());
    assert!(!dir.path().join("runs").exists(), "the program ran without an approval");
    let resume =
        |answer: &[&str]| output(dir.path(), &[&["resume", "script.suspended"][..], &options, answer].concat());
    for (answer, code, stdout) in [
        (["--approve", "0"], 75, "7\n"),
        (["--deny", "1=too expensive"], 75, "too expensive\n"),
        (["--approve", "2"], 0, "7\n"),
    ] {
        let ran = resume(&answer);
        assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(code), stdout), "{}", text(&ran.stderr));
    }
    assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "{\"n\":0}\n{\"n\":2}\n");
    assert!(!dir.path().join("script.suspended").exists());
}

/// Ctrl-C waits until a suspended execution is stored.
#[test]
fn interruption_while_the_file_is_written_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // The file contains the input, so writing it takes a while.
    fs::write(dir.path().join("input"), vec![b'x'; 15 << 20]).unwrap();
    let is_writing = || {
        fs::read_dir(dir.path()).unwrap().filter_map(Result::ok).any(|entry| {
            // Before the script starts, an empty temporary file is created and removed.
            entry.path().extension().is_some_and(|extension| extension == "new")
                && entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
        })
    };
    for args in [
        &["run", "--stdin", "input", "--tool", "ok=@ask", "-e", "print(tools.ok(n=1), tools.ok(n=2))"][..],
        &["resume", "script.suspended", "--answer", "0=1"],
    ] {
        let mut child = inside(dir.path(), args).spawn().unwrap();
        loop {
            if is_writing() {
                interrupt(&child);
                break;
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_micros(200));
        }
        assert_eq!(wait(&mut child), 75, "{}", rest(child.stderr.take().unwrap()));
    }
    let ran = output(dir.path(), &["resume", "script.suspended", "--answer", "1=2"]);
    assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(0), "1 2\n"), "{}", text(&ran.stderr));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
}

/// The file stays, so that a person can decide whether to repeat the calls that the script made after it continued.
#[test]
fn interrupted_script_can_be_resumed_again() {
    let dir = tempfile::tempdir().unwrap();
    let code = "tools.ok(); print('up', flush=True); import time; time.sleep(90)";
    let limits = ["--timeout-ms", "100000", "--timeout-reserve-ms", "10000"];
    suspend(dir.path(), &[&["run", "--tool", "ok=@ask", "-e", code][..], &limits].concat());
    let file = dir.path().join("script.suspended");
    let before = fs::read(&file).unwrap();
    let resume = [&["resume", "script.suspended", "--answer", "0=1"][..], &limits].concat();
    for _ in 0..2 {
        let mut child = inside(dir.path(), &resume).spawn().unwrap();
        up(&mut BufReader::new(child.stdout.take().unwrap()));
        let other = output(dir.path(), &resume);
        assert_eq!(other.status.code(), Some(125));
        assert!(text(&other.stderr).contains("another process is resuming `script.suspended`"));
        interrupt(&child);
        assert_eq!(wait(&mut child), 130);
        let printed = rest(child.stderr.take().unwrap());
        assert!(printed.contains("`script.suspended` is unchanged"), "{printed}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }
}

/// A result that was not printed is not lost.
#[test]
fn file_and_session_are_unchanged_until_the_report_is_written() {
    let fresh: [&str; 0] = [];
    for options in [&fresh[..], &sessions::SESSION] {
        for report in [&fresh[..], &["--json"]] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("script.suspended");
            suspend(dir.path(), &[&["run", "--tool", "ok=@ask", "-e", "print(tools.ok())"][..], options].concat());
            let before = fs::read(&file).unwrap();
            let resume = [&["resume", "script.suspended", "--answer", "0=1"][..], options].concat();
            let mut child = inside(dir.path(), &[&resume[..], report].concat()).spawn().unwrap();
            drop(child.stdout.take());
            assert_eq!(wait(&mut child), 141, "{options:?} {report:?}");
            let printed = rest(child.stderr.take().unwrap());
            assert!(printed.contains("`script.suspended` is unchanged"), "{options:?} {report:?}: {printed}");
            assert_eq!(fs::read(&file).unwrap(), before, "{options:?} {report:?}");
            let ran = output(dir.path(), &resume);
            assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(0), "1\n"), "{}", text(&ran.stderr));
            assert!(!file.exists(), "{options:?} {report:?}");
        }
    }
}

#[test]
fn later_state_replaces_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let code = "for i in range(3): print(i, tools.ok(n=i))\nraise SystemExit(4)";
    suspend(dir.path(), &["run", "--tool", "ok=@ask", "-e", code]);
    for (call, exit_code, printed) in [(0, 75, "0 10\n"), (1, 75, "1 11\n"), (2, 4, "2 12\n")] {
        let answer = format!("{call}={}", call + 10);
        let ran = output(dir.path(), &["resume", "script.suspended", "--answer", &answer]);
        assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(exit_code), printed), "{}", text(&ran.stderr));
        assert_eq!(text(&ran.stderr).contains(&format!("call {}: ok", call + 1)), exit_code == 75);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
}

/// If the record is full, a call that would wait raises an exception, so that the script can still finish.
#[test]
fn full_record_raises_an_exception() {
    let dir = tempfile::tempdir().unwrap();
    let code =
        "import os\nos.urandom(1100000)\ntry: tools.ok()\nexcept tools.ToolError as error: print(type(error).__name__)";
    let ran = output(dir.path(), &["run", "--tool", "ok=@ask", "-e", code]);
    assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(0), "ToolLimit\n"), "{}", text(&ran.stderr));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn files_are_written_when_the_script_ends() {
    let (dir, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let code = "open('a.txt', 'a').write('one\\n'); print(tools.ok()); open('a.txt', 'a').write('two\\n')";
    let shared = ["--workspace", workspace.path().to_str().unwrap()];
    suspend(dir.path(), &[&["run", "--tool", "ok=@ask", "-e", code][..], &shared].concat());
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0, "a suspended script has written files");
    let ran = output(dir.path(), &[&["resume", "script.suspended", "--answer", "0=1"][..], &shared].concat());
    assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(0), "1\n"), "{}", text(&ran.stderr));
    assert_eq!(fs::read_to_string(workspace.path().join("a.txt")).unwrap(), "one\ntwo\n");
}
