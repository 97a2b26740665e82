//! Applications that execute scripts.

use std::{
    sync::{Mutex, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use glovebox::{
    Tool,
    component::{Quotas, SandboxHost},
};
use glovebox_component_runner::{AppConfig, AppOutcome, Applications, Ended, Output, OutputBuffer};

use crate::support::{agent, config, prepared};

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(300);

fn run(script: &str, host: &SandboxHost, config: &AppConfig) -> Ended {
    let applications = Applications::new(&prepared()).unwrap();
    applications.load_bytes("agent", &agent(script)).unwrap().run(host, config).unwrap()
}

#[test]
fn a_command_executes_a_script_and_says_what_it_used() {
    let host = SandboxHost::builder(&prepared()).build().unwrap();
    let buffer = OutputBuffer::new(100);
    let ended = run("print(1)", &host, &config(|config| config.stdout = Output::Buffer(buffer.clone())));
    assert_eq!((ended.outcome, buffer.bytes()), (AppOutcome::Returned, b"up\n".to_vec()));
    assert_eq!((ended.sandbox.executions, ended.sandbox.sessions), (1, 0));
    assert!((10_000..10_000_000).contains(&ended.sandbox.fuel), "{}", ended.sandbox.fuel);
    assert!(ended.fuel_consumed < 10_000, "its own code did little: {}", ended.fuel_consumed);
    assert_eq!(run("1 / 0", &host, &AppConfig::default()).outcome, AppOutcome::Failed);
}

#[test]
fn a_quota_is_told_to_it() {
    let mut quotas = Quotas::default();
    quotas.executions = 0;
    let host = SandboxHost::builder(&prepared()).quotas(quotas).build().unwrap();
    let ended = run("print(1)", &host, &AppConfig::default());
    assert_eq!((ended.outcome, ended.sandbox.executions), (AppOutcome::Failed, 0));
}

/// Runs an endless script, and calls `then` once the script has called a tool of the host.
fn endless(config: &AppConfig, then: impl FnOnce()) -> Ended {
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
fn cancelling_it_ends_the_script_that_it_waits_for() {
    let config = AppConfig::default();
    let begin = Instant::now();
    let ended = endless(&config, || config.cancel.cancel());
    assert_eq!(ended.outcome, AppOutcome::Cancelled);
    assert!(begin.elapsed() < LONG, "far from the end of the script");
    assert_eq!(ended.sandbox.executions, 1);
}

#[test]
fn its_time_is_over_for_its_scripts_as_well() {
    // The application observes a cancelled execution, and may return before its own code is stopped.
    let ended = endless(&config(|config| config.limits.timeout_ms = 5_000), || ());
    assert!(matches!(ended.outcome, AppOutcome::Exhausted { limit: 5_000, .. }), "{:?}", ended.outcome);
}
