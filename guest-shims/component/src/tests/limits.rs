use std::time::Duration;

use super::{fake::FakeClocks, *};
use crate::bindings::types::{Exhausted, Outcome, ResourceKind, TrapKind};

/// Returns a policy whose memory limit has room for `pages` beyond the image. The limit includes an eighth for the
/// reserve, and 4 KiB for the host.
fn with_pages(pages: u64) -> types::Policy {
    let bytes = (1 + pages) * 65_536;
    limits(|limits| limits.memory_bytes = Some((bytes + 4_096).div_ceil(7) * 8))
}

#[test]
fn memory_grows_up_to_its_limit() {
    for (pages, grown) in [(19, true), (20, true), (21, false)] {
        let (_, sandbox) = closed_sandbox(with_pages(20));
        let execution = execute(&sandbox, &format!("grow {pages}\ngrow 0"));
        let expected = if grown { format!("1\n{}\n", 1 + pages) } else { "-1\n1\n".into() };
        assert_eq!(printed(&execution), expected, "{pages}");
    }
}

#[test]
fn refused_memory_growth_explains_exception_or_abort() {
    let (_, sandbox) = closed_sandbox(with_pages(20));
    for end in ["raise", "abort"] {
        let execution = execute(&sandbox, &format!("grow 1000\n{end}"));
        let Outcome::Exhausted(Exhausted { resource: ResourceKind::Memory, limit, used }) = execution.outcome else {
            panic!("{:?}", execution.outcome);
        };
        assert!(used > limit && used < limit + 1001 * 65_536, "{end}: {used}");
        assert!(matches!(execute(&sandbox, "raise").outcome, Outcome::Raised(_)), "no growth was refused");
    }
}

#[test]
fn impossible_memory_size_is_rejected() {
    let (_, sandbox) = closed_sandbox(limits(|limits| limits.memory_bytes = Some(4 << 30)));
    let execution = execute(&sandbox, "grow 65536\ngrow 4294967295\ngrow 3\ngrow 0");
    assert_eq!(printed(&execution), "-1\n-1\n1\n4\n");
}

#[test]
fn memory_growth_refused_by_the_host_fails() {
    let (fake, sandbox) = closed_sandbox(no_policy());
    fake.max_pages.set(3);
    assert_eq!(printed(&execute(&sandbox, "grow 2\ngrow 1\ngrow 0")), "1\n-1\n3\n");
    fake.max_pages.set(4);
    assert_eq!(printed(&execute(&sandbox, "grow 3\ngrow 0")), "1\n4\n");
}

#[test]
fn growth_reuses_memory_that_already_exists() {
    let (fake, sandbox) = closed_sandbox(no_policy());
    execute(&sandbox, "grow 9");
    assert_eq!(fake.real_memory(0).len(), 10 * 65_536);
    let execution = execute(&sandbox, "grow 2\ngrow 0");
    assert_eq!(printed(&execution), "1\n3\n");
    assert_eq!(execution.memory_used_bytes, 3 * 65_536 + 4, "output counts as used memory");
    assert_eq!(fake.real_memory(0).len(), 10 * 65_536);
}

#[test]
fn memory_access_ends_at_the_reported_size() {
    let (_, sandbox) = closed_sandbox(no_policy());
    execute(&sandbox, "grow 9");
    let mut guest = sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
    let memory = guest.machine.memory().clone();
    let mut bytes = [0; 2];
    for (at, fits) in [(65_533, true), (65_534, true), (65_535, false), (65_536, false), (u32::MAX, false)] {
        assert_eq!(memory.read(at, &mut bytes).is_ok(), fits, "{at}");
        assert_eq!(memory.write(at, &bytes).is_ok(), fits, "{at}");
    }
    assert!(memory.read(65_536, &mut []).is_ok(), "an empty read at the end");
    use glovebox_interpreters::{Callee, Machine, MachineError};
    assert!(matches!(guest.machine.read(65_535, &mut bytes), Err(MachineError::OutOfBounds(65_535))));
    assert!(matches!(guest.machine.call(Callee::Export("no"), &[]), Err(MachineError::Missing(_))));
    assert!(matches!(guest.machine.call(Callee::Table(0), &[]), Err(MachineError::Missing(_))));
    assert!(matches!(guest.machine.call(Callee::Table(1), &[]), Ok(None)));
    let many = [glovebox_interpreters::Value::I32(0); 9];
    assert!(matches!(guest.machine.call(Callee::Table(1), &many), Err(MachineError::Missing(_))));
}

#[test]
fn every_way_to_end_leaves_the_instance_usable() {
    let (_, sandbox) = closed_sandbox(no_policy());
    for (end, outcome) in [
        ("exit 3", Outcome::Exited(3)),
        ("leave 4", Outcome::Exited(4)),
        ("abort", Outcome::Trapped(TrapKind::Unreachable)),
        ("deep", Outcome::Trapped(TrapKind::StackOverflow)),
    ] {
        let execution = execute(&sandbox, &format!("print before\n{end}\nprint after"));
        assert_eq!((printed(&execution), &execution.outcome), ("before\n", &outcome));
        let next = execute(&sandbox, "print next");
        assert_eq!((printed(&next), &next.outcome), ("next\n", &Outcome::Completed), "{end}");
    }
}

fn exhausted(limit: u64) -> Outcome {
    Outcome::Exhausted(Exhausted { resource: ResourceKind::Fuel, limit, used: limit })
}

#[test]
fn execution_ends_when_all_fuel_is_used() {
    let (_, sandbox) = closed_sandbox(limits(|limits| limits.fuel = Some(100)));
    for (fuel, outcome, consumed) in [
        (99, Outcome::Completed, 99),
        (100, exhausted(100), 100),
        (101, exhausted(100), 100),
        (1_u64 << 40, exhausted(100), 100),
    ] {
        let execution = execute(&sandbox, &format!("burn {fuel}"));
        assert_eq!((execution.outcome, execution.fuel_consumed), (outcome, consumed), "{fuel}");
    }
    assert_eq!(execute(&sandbox, "print on").outcome, exhausted(100), "a call costs more than the limit");
    assert_eq!(execute(&sandbox, "").outcome, Outcome::Completed, "usable after");
}

#[test]
fn fuel_slices_do_not_change_the_cost() {
    let with_fuel = |fuel| limits(|limits| limits.fuel = Some(fuel));
    for (burn, limit) in [
        (1_999_999, 9_000_000),
        (2_000_000, 9_000_000),
        (2_000_001, 9_000_000),
        (8_999_999, 9_000_000),
        (9_000_000, 9_000_000),
    ] {
        // Burn in steps that end close to the ends of the slices.
        let script = format!("burn 1\nprint a\nburn {}\nburn 7", burn - 8);
        let (_, world) = closed_world();
        let clocks = FakeClocks::new(Duration::from_nanos(1));
        let open = World { clocks: Some(clocks), ..world.clone() };
        let fixed = |limit| types::Policy { clock: Some(types::Clock::Fixed(0)), ..with_fuel(limit) };
        let in_one = execute(&sandbox_in(&world, with_fuel(limit)).unwrap(), &script);
        let in_slices = execute(&sandbox_in(&open, fixed(limit)).unwrap(), &script);
        assert_eq!(in_one.fuel_consumed, in_slices.fuel_consumed);
        assert_eq!(in_one.outcome, in_slices.outcome);
    }
}

#[test]
fn waking_a_guest_costs_no_fuel() {
    let (_, sandbox) = closed_sandbox(limits(|limits| limits.fuel = Some(1)));
    let execution = execute(&sandbox, "");
    assert_eq!((execution.outcome, execution.fuel_consumed), (Outcome::Completed, 0));
}

#[test]
fn soft_stop_is_offered_without_repeatability() {
    let (_, world) = closed_world();
    let world = World { clocks: Some(FakeClocks::new(Duration::from_nanos(1))), ..world };
    let policy = limits(|limits| (limits.fuel, limits.fuel_reserve) = (Some(1_000_000), Some(50_000)));
    let execution = execute(&sandbox_in(&world, policy.clone()).unwrap(), "spin");
    assert_eq!((execution.outcome, execution.fuel_consumed), (exhausted(1_000_000), 1_000_000));
    assert_eq!(execution.interrupted.map(|raised| raised.type_name).as_deref(), Some("Stopped"));
    let policy = types::Policy { clock: Some(types::Clock::Fixed(0)), ..policy };
    let execution = execute(&sandbox_in(&world, policy).unwrap(), "spin");
    assert_eq!((execution.outcome, execution.interrupted), (exhausted(1_000_000), None));
}

#[test]
fn soft_stop_leaves_the_whole_fuel_reserve() {
    let (_, world) = closed_world();
    let world = World { clocks: Some(FakeClocks::new(Duration::from_nanos(1))), ..world };
    let policy = limits(|limits| (limits.fuel, limits.fuel_reserve) = (Some(1_000_000), Some(50_000)));
    let sandbox = sandbox_in(&world, policy).unwrap();
    for (burn, interruptions) in [(949_999, 0), (950_000, 0), (950_001, 1)] {
        // The script reads the soft-stop word itself, because the fuel counter is checked only when it is empty.
        let execution = execute(&sandbox, &format!("burn {burn}\nshow 256"));
        assert_eq!(printed(&execution), format!("{interruptions}\n"), "{burn}");
    }
}

fn open(step: Duration, policy: types::Policy) -> Sandbox {
    open_with(FakeClocks::new(step), policy)
}

fn open_with(clocks: Rc<FakeClocks>, policy: types::Policy) -> Sandbox {
    let (_, world) = closed_world();
    let world = World { clocks: Some(clocks), ..world };
    sandbox_in(&world, policy).unwrap()
}

/// Returns a policy with a timeout of 100 ms, of which 10 ms are reserved for the soft limit.
fn short() -> types::Policy {
    limits(|limits| limits.timeout_ms = Some(100))
}

fn is_out_of_time(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exhausted(Exhausted { resource: ResourceKind::Time, limit: 100, .. }))
}

#[test]
fn deadline_stops_a_computing_guest() {
    let sandbox = open(Duration::from_millis(1), short());
    let execution = execute(&sandbox, "spin");
    assert!(is_out_of_time(&execution.outcome), "{:?}", execution.outcome);
    assert!(execution.interrupted.is_some(), "the soft stop comes first");
    assert!((90_000_000..101_000_000).contains(&execution.duration_ns), "{}", execution.duration_ns);
    // This script ignores the soft stop.
    let execution = execute(&sandbox, &"burn 2000000\n".repeat(200));
    assert!(is_out_of_time(&execution.outcome) && execution.interrupted.is_none(), "{:?}", execution.outcome);
    assert_eq!(execute(&sandbox, "print on").outcome, Outcome::Completed, "usable after");
}

#[test]
fn deadline_stops_a_guest_that_makes_calls() {
    // Each call's charge is too small to trigger a clock check, and the work between two calls takes less than a slice.
    let source = "burn 1900000\nprint on\n".repeat(300);
    let in_time = types::Policy { clock: Some(types::Clock::Fixed(0)), ..short() };
    let execution = execute(&open(Duration::from_millis(1), in_time), &source);
    assert!(is_out_of_time(&execution.outcome), "{:?}", execution.outcome);
}

#[test]
fn deadline_wakes_a_sleeping_guest() {
    let sandbox = open(Duration::from_nanos(1), short());
    for (sleep, in_time) in [(89_000_000, true), (91_000_000, false), (u64::MAX, false)] {
        let execution = execute(&sandbox, &format!("sleep {sleep}"));
        assert_eq!(execution.outcome == Outcome::Completed, in_time, "{sleep}: {:?}", execution.outcome);
        assert!(execution.duration_ns < 101_000_000, "{}", execution.duration_ns);
        assert_eq!(execution.interrupted.is_some(), !in_time, "the soft stop interrupts the sleep");
    }
    let all = limits(|limits| (limits.timeout_ms, limits.timeout_reserve_ms) = (Some(100), Some(0)));
    let execution = execute(&open(Duration::from_nanos(1), all), "sleep 1000000000000");
    assert!(is_out_of_time(&execution.outcome) && execution.interrupted.is_none());
}

#[test]
fn deadline_of_a_request_cancels_the_execution() {
    let cancelled = |sandbox: &Sandbox, source: &str, deadline_ms| {
        let task = sandbox.task(types::Request { deadline_ms: Some(deadline_ms), ..request(source) }).unwrap();
        sandbox.execute(&task).unwrap().to_wit()
    };
    let sandbox = open(Duration::from_millis(1), short());
    let execution = cancelled(&sandbox, "spin", 20);
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(execution.interrupted.is_some());
    let execution = cancelled(&sandbox, &"burn 2000000\n".repeat(200), 20);
    assert_eq!((execution.outcome, execution.interrupted), (Outcome::Cancelled, None), "the grace period has passed");
    assert!(is_out_of_time(&cancelled(&sandbox, "spin", 100).outcome), "the timeout comes before the cancellation");
    let execution = cancelled(&sandbox, "print no", 0);
    assert_eq!((printed(&execution), &execution.outcome), ("", &Outcome::Cancelled));
    let sleeping = open(Duration::from_nanos(1), short());
    let execution = cancelled(&sleeping, "sleep 1000000000000", 20);
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(execution.duration_ns < 31_000_000, "{}", execution.duration_ns);
}

#[test]
fn each_fuel_slice_reads_the_clock_once() {
    // The clock is read when a slice is used up.
    let readings = |slices| {
        let clocks = FakeClocks::new(Duration::from_nanos(1));
        let execution = execute(&open_with(Rc::clone(&clocks), short()), &"burn 2000000\n".repeat(slices));
        assert_eq!(execution.outcome, Outcome::Completed);
        clocks.readings()
    };
    assert_eq!(readings(110) - readings(10), 100);
}

#[test]
fn host_clock_can_cancel_the_execution() {
    let cancelled = |source: &str, after_ms| {
        let clocks = FakeClocks::cancelling(Duration::from_millis(1), Some(Duration::from_millis(after_ms)));
        execute(&open_with(clocks, short()), source)
    };
    let execution = cancelled("spin", 20);
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(execution.interrupted.is_some(), "the soft stop comes first");
    assert!((20_000_000..31_000_000).contains(&execution.duration_ns), "{}", execution.duration_ns);
    let execution = cancelled(&"burn 2000000\n".repeat(200), 20);
    assert_eq!((execution.outcome, execution.interrupted), (Outcome::Cancelled, None), "the grace period has passed");
    let execution = cancelled("print no", 0);
    assert_eq!((printed(&execution), &execution.outcome), ("", &Outcome::Cancelled));
    assert_eq!(cancelled("print on", 1000).outcome, Outcome::Completed);
    assert!(is_out_of_time(&cancelled("spin", 1000).outcome), "the timeout comes before the cancellation");
}

#[test]
fn without_a_clock_only_fuel_bounds_time() {
    let policy = limits(|limits| (limits.timeout_ms, limits.fuel) = (Some(1), Some(50_000_000)));
    let (_, sandbox) = closed_sandbox(policy);
    let task = sandbox.task(types::Request { deadline_ms: Some(0), ..request("spin") }).unwrap();
    let execution = sandbox.execute(&task).unwrap().to_wit();
    let Outcome::Exhausted(Exhausted { resource: ResourceKind::Fuel, .. }) = execution.outcome else {
        panic!("{:?}", execution.outcome);
    };
    assert_eq!((execution.duration_ns, execution.interrupted), (0, None));
}
