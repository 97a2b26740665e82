//! Runs every fuzz target on inputs generated from a printed seed.
//!
//! `GLOVEBOX_FUZZ_SEED` repeats a run, `GLOVEBOX_FUZZ_RUNS` makes it longer. For real fuzzing, see
//! `tests/fuzz/README.md`.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{SystemTime, UNIX_EPOCH},
};

use glovebox_tests::fuzz::{Numbers, TARGETS, Target};

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("`{name}` is a number")))
}

fn smoke(target: &Target) {
    let seed = setting("GLOVEBOX_FUZZ_SEED").unwrap_or_else(|| {
        u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() & u128::from(u64::MAX)).unwrap()
    });
    let runs = setting("GLOVEBOX_FUZZ_RUNS").unwrap_or(20_000);
    println!("{}: GLOVEBOX_FUZZ_SEED={seed} GLOVEBOX_FUZZ_RUNS={runs}", target.name);
    let mut numbers = Numbers::new(seed);
    let mut inputs = (target.seeds)();
    for run in 0..runs {
        let input = match inputs.get(usize::try_from(run).unwrap()) {
            // The seed inputs run first, unmodified.
            Some(input) => input.clone(),
            None if numbers.below(4) == 0 => numbers.bytes(512),
            None => {
                let base = inputs[numbers.below(inputs.len())].clone();
                numbers.mutate(&base)
            }
        };
        // Keeps some of the results as inputs, so that mutations accumulate.
        if inputs.len() < 64 && run > 16 && numbers.below(16) == 0 {
            inputs.push(input.clone());
        }
        if catch_unwind(AssertUnwindSafe(|| (target.body)(&input))).is_err() {
            panic!("`{}` fails in run {run} of seed {seed} on {input:?}", target.name);
        }
    }
}

#[test]
fn hibernated_sessions_survive_forgery() {
    smoke(&TARGETS[0]);
}

#[test]
fn manifest_survives_arbitrary_text() {
    smoke(&TARGETS[1]);
}

#[test]
fn path_resolution_stays_beneath_its_root() {
    smoke(&TARGETS[2]);
}

#[test]
fn saved_states_are_refused_or_sound() {
    smoke(&TARGETS[3]);
}

#[test]
fn snapshot_survives_arbitrary_modules() {
    smoke(&TARGETS[4]);
}

#[test]
fn suspended_executions_survive_forgery() {
    smoke(&TARGETS[5]);
}

#[test]
fn wasi_args_survive_arbitrary_calls() {
    smoke(&TARGETS[6]);
}

#[test]
fn every_target_has_its_program_and_its_smoke_run() {
    let names = ["hibernated", "manifest", "path_resolution", "saved_state", "snapshot", "suspended", "wasi_args"];
    assert_eq!(TARGETS.map(|target| target.name), names);
    for target in TARGETS {
        let path = format!("{}/fuzz/fuzz_targets/{}.rs", env!("CARGO_MANIFEST_DIR"), target.name);
        assert!(std::fs::exists(&path).unwrap(), "{path}");
    }
}
