use std::time::Duration;

use super::fake::FakeClocks;
use super::*;
use crate::bindings::types::{Exhausted, Outcome, ResourceKind};

fn open(step: Duration, policy: types::Policy) -> Sandbox {
    open_with(FakeClocks::new(step), policy)
}

fn open_with(clocks: Rc<FakeClocks>, policy: types::Policy) -> Sandbox {
    let (_, world) = closed_world();
    let world = World { clocks: Some(clocks), ..world };
    sandbox_in(&world, policy).unwrap()
}

/// Returns a policy of a hundred milliseconds, ten of them reserved for the soft limit.
fn short() -> types::Policy {
    limits(|limits| limits.timeout_ms = Some(100))
}

fn is_out_of_time(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exhausted(Exhausted { resource: ResourceKind::Time, limit: 100, .. }))
}

#[test]
fn one_that_works_on_is_stopped_when_its_time_is_over() {
    let sandbox = open(Duration::from_millis(1), short());
    let execution = execute(&sandbox, "spin");
    assert!(is_out_of_time(&execution.outcome), "{:?}", execution.outcome);
    assert!(execution.interrupted.is_some(), "it was asked first");
    assert!((90_000_000..101_000_000).contains(&execution.duration_ns), "{}", execution.duration_ns);
    // A script that ignores the soft stop.
    let execution = execute(&sandbox, &"burn 2000000\n".repeat(200));
    assert!(is_out_of_time(&execution.outcome) && execution.interrupted.is_none(), "{:?}", execution.outcome);
    assert_eq!(execute(&sandbox, "print on").outcome, Outcome::Completed, "usable after");
}

#[test]
fn one_that_makes_a_call_now_and_then_is_stopped_when_its_time_is_over() {
    // Each call is charged, though not enough for a check of the clock, and the work between calls is less than a
    // slice.
    let source = "burn 1900000\nprint on\n".repeat(300);
    let in_time = types::Policy { clock: Some(types::Clock::Fixed(0)), ..short() };
    let execution = execute(&open(Duration::from_millis(1), in_time), &source);
    assert!(is_out_of_time(&execution.outcome), "{:?}", execution.outcome);
}

#[test]
fn one_that_sleeps_is_woken_when_its_time_is_over() {
    let sandbox = open(Duration::from_nanos(1), short());
    for (sleep, in_time) in [(89_000_000, true), (91_000_000, false), (u64::MAX, false)] {
        let execution = execute(&sandbox, &format!("sleep {sleep}"));
        assert_eq!(execution.outcome == Outcome::Completed, in_time, "{sleep}: {:?}", execution.outcome);
        assert!(execution.duration_ns < 101_000_000, "{}", execution.duration_ns);
        assert_eq!(execution.interrupted.is_some(), !in_time, "it is asked within its sleep");
    }
    let all = limits(|limits| (limits.timeout_ms, limits.timeout_reserve_ms) = (Some(100), Some(0)));
    let execution = execute(&open(Duration::from_nanos(1), all), "sleep 1000000000000");
    assert!(is_out_of_time(&execution.outcome) && execution.interrupted.is_none());
}

#[test]
fn a_deadline_cancels() {
    let cancelled = |sandbox: &Sandbox, source: &str, deadline_ms| {
        let task = sandbox.task(types::Request { deadline_ms: Some(deadline_ms), ..request(source) }).unwrap();
        sandbox.execute(&task).unwrap().to_wit()
    };
    let sandbox = open(Duration::from_millis(1), short());
    let execution = cancelled(&sandbox, "spin", 20);
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(execution.interrupted.is_some());
    let execution = cancelled(&sandbox, &"burn 2000000\n".repeat(200), 20);
    assert_eq!((execution.outcome, execution.interrupted), (Outcome::Cancelled, None), "its grace is over, too");
    assert!(is_out_of_time(&cancelled(&sandbox, "spin", 100).outcome), "its own time is over before");
    let execution = cancelled(&sandbox, "print no", 0);
    assert_eq!((printed(&execution), &execution.outcome), ("", &Outcome::Cancelled));
    let sleeping = open(Duration::from_nanos(1), short());
    let execution = cancelled(&sleeping, "sleep 1000000000000", 20);
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(execution.duration_ns < 31_000_000, "{}", execution.duration_ns);
}

#[test]
fn each_look_reads_the_clock_once() {
    // Each slice of fuel ends with a reading of the clock.
    let readings = |slices| {
        let clocks = FakeClocks::new(Duration::from_nanos(1));
        let execution = execute(&open_with(Rc::clone(&clocks), short()), &"burn 2000000\n".repeat(slices));
        assert_eq!(execution.outcome, Outcome::Completed);
        clocks.readings()
    };
    assert_eq!(readings(110) - readings(10), 100);
}

#[test]
fn a_host_cancels_by_its_clock() {
    let cancelled = |source: &str, after_ms| {
        let clocks = FakeClocks::cancelling(Duration::from_millis(1), Some(Duration::from_millis(after_ms)));
        execute(&open_with(clocks, short()), source)
    };
    let execution = cancelled("spin", 20);
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(execution.interrupted.is_some(), "it was asked first");
    assert!((20_000_000..31_000_000).contains(&execution.duration_ns), "{}", execution.duration_ns);
    let execution = cancelled(&"burn 2000000\n".repeat(200), 20);
    assert_eq!((execution.outcome, execution.interrupted), (Outcome::Cancelled, None), "its grace is over, too");
    let execution = cancelled("print no", 0);
    assert_eq!((printed(&execution), &execution.outcome), ("", &Outcome::Cancelled));
    assert_eq!(cancelled("print on", 1000).outcome, Outcome::Completed);
    assert!(is_out_of_time(&cancelled("spin", 1000).outcome), "its own time is over before");
}

#[test]
fn without_a_clock_only_fuel_bounds_time() {
    let policy = limits(|limits| (limits.timeout_ms, limits.fuel) = (Some(1), Some(50_000_000)));
    let (_, sandbox) = closed(policy);
    let task = sandbox.task(types::Request { deadline_ms: Some(0), ..request("spin") }).unwrap();
    let execution = sandbox.execute(&task).unwrap().to_wit();
    let Outcome::Exhausted(Exhausted { resource: ResourceKind::Fuel, .. }) = execution.outcome else {
        panic!("{:?}", execution.outcome);
    };
    assert_eq!((execution.duration_ns, execution.interrupted), (0, None));
}
