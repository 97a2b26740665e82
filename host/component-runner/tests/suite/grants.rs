//! Tests of the system access of applications, and of applications that execute scripts.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::{Mutex, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use glovebox::{Tool, mount::MountError};
use glovebox_component_host::{Quotas, SandboxHost};
use glovebox_component_runner::{
    AppConfig, AppOutcome, AppReport, Applications, Directory, Input, InvokeError, Output, OutputBuffer, RunError,
};

use crate::support::{agent, call, config, prepared, probe, value};

// Arguments for the probe's `open` function.
const READ: &str = "0, 1";
const CREATE: &str = "1, 2";
const TRUNCATE: &str = "8, 2";

// The error codes of `wasi:filesystem` as the probe returns them: negated positions in the enum, counted from 1.
const NO_ENTRY: &str = "-21";
const NOT_PERMITTED: &str = "-32";

#[test]
fn no_grants_by_default() {
    let nothing = AppConfig::default();
    for none in ["variables()", "arguments()", "directories()"] {
        assert_eq!(value(none, &nothing), "0", "{none}");
    }
    assert_eq!(value("read-input(10)", &nothing), "-1", "standard input is empty");
    assert_ne!(value("socket()", &nothing), "0");
}

#[test]
fn only_granted_resources_are_available() {
    let buffer = OutputBuffer::new(10);
    let granted = config(|config| {
        config.args = vec!["app".into(), "x".into()];
        config.env = vec![("A".into(), "1".into())];
        config.network = true;
        config.stdin = Input::Bytes(b"abc".to_vec());
        config.stdout = Output::Buffer(buffer.clone());
    });
    assert_eq!(value("variables()", &granted), "1");
    assert_eq!(value("arguments()", &granted), "2");
    assert_eq!(value("read-input(10)", &granted), "3");
    assert_eq!(value("socket()", &granted), "0");
    assert_eq!(value("directories()", &granted), "0");
    assert_eq!(value("write(\"0123456789\")", &granted), "0");
    assert_eq!(value("write(\"x\")", &granted), "1", "the buffer is full, so the stream is closed");
    assert_eq!(buffer.bytes(), b"0123456789");
}

fn directory(config: &mut AppConfig, host: &std::path::Path, is_read_only: bool) {
    config.directories = vec![Directory { host: host.into(), guest: "/d".into(), is_read_only }];
}

/// Creates a file `secret` and a directory next to it. The directory contains a file `a` and links, most of which point
/// outside the directory.
fn files() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(outer.path().join("secret"), "s").unwrap();
    fs::write(inner.join("a"), "a").unwrap();
    symlink(outer.path().join("secret"), inner.join("absolute")).unwrap();
    symlink("../secret", inner.join("relative")).unwrap();
    symlink("..", inner.join("up")).unwrap();
    symlink("a", inner.join("within")).unwrap();
    (outer, inner)
}

#[test]
fn directory_inside_or_around_the_cache_is_rejected() {
    let (world, application) = probe();
    let cache = world.cache().to_path_buf();
    fs::create_dir_all(cache.join("prepared")).unwrap();
    for host in [cache.clone(), cache.join("prepared"), cache.parent().unwrap().into(), "/".into()] {
        for is_read_only in [true, false] {
            let granted = config(|config| directory(config, &host, is_read_only));
            let error = application.invoke("directories()", &world.host, &granted).unwrap_err();
            let guarded = matches!(error, InvokeError::Run(RunError::Mount(MountError::Guarded { .. })));
            assert!(guarded, "{error}");
        }
    }
}

#[test]
fn granted_directory_is_readable_and_writable() {
    let (_outer, inner) = files();
    let granted = config(|config| directory(config, &inner, false));
    assert_eq!(value("directories()", &granted), "1");
    assert_eq!(value(&format!("open(\"a\", {READ})"), &granted), u32::from(b'a').to_string());
    assert_eq!(value(&format!("open(\"within\", {READ})"), &granted), u32::from(b'a').to_string());
    assert_eq!(value(&format!("open(\"b\", {CREATE})"), &granted), "0");
    assert!(inner.join("b").exists());
    assert_eq!(value("unlink(\"b\")", &granted), "0");
    assert!(!inner.join("b").exists());
    assert_eq!(value(&format!("open(\"none\", {READ})"), &granted), NO_ENTRY);
}

#[test]
fn granted_directory_cannot_be_left() {
    let (outer, inner) = files();
    let granted = config(|config| directory(config, &inner, false));
    for path in ["../secret", "absolute", "relative", "up/secret", "within/../../secret", "/etc/passwd", "../inner/a"] {
        for how in [READ, CREATE, TRUNCATE] {
            let found = value(&format!("open(\"{path}\", {how})"), &granted);
            assert!(found.starts_with('-'), "{path}, {how}: {found}");
        }
        assert_ne!(value(&format!("unlink(\"../{path}\")"), &granted), "0", "{path}");
    }
    assert_eq!(value("open(\"../secret\", 0, 1)", &granted), NOT_PERMITTED);
    assert_eq!(fs::read_to_string(outer.path().join("secret")).unwrap(), "s");
}

#[test]
fn writes_to_a_read_only_directory_are_denied() {
    let (_outer, inner) = files();
    let granted = config(|config| directory(config, &inner, true));
    assert_eq!(value(&format!("open(\"a\", {READ})"), &granted), u32::from(b'a').to_string());
    for how in [CREATE, TRUNCATE] {
        for path in ["a", "b", "within"] {
            assert_eq!(value(&format!("open(\"{path}\", {how})"), &granted), NOT_PERMITTED, "{path}, {how}");
        }
    }
    assert_eq!(value("unlink(\"a\")", &granted), NOT_PERMITTED);
    assert_eq!(fs::read_to_string(inner.join("a")).unwrap(), "a");
    assert!(!inner.join("b").exists());
}

#[test]
fn missing_directory_error_names_the_path() {
    let granted = config(|config| directory(config, "/no/such/place".as_ref(), false));
    let (world, application) = probe();
    let error = application.invoke("add(1, 2)", &world.host, &granted).unwrap_err();
    assert!(error.to_string().contains("/no/such/place"), "{error}");
}

#[test]
fn application_chooses_its_exit_code() {
    assert_eq!(call("exit(ok)", &AppConfig::default()).outcome, AppOutcome::Exited { code: 0 });
    assert_eq!(call("exit(err)", &AppConfig::default()).outcome, AppOutcome::Exited { code: 1 });
}

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(300);

fn run(script: &str, host: &SandboxHost, config: &AppConfig) -> AppReport {
    let applications = Applications::new(&prepared()).unwrap();
    applications.load_bytes("agent", &agent(script)).unwrap().run(host, config).unwrap()
}

#[test]
fn command_reports_the_usage_of_its_script() {
    let host = SandboxHost::builder(&prepared()).build().unwrap();
    let buffer = OutputBuffer::new(100);
    let ended = run("print(1)", &host, &config(|config| config.stdout = Output::Buffer(buffer.clone())));
    assert_eq!((ended.outcome, buffer.bytes()), (AppOutcome::Returned, b"up\n".to_vec()));
    assert_eq!((ended.sandbox.executions, ended.sandbox.sessions), (1, 0));
    assert!((10_000..10_000_000).contains(&ended.sandbox.fuel), "{}", ended.sandbox.fuel);
    assert!(ended.fuel_consumed < 10_000, "the component's own code does little: {}", ended.fuel_consumed);
    assert_eq!(run("1 / 0", &host, &AppConfig::default()).outcome, AppOutcome::Failed);
}

#[test]
fn exhausted_execution_quota_fails_the_application() {
    let mut quotas = Quotas::default();
    quotas.executions = 0;
    let host = SandboxHost::builder(&prepared()).quotas(quotas).build().unwrap();
    let ended = run("print(1)", &host, &AppConfig::default());
    assert_eq!((ended.outcome, ended.sandbox.executions), (AppOutcome::Failed, 0));
}

/// Runs an endless script, and calls `then` once the script has called a tool of the host.
fn endless(config: &AppConfig, then: impl FnOnce()) -> AppReport {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let here = Tool::new("here", "Says that the script runs.").handler(move |_, _| {
        sender.lock().unwrap().send(()).unwrap();
        Ok(serde_json::Value::Null)
    });
    let mut policy = glovebox::Policy::default();
    (policy.limits.timeout_ms, policy.limits.fuel) = (3_600_000, 1_000_000_000_000_000);
    let host = SandboxHost::builder(&prepared()).policy(policy).tool(here).build().unwrap();
    let config = config.clone();
    thread::scope(|scope| {
        let running = scope.spawn(move || run("tools.here()or any(0for _ in iter(int,1))", &host, &config));
        receiver.recv_timeout(LONG).unwrap();
        then();
        running.join().unwrap()
    })
}

#[test]
fn cancelling_an_application_ends_its_script() {
    let config = AppConfig::default();
    let begin = Instant::now();
    let ended = endless(&config, || config.cancel.cancel());
    assert_eq!(ended.outcome, AppOutcome::Cancelled);
    assert!(begin.elapsed() < LONG, "the script was not cancelled");
    assert_eq!(ended.sandbox.executions, 1);
}

#[test]
fn application_deadline_covers_its_scripts() {
    // The application observes a cancelled execution, and can return before its own code is stopped.
    let ended = endless(&config(|config| config.limits.timeout_ms = 5_000), || ());
    assert!(matches!(ended.outcome, AppOutcome::Exhausted { limit: 5_000, .. }), "{:?}", ended.outcome);
}
