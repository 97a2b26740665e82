//! Tests tools that are host programs: their input, their answers, and how they end.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    thread,
    time::{Duration, Instant},
};

use super::{
    output, prepared, rest,
    support::{interrupt, text, wait},
};

/// Returns `true` if the process with this PID is running.
fn is_alive(process: &str) -> bool {
    // A zombie has ended, but its parent has not reaped it.
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn abandoned_tool_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("tool.sh");
    let started = dir.path().join("started");
    let text = format!("#!/bin/sh\nsleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}\nwait\n", started.display());
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let tool = format!("slow={}", program.display());
    for (case, flags, code, exit_code) in [
        ("the tool's timeout", "--tool-timeout-ms TIME --timeout-ms 100000", "await tools.slow().catch(() => 0)", 0),
        ("the script's timeout", "--timeout-ms TIME --tool-timeout-ms 100000", "await tools.slow()", 124),
        (
            "the script ends without waiting for the tool",
            "--timeout-ms 100000 --tool-timeout-ms 100000 --fuel 1000000000000",
            "tools.slow().catch(() => 0); const end = Date.now() + TIME; while (Date.now() < end); process.exit(0)",
            0,
        ),
        ("Ctrl-C", "--timeout-ms 100000 --tool-timeout-ms 100000", "await tools.slow()", 130),
    ] {
        // A slow machine needs more time to start the tool.
        let has_started = ["500", "5000", "30000"].into_iter().any(|time_ms| {
            let _ = fs::remove_file(&started);
            let (flags, code) = (flags.replace("TIME", time_ms), code.replace("TIME", time_ms));
            let flags: Vec<_> = flags.split(' ').collect();
            let args = [&["run", "--tool", &tool, "-l", "js", "-e", &code][..], &flags].concat();
            let mut child = prepared(&args).spawn().unwrap();
            if exit_code == 130 {
                while !started.exists() {
                    thread::sleep(Duration::from_millis(5));
                }
                interrupt(&child);
            }
            assert_eq!(wait(&mut child), exit_code, "{case}: {}", rest(child.stderr.take().unwrap()));
            started.exists()
        });
        assert!(has_started, "{case}: the tool did not start");
        let processes = fs::read_to_string(&started).unwrap();
        assert_eq!(processes.split_whitespace().count(), 2, "{case}: {processes}");
        let begin = Instant::now();
        while processes.split_whitespace().any(is_alive) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{case}: {processes} are still running");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn tool_with_a_background_process_still_answers() {
    let begin = Instant::now();
    let ran = output(&["run", "--tool", "t=sh -c 'setsid sleep 90 & echo 7'", "-e", "print(tools.t())"]);
    assert_eq!(text(&ran.stdout), "7\n", "{}", text(&ran.stderr));
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn tool_with_unread_or_large_input_answers() {
    let code = "print(tools.t(text='x' * 900000))";
    assert_eq!(text(&output(&["run", "--tool", "t=echo 1", "-e", code]).stdout), "1\n");
    assert_eq!(text(&output(&["run", "--tool", "t=wc -c", "-e", code]).stdout), "900011\n");
}
