//! Starts and stops child processes for the tests of the command.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command},
    sync::{Arc, Once, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT},
    flag,
};

/// The timeout for a child process. If the cache is empty, the first process downloads and compiles interpreters.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Prepares the interpreters. If the cache is empty, the first run reports its progress on standard error, which the
/// tests do not expect.
pub(crate) fn prepare() {
    static PREPARE: Once = Once::new();
    PREPARE.call_once(|| {
        // If the tests run in the background, they may have been started with ignored signals, which the command would
        // ignore too. For signals that the tests handle, the command starts with the default action.
        for signal in [SIGHUP, SIGINT] {
            flag::register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
        let prepared = Command::new(env!("CARGO_BIN_EXE_glovebox")).args(["runtimes", "prepare"]).output().unwrap();
        assert!(prepared.status.success(), "cannot prepare");
    });
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the line with which a script reports that it is running.
pub(crate) fn up(out: &mut BufReader<ChildStdout>) {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
}

/// Returns the exit code, or -1 after a signal.
pub(crate) fn wait(child: &mut Child) -> i32 {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if begin.elapsed() > TEST_TIMEOUT {
            child.kill().unwrap();
            panic!("the process does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends SIGINT, like Ctrl-C, after the process has installed its handler.
pub(crate) fn interrupt(child: &Child) {
    let begin = Instant::now();
    while !handles_interrupts(child.id()) {
        assert!(begin.elapsed() < TEST_TIMEOUT, "the process does not handle SIGINT");
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Returns `true` if a process handles SIGINT, or has ended.
fn handles_interrupts(pid: u32) -> bool {
    // Bit N of the mask stands for signal N + 1.
    const SIGINT_BIT: u64 = 1 << 1;
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        // Systems other than Linux do not report handlers.
        thread::sleep(Duration::from_millis(300));
        return true;
    };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & SIGINT_BIT != 0 || status.contains("State:\tZ")
}
