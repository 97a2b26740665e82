//! Measures this process's memory, and runs the test program again as a child process.

use std::{
    env, fs,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

fn status_kib(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux shows a process's status");
    let line = status.lines().find(|line| line.starts_with(key)).expect("the status has this line");
    line.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).expect("the line contains a number of KiB")
}

/// Returns the current resident memory, in bytes.
pub fn resident_bytes() -> u64 {
    status_kib("VmRSS:") * 1024
}

/// Returns the peak resident memory, in bytes.
pub fn peak_resident_bytes() -> u64 {
    status_kib("VmHWM:") * 1024
}

/// Returns the size of this process's anonymous resident memory, in bytes.
pub fn anonymous_bytes() -> u64 {
    status_kib("RssAnon:") * 1024
}

/// Makes `count` values and keeps them for two seconds. Returns the maximum growth of this process's anonymous memory
/// during that time, in bytes.
pub fn peak_growth<T>(count: usize, make: impl Fn(usize) -> T) -> u64 {
    let before = anonymous_bytes();
    let (mut peak, mut made) = (0, Vec::new());
    for number in 0..count {
        made.push(make(number));
        peak = peak.max(anonymous_bytes());
    }
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(20));
        peak = peak.max(anonymous_bytes());
    }
    drop(made);
    peak.saturating_sub(before)
}

const CHILD: &str = "GLOVEBOX_TEST_CHILD";

/// Returns the task that the parent process assigned, if this process is a child.
pub fn child_task() -> Option<String> {
    env::var(CHILD).ok()
}

/// Returns a command that runs this program again as a child process with a task. For test programs with their own
/// `main`.
pub fn child_command(task: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.env(CHILD, task);
    command
}

/// Settings that make the GNU allocator return freed memory. Otherwise each thread's arena can retain tens of MiB of
/// unused memory, and a memory test would measure the allocator.
const MEASURABLE: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "131072")];

/// Runs a `#[test]` of this program in a separate process, which has its own memory and can abort without ending the
/// parent. The test reads `task` with [`child_task`].
///
/// Panics if the child runs longer than `limit`.
pub fn run_child(test: &str, task: &str, limit: Duration) -> Output {
    let mut child = Command::new(env::current_exe().expect("this program has a path"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, task)
        .envs(MEASURABLE)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a child starts");
    let until = Instant::now() + limit;
    // The child's output is small, so the pipes never fill up.
    while child.try_wait().expect("a child can be waited for").is_none() {
        if Instant::now() > until {
            child.kill().expect("a child can be killed");
            let output = child.wait_with_output().expect("a child's output can be read");
            panic!("`{test}` with `{task}` took longer than {limit:?}:\n{}", String::from_utf8_lossy(&output.stdout));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child's output can be read")
}

/// Runs a `#[test]` of this program, given by its full name, in a separate process. In the child, returns `true`, and
/// the test continues. In the parent, prints the child's output and returns `false` after the test has passed.
///
/// Panics if the child fails or runs longer than `limit`.
pub fn in_child(test: &str, limit: Duration) -> bool {
    if child_task().is_some() {
        return true;
    }
    let output = run_child(test, "go", limit);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    // A test program also succeeds if no test has this name.
    assert!(printed.contains("test result: ok. 1 passed;"), "no test is named `{test}`:\n{printed}");
    println!("{printed}");
    false
}
