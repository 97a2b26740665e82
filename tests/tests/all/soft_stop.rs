//! Tests the soft limit, which interrupts a script before it is unwound: the exception, the remaining state, and
//! scripts that ignore the exception.

use std::{sync::mpsc, thread, time::Duration};

use glovebox::{CancelToken, Execution, Language, Outcome, Policy, Request, Resource, Sandbox, Tool};
use glovebox_tests::{engine, fixed, sandbox, short};
use serde_json::json;

/// Endless loops that first set a variable and print.
const LOOPS: [(Language, &str); 2] = [
    (Language::Python, "held = 1\nprint('on', flush=True)\nwhile True:\n    pass"),
    (Language::JavaScript, "globalThis.held = 1;\nconsole.log('on');\nfor (;;) {}"),
];

/// Waits that are far longer than the timeout. The scripts print first.
const SLEEPS: [(Language, &str); 4] = [
    (Language::Python, "import time\nprint('on', flush=True)\ntime.sleep(600)"),
    (Language::Python, "import asyncio\nprint('on', flush=True)\nasyncio.run(asyncio.sleep(600))"),
    (Language::JavaScript, "console.log('on');\nos.sleep(600000)"),
    (Language::JavaScript, "console.log('on');\nsetTimeout(() => 0, 600000)"),
];

const FUEL: u64 = 8_000_000_000;

/// Sets `fuel_reserve` to its effective maximum, a tenth of the fuel. An interpreter uses less than that before its
/// next check for interrupts.
fn little_fuel(policy: &mut Policy) {
    policy.limits.fuel = FUEL;
    policy.limits.fuel_reserve = FUEL;
    policy.limits.timeout_ms = 60_000;
}

fn time(policy: &mut Policy, timeout_ms: u64) {
    policy.limits.fuel = 1_000_000_000_000;
    policy.limits.timeout_ms = timeout_ms;
    policy.limits.timeout_reserve_ms = timeout_ms.min(60_000);
}

/// Runs a script with increasing timeouts until it is interrupted in time. On a slow machine, a short timeout can pass
/// before the script begins. Returns the last timeout.
fn in_time(run: impl Fn(u64) -> Execution, is_in_time: impl Fn(&Execution) -> bool) -> (u64, Execution) {
    for timeout_ms in [2_000, 20_000] {
        let execution = run(timeout_ms);
        if is_in_time(&execution) {
            return (timeout_ms, execution);
        }
    }
    (200_000, run(200_000))
}

fn is_interrupted(execution: &Execution) -> bool {
    execution.interrupted.is_some()
}

/// Sets limits on fuel and time, and a time reserve, that no script reaches, even on a slow machine.
fn much(policy: &mut Policy) {
    policy.limits.fuel = 1_000_000_000_000;
    policy.limits.timeout_ms = 600_000;
    policy.limits.timeout_reserve_ms = 20_000;
}

/// Runs `source` and cancels it shortly after its first output.
fn cancelled(sandbox: &Sandbox, source: &str) -> Execution {
    let token = CancelToken::new();
    let other = token.clone();
    let (begins, begun) = mpsc::channel();
    let canceller = thread::spawn(move || {
        begun.recv().unwrap();
        thread::sleep(Duration::from_millis(100));
        other.cancel();
    });
    let request = Request::new(source).cancel(&token).on_output(move |_, _| begins.send(()).unwrap_or_default());
    let execution = sandbox.run(request).unwrap();
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
        let run = |timeout_ms| sandbox(language, |policy| time(policy, timeout_ms)).execute(source).unwrap();
        let (timeout_ms, execution) = in_time(run, is_interrupted);
        assert_last_word(&execution, source);
        assert_eq!(execution.interrupted.as_ref().unwrap().message, "the time limit is nearly reached");
        let Outcome::Exhausted { resource: Resource::Time, limit, used } = execution.outcome else {
            panic!("{source}: {:?}", execution.outcome)
        };
        assert_eq!(limit, timeout_ms, "{source}");
        assert!((timeout_ms / 10 * 9..timeout_ms + 60_000).contains(&used), "{source}: {used}");
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
        let _ = call.cancel.wait_timeout(Duration::from_secs(600));
        Ok(json!("late"))
    });
    let source = "
import os
device = os.open('/dev/glovebox/tools', os.O_RDWR)
os.write(device, b'{\"id\": 1, \"name\": \"patient\"}')
print('on', flush=True)
while True:
    os.read(device, 4)
    pass";
    let with = |edit: &dyn Fn(&mut Policy)| {
        let mut policy = Policy::default();
        policy.limits.tool_timeout_ms = 600_000;
        edit(&mut policy);
        Sandbox::builder(engine()).policy(policy).tool(patient.clone()).build().unwrap()
    };
    let run = |timeout_ms| with(&|policy: &mut Policy| time(policy, timeout_ms)).execute(source).unwrap();
    let (_, execution) = in_time(run, is_interrupted);
    assert_last_word(&execution, source);
    assert_eq!(short(&execution.outcome), "exhausted time");
    let execution = cancelled(&with(&much), source);
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
    print('on', flush=True)
    time.sleep(600)
except KeyboardInterrupt as error:
    print('caught', error)
time.sleep(0.01)
print('done')";
    let run = |timeout_ms| sandbox(Language::Python, |policy| time(policy, timeout_ms)).execute(caught).unwrap();
    let (_, execution) = in_time(run, |execution| execution.outcome == Outcome::Completed);
    assert_eq!(short(&execution.outcome), "completed");
    assert_eq!(execution.stdout.text(), "on\ncaught the time limit is nearly reached\ndone\n");
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
print('on', flush=True)
while True:
    try:
        while True:
            pass
    except BaseException:
        print('no', flush=True)";
    let sandbox_with = |edit: fn(&mut Policy)| sandbox(Language::Python, edit);
    let execution = sandbox_with(little_fuel).execute(source).unwrap();
    assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted fuel", &None));
    assert_eq!(execution.stdout.text(), "on\nno\n", "interruption is requested only once");
    let execution = sandbox_with(|policy| time(policy, 2_000)).execute(source).unwrap();
    assert_eq!((short(&execution.outcome).as_str(), &execution.interrupted), ("exhausted time", &None));
    assert!(execution.duration >= Duration::from_secs(2));
    let short_grace = |policy: &mut Policy| {
        much(policy);
        policy.limits.timeout_reserve_ms = 1_000;
    };
    let execution = cancelled(&sandbox_with(short_grace), source);
    assert_eq!((&execution.outcome, &execution.interrupted), (&Outcome::Cancelled, &None));
    assert!(execution.duration >= Duration::from_secs(1), "the script gets its grace period: {:?}", execution.duration);
    assert!(execution.duration < Duration::from_secs(60));
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

/// CPython has released its lock during the wait, and must acquire it again to flush its streams.
#[test]
fn python_that_waits_again_is_stopped_without_another_error() {
    let source = "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: print('again', end='')";
    let run = |timeout_ms| sandbox(Language::Python, |policy| time(policy, timeout_ms)).execute(source).unwrap();
    let (timeout_ms, execution) = in_time(run, |execution| execution.stdout.text().contains("again"));
    assert!(
        matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Time, .. }),
        "{:?}",
        execution.outcome
    );
    let stderr = execution.stderr.text();
    assert!(stderr.starts_with("TimedOut: ") && stderr.lines().count() == 1, "{timeout_ms} ms: {stderr}");
}

/// CPython releases its lock in every system call. The limit determines which instruction uses the last fuel.
#[test]
fn python_in_a_system_call_is_stopped_without_another_error() {
    let source = "import os\nfile = os.open('a', os.O_CREAT | os.O_RDWR)\ndata = b'x' * 1000\nwhile True:\n    try: os.pwrite(file, data, 0)\n    except BaseException: pass";
    for step in 1..=12 {
        let fuel = 500_000_000 + step * 1_000_000;
        let execution = sandbox(Language::Python, |policy| policy.limits.fuel = fuel).execute(source).unwrap();
        assert!(
            matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Fuel, .. }),
            "{:?}",
            execution.outcome
        );
        let stderr = execution.stderr.text();
        assert!(stderr.starts_with("OutOfFuel: ") && stderr.lines().count() == 1, "{fuel}: {stderr}");
    }
}
