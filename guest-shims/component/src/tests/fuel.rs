use super::fake::FakeClocks;
use super::*;
use crate::bindings::types::{Exhausted, Outcome, ResourceKind};

fn exhausted(limit: u64) -> Outcome {
    Outcome::Exhausted(Exhausted { resource: ResourceKind::Fuel, limit, used: limit })
}

#[test]
fn fuel_is_out_when_all_of_it_is_used() {
    let (_, sandbox) = closed(limits(|limits| limits.fuel = Some(100)));
    for (fuel, outcome, consumed) in [
        (99, Outcome::Completed, 99),
        (100, exhausted(100), 100),
        (101, exhausted(100), 100),
        (1_u64 << 40, exhausted(100), 100),
    ] {
        let execution = execute(&sandbox, &format!("burn {fuel}"));
        assert_eq!((execution.outcome, execution.fuel_consumed), (outcome, consumed), "{fuel}");
    }
    assert_eq!(execute(&sandbox, "print on").outcome, exhausted(100), "a call costs more than that");
    assert_eq!(execute(&sandbox, "").outcome, Outcome::Completed, "usable after");
}

#[test]
fn slices_of_fuel_make_no_difference() {
    let asked = |fuel| limits(|limits| limits.fuel = Some(fuel));
    for (burn, limit) in [
        (1_999_999, 9_000_000),
        (2_000_000, 9_000_000),
        (2_000_001, 9_000_000),
        (8_999_999, 9_000_000),
        (9_000_000, 9_000_000),
    ] {
        // In pieces that end next to the slices.
        let script = format!("burn 1\nprint a\nburn {}\nburn 7", burn - 8);
        let (_, world) = closed_world();
        let clocks = FakeClocks::new(std::time::Duration::from_nanos(1));
        let open = World { clocks: Some(clocks), ..world.clone() };
        let fixed = |limit| types::Policy { clock: Some(types::Clock::Fixed(0)), ..asked(limit) };
        let in_one = execute(&sandbox_in(&world, asked(limit)).unwrap(), &script);
        let in_slices = execute(&sandbox_in(&open, fixed(limit)).unwrap(), &script);
        assert_eq!(in_one.fuel_consumed, in_slices.fuel_consumed);
        assert_eq!(in_one.outcome, in_slices.outcome);
    }
}

#[test]
fn waking_up_is_on_no_bill() {
    let (_, sandbox) = closed(limits(|limits| limits.fuel = Some(1)));
    let execution = execute(&sandbox, "");
    assert_eq!((execution.outcome, execution.fuel_consumed), (Outcome::Completed, 0));
}

#[test]
fn a_script_has_a_last_word_where_nothing_is_repeatable() {
    let (_, world) = closed_world();
    let world = World { clocks: Some(FakeClocks::new(std::time::Duration::from_nanos(1))), ..world };
    let policy = limits(|limits| (limits.fuel, limits.fuel_reserve) = (Some(1_000_000), Some(50_000)));
    let execution = execute(&sandbox_in(&world, policy.clone()).unwrap(), "spin");
    assert_eq!((execution.outcome, execution.fuel_consumed), (exhausted(1_000_000), 1_000_000));
    assert_eq!(execution.interrupted.map(|raised| raised.type_name).as_deref(), Some("Stopped"));
    let policy = types::Policy { clock: Some(types::Clock::Fixed(0)), ..policy };
    let execution = execute(&sandbox_in(&world, policy).unwrap(), "spin");
    assert_eq!((execution.outcome, execution.interrupted), (exhausted(1_000_000), None));
}

#[test]
fn one_that_is_asked_at_its_reserve_has_all_of_it_left() {
    let (_, world) = closed_world();
    let world = World { clocks: Some(FakeClocks::new(std::time::Duration::from_nanos(1))), ..world };
    let policy = limits(|limits| (limits.fuel, limits.fuel_reserve) = (Some(1_000_000), Some(50_000)));
    let sandbox = sandbox_in(&world, policy).unwrap();
    for (burn, asked) in [(949_999, 0), (950_000, 0), (950_001, 1)] {
        // The guest reads the word itself. A counter is only checked when it is empty.
        let execution = execute(&sandbox, &format!("burn {burn}\nshow 256"));
        assert_eq!(printed(&execution), format!("{asked}\n"), "{burn}");
    }
}
