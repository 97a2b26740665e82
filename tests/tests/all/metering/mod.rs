//! Tests that woven code counts exactly as much fuel as Wasmtime. The oracle is Wasmtime's own `consume_fuel`; both
//! versions of a module run in Wasmtime.
//!
//! Random modules are generated from a printed seed: `GLOVEBOX_FUZZ_SEED` repeats a run, `GLOVEBOX_FUZZ_RUNS` sets the
//! number of modules.

mod generate;
mod run;

use generate::Lengths;
use glovebox_tests::model::Dice;
use run::{GuestCallEnd, Meter, MeteredEngine};

/// The fuel budget of a random module, which ends an endless module quickly.
const MAX: u64 = 20_000;

/// The number of calls by outcome, as counted by Wasmtime.
#[derive(Default, Debug)]
struct Tally {
    modules: usize,
    refused: usize,
    calls: usize,
    returned: usize,
    out_of_fuel: usize,
    thrown: usize,
    trapped: usize,
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("`{name}` is a number")))
}

/// Compares random modules under many budgets, starting with the printed seed. All observable results must be equal.
fn compare(lengths: Lengths, modules: u64) -> Tally {
    let seed = setting("GLOVEBOX_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    let modules = setting("GLOVEBOX_FUZZ_RUNS").unwrap_or(modules);
    println!("GLOVEBOX_FUZZ_SEED={seed} GLOVEBOX_FUZZ_RUNS={modules}");
    let oracle = MeteredEngine::new(Meter::Wasmtime);
    // The whole budget in one slice, and slices so small that nearly every check calls the host.
    let woven = [i64::MAX / 2, 1, 97].map(|slice| MeteredEngine::new(Meter::Woven { slice }));
    let mut tally = Tally::default();
    for seed in seed..seed + modules {
        compare_one(seed, lengths, &oracle, &woven, &mut tally);
    }
    tally
}

fn compare_one(seed: u64, lengths: Lengths, oracle: &MeteredEngine, woven: &[MeteredEngine], tally: &mut Tally) {
    let text = generate::module(seed, lengths);
    let plain = wat::parse_str(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
    tally.modules += 1;
    let metered = match glovebox_weave::metered(&plain, glovebox_weave::Counter::Own) {
        Ok(metered) => metered,
        Err(error) if lengths == Lengths::Plain => panic!("seed {seed}: {error}\n{text}"),
        Err(_) => {
            tally.refused += 1;
            return;
        }
    };

    let compiled = oracle.compile(&plain);
    // A used instance behaves differently, so each budget starts with a new instance, which then runs again with plenty
    // of fuel.
    let first = &oracle.run(&compiled, &[MAX])[0];
    let mut dice = Dice::new(seed);
    let mut budgets: Vec<u64> = (0..8).map(|_| 1 + dice.roll() % MAX).collect();
    if let (GuestCallEnd::Returned(_), Some(total)) = (&first.end, first.used) {
        budgets.extend((1..=total.min(24)).chain(total.saturating_sub(12).max(1)..=total + 2));
        budgets.extend((0..8).map(|_| 1 + dice.roll() % total));
    } else {
        budgets.extend((0..24).map(|_| 1 + dice.roll() % 400));
    }
    budgets.push(MAX);
    for counting in woven {
        let module = counting.compile(&metered);
        for &budget in &budgets {
            let expected = oracle.run(&compiled, &[budget, MAX]);
            let seen = counting.run(&module, &[budget, MAX]);
            assert_eq!(expected, seen, "budget {budget} of seed {seed}\n{text}");
            tally.calls += 1;
            match expected[0].end {
                GuestCallEnd::Returned(_) => tally.returned += 1,
                GuestCallEnd::OutOfFuel => tally.out_of_fuel += 1,
                GuestCallEnd::Thrown => tally.thrown += 1,
                GuestCallEnd::Trapped(_) => tally.trapped += 1,
            }
        }
    }
}

#[test]
fn woven_metering_of_random_modules_equals_wasmtime() {
    let tally = compare(Lengths::Plain, 150);
    println!("{tally:?}");
    // Each kind of outcome must be frequent.
    assert!(tally.returned.min(tally.out_of_fuel).min(tally.trapped) > tally.calls / 20, "{tally:?}");
}

#[test]
fn folded_constants_are_counted_alike_or_rejected() {
    let tally = compare(Lengths::Hidden, 75);
    println!("{tally:?}");
    assert!(tally.refused < tally.modules, "{tally:?}");
}
