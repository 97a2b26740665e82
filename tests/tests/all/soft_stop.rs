//! Tests the soft limit, which interrupts a script before it is unwound: the exception, the remaining state, and
//! scripts that ignore the exception.

use std::{thread, time::Duration};

use glovebox::{CancelToken, Execution, Language, Outcome, Policy, Request, Resource, Sandbox, Tool};
use glovebox_tests::{engine, fixed, sandbox, short};
use serde_json::json;

/// Endless loops that first set a variable.
const LOOPS: [(Language, &str); 2] = [
    (Language::Python, "held = 1\nwhile True:\n    pass"),
    (Language::JavaScript, "globalThis.held = 1;\nfor (;;) {}"),
];

/// Waits that are far longer than the timeout.
const SLEEPS: [(Language, &str); 4] = [
    (Language::Python, "import time\ntime.sleep(60)"),
    (Language::Python, "import asyncio\nasyncio.run(asyncio.sleep(60))"),
    (Language::JavaScript, "os.sleep(60000)"),
    (Language::JavaScript, "setTimeout(() => 0, 60000)"),
];

const FUEL: u64 = 8_000_000_000;

/// Reserves the maximum, a tenth of the fuel. An interpreter does not use that much between two checks, even if the
/// clock is late.
fn little_fuel(policy: &mut Policy) {
    policy.limits.fuel = FUEL;
    policy.limits.fuel_reserve = FUEL;
    policy.limits.timeout_ms = 60_000;
}

fn little_time(policy: &mut Policy) {
    policy.limits.fuel = 1_000_000_000_000;
    policy.limits.timeout_ms = 2_000;
    policy.limits.timeout_reserve_ms = 2_000;
}

fn much(policy: &mut Policy) {
    policy.limits.fuel = 1_000_000_000_000;
    policy.limits.timeout_ms = 60_000;
    policy.limits.timeout_reserve_ms = 1_000;
}

/// Runs `source` and cancels it after a short time, in which it starts.
fn cancelled(sandbox: &Sandbox, source: &str) -> Execution {
    // Loads the image.
    sandbox.execute("").unwrap();
    let token = CancelToken::new();
    let other = token.clone();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        other.cancel();
    });
    let execution = sandbox.run(Request::new(source).cancel(&token)).unwrap();
    canceller.join().unwrap();
    execution
}

fn assert_last_word(execution: &Execution, source: &str) {
    let last = execution.interrupted.as_ref().unwrap_or_else(|| panic!("{source}: {:?}", execution.outcome));
    assert!(!last.traceback.is_empty(), "{source}: {last:?}");
    let stderr = execution.stderr.text();
    assert!(stderr.contains(last.message.as_str()), "{source}: {stderr:?} {last:?}");
    assert!(!execution.is_success());
}

#[test]
fn fuel_reserve_lets_a_script_clean_up() {
    for (language, source) in LOOPS {
        let session = sandbox(language, little_fuel).session().unwrap();
        let execution = session.execute(source).unwrap();
        assert_last_word(&execution, source);
        assert_eq!(execution.interrupted.as_ref().unwrap().message, "the fuel limit is nearly reached");
        let expected = Outcome::Exhausted { resource: Resource::Fuel, limit: FUEL, used: FUEL };
        assert_eq!((execution.outcome, execution.fuel_consumed), (expected, FUEL), "the result is reproducible");
        assert!(execution.rolled_back_to.is_none());
        assert!(session.execute("held").unwrap().is_success(), "{language}: changes before the stop are retained");
    }
}

#[test]
fn time_reserve_lets_a_script_clean_up() {
    for (language, source) in LOOPS.into_iter().chain(SLEEPS) {
        let execution = sandbox(language, little_time).execute(source).unwrap();
        assert_last_word(&execution, source);
        assert_eq!(execution.interrupted.as_ref().unwrap().message, "the time limit is nearly reached");
        let Outcome::Exhausted { resource: Resource::Time, limit: 2_000, used } = execution.outcome else {
            panic!("{source}: {:?}", execution.outcome)
        };
        assert!((1_800..30_000).contains(&used), "{source}: {used}");
    }
}

#[test]
fn cancelled_script_can_clean_up() {
    for (language, source) in LOOPS.into_iter().chain(SLEEPS) {
        let execution = cancelled(&sandbox(language, much), source);
        assert_last_word(&execution, source);
        assert_eq!(execution.interrupted.as_ref().unwrap().message, "the execution was cancelled");
        assert_eq!(execution.outcome, Outcome::Cancelled, "{source}");
    }
}

#[test]
fn wait_for_a_tool_can_clean_up() {
    let patient = Tool::new("patient", "Waits.").handler(|call, _| {
        let _ = call.cancel.wait_timeout(Duration::from_secs(60));
        Ok(json!("late"))
    });
    let source = "
import os
device = os.open('/dev/glovebox/tools', os.O_RDWR)
os.write(device, b'{\"id\": 1, \"name\": \"patient\"}')
while True:
    os.read(device, 4)
    pass";
    let mut policy = Policy::default();
    little_time(&mut policy);
    let sandbox = Sandbox::builder(engine()).policy(policy).tool(patient).build().unwrap();
    let execution = sandbox.execute(source).unwrap();
    assert_last_word(&execution, source);
    assert_eq!(short(&execution.outcome), "exhausted time");
    let execution = cancelled(&sandbox, source);
    assert_last_word(&execution, source);
    assert_eq!(execution.outcome, Outcome::Cancelled);
}

#[test]
fn python_can_clean_up_and_end_well() {
    let clean = "
try:
    while True:
        pass
finally:
    print('cleaned up')";
    let execution = sandbox(Language::Python, little_fuel).execute(clean).unwrap();
    assert_last_word(&execution, clean);
    assert_eq!(execution.stdout.text(), "cleaned up\n");

    let caught = "
import time
try:
    time.sleep(60)
except KeyboardInterrupt as error:
    print('caught', error)
time.sleep(0.01)
print('done')";
    let execution = sandbox(Language::Python, little_time).execute(caught).unwrap();
    assert_eq!(short(&execution.outcome), "completed");
    assert_eq!(execution.stdout.text(), "caught the time limit is nearly reached\ndone\n");
    assert_eq!(execution.interrupted, None);
    let execution = cancelled(&sandbox(Language::Python, much), caught);
    assert_eq!(short(&execution.outcome), "completed");

    let not_as_an_exception = "
try:
    while True:
        pass
except Exception:
    print('caught')";
    let execution = sandbox(Language::Python, little_fuel).execute(not_as_an_exception).unwrap();
    assert_last_word(&execution, not_as_an_exception);
    assert_eq!(execution.stdout.text(), "");
}

#[test]
fn javascript_cannot_catch_a_soft_stop() {
    let source = "try { for (;;) {} } catch (error) { console.log('caught') } finally { console.log('finally') }";
    let execution = sandbox(Language::JavaScript, little_fuel).execute(source).unwrap();
    assert_last_word(&execution, source);
    assert_eq!(execution.stdout.text(), "", "neither `catch` nor `finally` runs");
}

#[test]
fn script_that_ignores_a_soft_stop_is_unwound() {
    let source = "
while True:
    try:
        while True:
            pass
    except BaseException:
        print('no', flush=True)";
    let sandbox_with = |edit: fn(&mut Policy)| sandbox(Language::Python, edit);
    let execution = sandbox_with(little_fuel).execute(source).unwrap();
    assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted fuel", &None));
    assert_eq!(execution.stdout.text(), "no\n", "interruption is requested only once");
    let execution = sandbox_with(little_time).execute(source).unwrap();
    assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted time", &None));
    assert!(execution.duration >= Duration::from_secs(2));
    let execution = cancelled(&sandbox_with(much), source);
    assert_eq!((&execution.outcome, &execution.interrupted), (&Outcome::Cancelled, &None));
    assert!(execution.duration >= Duration::from_secs(1), "the script gets its grace period: {:?}", execution.duration);
    assert!(execution.duration < Duration::from_secs(30));
}

#[test]
fn no_soft_stop_without_a_reserve() {
    for (language, source) in LOOPS {
        let none = |policy: &mut Policy| {
            policy.limits.fuel_reserve = 0;
            policy.limits.timeout_reserve_ms = 0;
        };
        let few = |policy: &mut Policy| {
            none(policy);
            policy.limits.fuel = 500_000_000;
        };
        let execution = sandbox(language, few).execute(source).unwrap();
        assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted fuel", &None));
        assert_eq!(execution.stderr.text(), "OutOfFuel: the script used all of its fuel, 500000000 units\n");
        let soon = |policy: &mut Policy| {
            much(policy);
            none(policy);
            policy.limits.timeout_ms = 300;
        };
        let execution = sandbox(language, soon).execute(source).unwrap();
        assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted time", &None));
        let execution = cancelled(
            &sandbox(language, |policy| {
                much(policy);
                none(policy)
            }),
            source,
        );
        assert_eq!((&execution.outcome, &execution.interrupted), (&Outcome::Cancelled, &None));
    }
}

#[test]
fn repeatable_executions_stop_by_fuel_alone() {
    for (language, source) in LOOPS {
        let sandbox = sandbox(language, |policy| {
            little_fuel(policy);
            fixed(policy);
            policy.limits.fuel = 1_000_000_000;
        });
        let execution = sandbox.execute(source).unwrap();
        assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted fuel", &None));
        assert_eq!(execution.stderr.text(), "OutOfFuel: the script used all of its fuel, 1000000000 units\n");
    }
}

#[test]
fn script_cannot_fake_a_soft_stop() {
    let source = "
import sys
try:
    while True:
        pass
except KeyboardInterrupt as error:
    held = type(error)";
    let session = sandbox(Language::Python, little_fuel).session().unwrap();
    assert!(session.execute(source).unwrap().is_success());
    let execution = session.execute("raise held('forged')").unwrap();
    assert_eq!(execution.interrupted, None);
    assert!(matches!(execution.outcome, Outcome::Raised(_)), "{:?}", execution.outcome);
    assert!(session.execute("1").unwrap().is_success());
}

#[test]
fn unnoticed_soft_stop_does_not_affect_the_next_execution() {
    // The output buffered at the end only reaches the listener after the script's last instruction.
    for (language, source, next) in [
        (Language::Python, "print('over', end='')", "n = 0\nfor i in range(1000):\n    n += i\nprint(n)"),
        (
            Language::JavaScript,
            "std.out.puts('over')",
            "let n = 0; for (let i = 0; i < 100000; i++) n += 1; console.log(n)",
        ),
    ] {
        let session = sandbox(language, much).session().unwrap();
        let token = CancelToken::new();
        let other = token.clone();
        let request = Request::new(source).cancel(&token).on_output(move |_, _| {
            other.cancel();
            // Gives the host time to notice the cancellation and interrupt before the guest returns.
            thread::sleep(Duration::from_millis(20));
        });
        let unnoticed = session.run(request).unwrap();
        assert!(token.is_cancelled(), "{language}");
        assert_eq!((unnoticed.outcome, unnoticed.interrupted), (Outcome::Completed, None), "{language}");
        let execution = session.execute(next).unwrap();
        assert!(execution.is_success(), "{language}: {:?}", execution.outcome);
    }
}
