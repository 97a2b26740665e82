//! Kills the command with SIGKILL while it runs or resumes a script that waits for a person.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{inside, output, suspend};
use crate::support::{TEST_TIMEOUT, text};

const FILE: &str = "script.suspended";

/// The number of times that the script waits.
const WAITS: usize = 4;

/// A script that has an effect before each wait.
const CODE: &str = "for n in range(4):\n    getattr(tools, f'c{n}')()\n    print(tools.ok(n=n))";

/// Returns the waiting call and the number of waits before it, or `None` if the script has ended.
fn stored(dir: &Path) -> Option<(u64, usize)> {
    if !dir.join(FILE).exists() {
        return None;
    }
    // A tool that a killed process was starting holds the file's lock until the tool's program runs.
    let begin = Instant::now();
    let listed = loop {
        let listed = output(dir, &["resume", FILE, "--json"]);
        if !text(&listed.stderr).contains("another process is resuming") || begin.elapsed() > TEST_TIMEOUT {
            break listed;
        }
    };
    assert_eq!(listed.status.code(), Some(75), "{}", text(&listed.stderr));
    let report: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let number = |pointer| report.pointer(pointer).and_then(Value::as_u64).unwrap();
    Some((number("/calls/0/id"), usize::try_from(number("/calls/0/arguments/n")).unwrap()))
}

/// Kills a process. Returns `false` if it had already ended.
pub(super) fn kill(child: &mut Child) -> bool {
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

/// Returns the number of files that were being written when a process was killed.
pub(super) fn temporary_files(dir: &Path) -> usize {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".glovebox-")).count()
}

/// Waits until a tool has written its file.
pub(super) fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < TEST_TIMEOUT, "the tool does not run");
        thread::sleep(Duration::from_millis(5));
    }
}

/// After each kill, the file contains the old state or the next one. Effects that precede the stored state are never
/// repeated.
#[test]
fn effects_before_a_stored_wait_happen_once() {
    let dir = tempfile::tempdir().unwrap();
    let tools: Vec<_> = (0..WAITS).map(|n| format!("c{n}=sh -c 'echo {n} $ROUND >>effects; echo 1'")).collect();
    let options: Vec<_> =
        tools.iter().map(String::as_str).chain(["ok=@ask"]).flat_map(|tool| ["--tool", tool]).collect();
    let ran = inside(dir.path(), &[&["run", "-e", CODE][..], &options].concat()).env("ROUND", "0").output().unwrap();
    assert_eq!(ran.status.code(), Some(75), "{}", text(&ran.stderr));
    let mut current = stored(dir.path());
    // For each wait, the round in which it was stored.
    let mut reached = vec![0];
    let (mut delay, mut kills) = (Duration::ZERO, 0);
    for round in 1.. {
        let Some((call, wait)) = current else { break };
        let answer = format!("{call}=1");
        let args = [&["resume", FILE, "--answer", &answer][..], &options].concat();
        let mut child = inside(dir.path(), &args).env("ROUND", format!("{round}")).spawn().unwrap();
        thread::sleep(delay);
        kills += usize::from(kill(&mut child));
        current = stored(dir.path());
        match current {
            Some((same, _)) if same == call => delay += Duration::from_millis(2) + delay / 8,
            Some((_, next)) => {
                assert_eq!(next, wait + 1, "a wait was skipped");
                reached.push(round);
                delay = delay * 3 / 4;
            }
            None => assert_eq!(wait + 1, WAITS, "the file was deleted before the script has ended"),
        }
        assert!(temporary_files(dir.path()) <= 1, "temporary files accumulate");
    }
    assert!(kills > 0, "no process was killed");
    assert_eq!(temporary_files(dir.path()), 0, "something was left behind");
    let effects = fs::read_to_string(dir.path().join("effects")).unwrap();
    let mut seen = BTreeSet::new();
    for line in effects.lines() {
        let (n, round) = line.split_once(' ').unwrap();
        let (n, round): (usize, i32) = (n.parse().unwrap(), round.parse().unwrap());
        assert!(seen.insert((n, round)), "effect {n} happened twice in round {round}");
        assert!(round <= reached[n], "effect {n} was repeated in round {round}: {reached:?}");
    }
    for (n, round) in reached.iter().enumerate() {
        assert!(seen.contains(&(n, *round)), "effect {n} did not happen in round {round}");
    }
}

#[test]
fn script_that_was_killed_before_its_first_wait_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let slow = "slow=sh -c 'echo run >>runs; sleep 5'";
    let code = "tools.slow()\ntools.ok()";
    let mut child = inside(dir.path(), &["run", "--tool", slow, "--tool", "ok=@ask", "-e", code]).spawn().unwrap();
    wait_for(&dir.path().join("runs"));
    assert!(kill(&mut child));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
}

/// The calls that follow the stored state are repeated, as the documentation says.
#[test]
fn effect_after_the_stored_wait_is_repeated_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    let slow = |rest: &str| format!("slow=sh -c 'echo run >>runs; {rest}'");
    suspend(
        dir.path(),
        &["run", "--tool", &slow("echo 7"), "--tool", "ok=@ask", "-e", "tools.ok()\nprint(tools.slow())"],
    );
    let before = fs::read(&file).unwrap();
    let hanging = slow("sleep 5");
    let mut child = inside(dir.path(), &["resume", FILE, "--tool", &hanging, "--answer", "0=1"]).spawn().unwrap();
    wait_for(&dir.path().join("runs"));
    assert!(kill(&mut child));
    assert_eq!(fs::read(&file).unwrap(), before);
    let ran = output(dir.path(), &["resume", FILE, "--tool", &slow("echo 7"), "--answer", "0=1"]);
    assert_eq!((ran.status.code(), &*text(&ran.stdout)), (Some(0), "7\n"), "{}", text(&ran.stderr));
    assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "run\nrun\n");
    assert!(!file.exists());
}
