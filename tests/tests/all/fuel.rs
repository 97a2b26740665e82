//! Tests that fuel use is reproducible to the unit, is exact at the limit, and matches the golden files.

use std::{collections::BTreeSet, thread};

use glovebox::{Language, Outcome, Resource, Sandbox};
use glovebox_tests::{
    Backend, EngineBackend, Goldens, StepResult, cases_dir, fixed, load_cases, lone_engine, sandbox, sandbox_on, short,
};

/// Scripts whose fuel could vary between runs: they use hashes, time, randomness, files, exceptions and promises.
const SCRIPTS: [(Language, &str); 6] = [
    (Language::Python, "print(1)"),
    (
        Language::Python,
        "import random, time, os\nprint({str(i) for i in range(50)}, random.random(), time.time(), os.urandom(4))\nopen('f', 'w').write('x' * 5000)\ntime.sleep(1)",
    ),
    (
        Language::Python,
        "import json\ntry:\n    {}['k']\nexcept KeyError as e:\n    print(json.dumps({'e': repr(e), 'id': id(e) % 8}))\nraise ValueError(object())",
    ),
    (Language::JavaScript, "console.log(1)"),
    (
        Language::JavaScript,
        "console.log(Math.random(), Date.now(), {a: [1, {b: 2}]}); std.open('f', 'w').puts('x'.repeat(5000))",
    ),
    (
        Language::JavaScript,
        "setTimeout(() => { throw new Error(String(performance.now())) }, 1000); await Promise.resolve(1)",
    ),
];

fn twenty(sandbox: &Sandbox, source: &str) -> BTreeSet<u64> {
    (0..20).map(|_| sandbox.execute(source).unwrap().fuel_consumed).collect()
}

#[test]
fn same_script_costs_exactly_the_same_fuel() {
    for (language, source) in SCRIPTS {
        let mut seen = twenty(&sandbox(language, fixed), source);
        // Repeats the execution on new engines without a pool.
        seen.extend(
            (0..3).map(|_| sandbox_on(&lone_engine(None), language, fixed).execute(source).unwrap().fuel_consumed),
        );
        // Repeats the execution on concurrent threads.
        let shared = sandbox(language, fixed);
        thread::scope(|scope| {
            let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| twenty(&shared, source))).collect();
            seen.extend(runs.into_iter().flat_map(|run| run.join().unwrap()));
        });
        assert_eq!(seen.len(), 1, "{language} {source:?} cost {seen:?}");
    }
}

#[test]
fn output_repeats_under_fixed_clock_and_seeded_entropy() {
    for (language, source) in SCRIPTS {
        let sandbox = sandbox(language, fixed);
        let seen: BTreeSet<_> = (0..5)
            .map(|_| sandbox.execute(source).unwrap())
            .map(|run| (run.stdout.text(), run.stderr.text()))
            .collect();
        assert_eq!(seen.len(), 1, "{language} {source:?}");
    }
}

#[test]
fn host_entropy_differs_between_fresh_runs() {
    let scripts = [
        (Language::Python, "import random, os, uuid\nprint(random.random(), os.urandom(8), uuid.uuid4())"),
        (Language::JavaScript, "console.log(Math.random())"),
    ];
    for (language, source) in scripts {
        let sandbox = sandbox(language, |_| {});
        let seen: BTreeSet<_> = (0..20).map(|_| sandbox.execute(source).unwrap().stdout.text()).collect();
        assert_eq!(seen.len(), 20, "{language}");
    }
}

#[test]
fn boot_costs_the_script_no_fuel() {
    for (language, source) in [(Language::Python, "pass"), (Language::JavaScript, "")] {
        let fuel = sandbox(language, fixed).execute(source).unwrap().fuel_consumed;
        assert!(fuel < 2_000_000, "{language}: {fuel}");
    }
}

#[test]
fn fuel_grows_with_the_work() {
    for (language, source) in
        [(Language::Python, "for i in range(N): pass"), (Language::JavaScript, "for (let i = 0; i < N; i++);")]
    {
        let sandbox = sandbox(language, fixed);
        let cost = |n: &str| sandbox.execute(&source.replace('N', n)).unwrap().fuel_consumed;
        let (one, two, three) = (cost("1000"), cost("2000"), cost("3000"));
        let (step, again) = (two - one, three - two);
        assert!(step > 5_000, "{language}: a thousand rounds cost {step}");
        assert!(step.abs_diff(again) * 50 < step, "{language}: the second thousand cost {again}, the first {step}");
    }
}

#[test]
fn fuel_budget_is_exact() {
    for (language, source) in [
        (Language::Python, "print(sum(range(100)))"),
        (Language::JavaScript, "console.log([...Array(100).keys()].reduce((a, b) => a + b))"),
    ] {
        let with = |fuel: u64| {
            sandbox(language, |policy| {
                fixed(policy);
                policy.limits.fuel = fuel;
            })
            .execute(source)
            .unwrap()
        };
        let needed = with(1_000_000_000).fuel_consumed;
        let enough = with(needed);
        assert_eq!((short(&enough.outcome).as_str(), enough.fuel_consumed), ("completed", needed), "{language}");
        // Fuel is only checked at function entries and loop headers, so the last few operators are unchecked.
        for budget in [needed - 500, needed / 2, 1] {
            let short_of_it = with(budget);
            let expected = Outcome::Exhausted { resource: Resource::Fuel, limit: budget, used: budget };
            assert_eq!(short_of_it.outcome, expected, "{language}: {budget} of {needed}");
            assert_eq!(short_of_it.fuel_consumed, budget);
        }
    }
}

#[test]
fn first_and_second_call_cost_the_same() {
    let scripts = [
        (Language::Python, "print(1)"),
        (Language::Python, "raise ValueError('x')"),
        (Language::Python, "x = = 1"),
        (Language::Python, "import sys\nsys.exit(3)"),
        (Language::Python, "open('f', 'w').write('x')"),
        (Language::JavaScript, "console.log(1)"),
        (Language::JavaScript, "console.log({a: [1, 2]})"),
        (Language::JavaScript, "throw new TypeError('x')"),
        (Language::JavaScript, "let = = 1"),
        (Language::JavaScript, "await null"),
    ];
    for (language, source) in scripts {
        let session = sandbox(language, fixed).session().unwrap();
        let costs: Vec<u64> = (0..3).map(|_| session.execute(source).unwrap().fuel_consumed).collect();
        // A hash table that grows once costs a few hundred units. The fuel of a JavaScript error alternates between two
        // values for an unknown reason; they differ by 3.5 to 5.3 %, depending on the boot code.
        assert!(costs[0].abs_diff(costs[1]) <= (costs[1] / 15).max(2_000), "{language} {source:?}: {costs:?}");
    }
}

#[test]
fn fuel_goldens() {
    let mut goldens = Goldens::open("fuel.toml");
    let backend = EngineBackend::default();
    for mut case in load_cases(&cases_dir()).unwrap().into_iter().filter(|case| case.golden) {
        fixed(&mut case.policy);
        match backend.run(&case).as_slice() {
            [StepResult::Executed { observed, .. }] => {
                goldens.see(&format!("{}/{}", case.language, case.name), observed.fuel_consumed)
            }
            other => panic!("{}: a golden is for a case of one execution, not {other:?}", case.name),
        }
    }
    let heading = "# Fuel of the cases marked `golden`, under a fixed clock and seed 7. Tolerance: 2%. Written by `BLESS=1 cargo test --workspace --test all fuel::`.";
    let wrong = goldens.finish(heading, 0.02);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
