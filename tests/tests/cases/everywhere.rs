//! Runs the cases in `cases/` that need no packages with the portable provider in other component hosts. A trial is
//! named `everywhere/wasmtime/python/hello`.
//!
//! Each host has a few processes. In each process, one instance of the case runner, composed with the provider, runs
//! case after case. Each trial runs its case with a fixed clock and seeded entropy, and the result must equal the
//! engine's, including fuel. Smoke cases and cases with an exception also run unchanged; in the full matrix, all cases
//! do. The only differences allowed are those in `everywhere::exceptions`, from which `docs/cases.md` is generated;
//! `BLESS=1` regenerates it.
//!
//! The trials `everywhere/wasmtime-0.3/…` do the same with version 0.3.0 of the provider, in one host. On a push, they run
//! the smoke cases.
//!
//! On every push, all cases run in one host, and the smoke cases run in the other hosts. The full matrix runs all cases
//! in all hosts. It also runs the Python cases with Python 3.15, in trials such as
//! `everywhere/wasmtime/python-3.15/hello`: all of them in one host, and the smoke cases in Node.js.

use std::{
    env, fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use glovebox_tests::{
    Backend, Case, EngineBackend, StepResult, cases_dir, check_case,
    compare::{comparable, depends_on_time},
    engine,
    everywhere::{
        Host, HostPool,
        exceptions::{DifferenceKind, Exception, expected, expected_of_concurrent, expected_of_large},
        page,
    },
    fixed, load_all_cases, missing_trial, whole_matrix,
};
use libtest_mimic::{Failed, Trial};

/// The host that runs all cases on every push: a third-party host.
const MAIN: Host = Host::Wasmtime;

/// The program that contains version 0.3.0 of the provider.
const CONCURRENT: &str = "everywhere-0.3";

/// A runtime with a large provider, the program that contains the provider, and the hosts for its cases: one for each
/// WebAssembly compiler.
const LARGE: (&str, &str, [Host; 2]) = ("python-3.15", "everywhere-python-3.15", [MAIN, Host::Node]);

pub(crate) fn trials(cases: &[Case]) -> Vec<Trial> {
    let runtimes = engine().runtimes().expect("the manifest can be read");
    let (mut trials, mut hosts) = (Vec::new(), Vec::new());
    for (host, hosted) in HostPool::all("everywhere") {
        match hosted {
            Ok(hosted) => hosts.push((host, hosted)),
            Err(line) => trials.push(missing_trial(format!("everywhere/{}", host.name()), line)),
        }
    }
    let concurrent = HostPool::of(MAIN, CONCURRENT);
    if let Err(line) = &concurrent {
        trials.push(missing_trial("everywhere/wasmtime-0.3", line.clone()));
    }
    // Providers are woven without packages.
    for case in cases.iter().filter(|case| !case.packages) {
        for runtime in runtimes.iter().filter(|runtime| runtime.default) {
            let Some(case) = case.on_runtime(&runtime.name) else { continue };
            let shared = Arc::new(Shared::new(case));
            // The innermost loop iterates over the hosts, so that they work in parallel.
            for (host, hosted) in hosts.iter().filter(|(host, _)| *host == MAIN || shared.case.smoke || whole_matrix())
            {
                let name = format!("everywhere/{}/{}/{}", host.name(), runtime.name, shared.case.name);
                let named = expected(*host, &shared.case);
                let (hosted, runtime, shared) = (hosted.clone(), runtime.name.clone(), Arc::clone(&shared));
                trials.push(Trial::test(name, move || show(named, &hosted, &runtime, &shared)));
            }
            if let Some(hosted) = concurrent.as_ref().ok().filter(|_| shared.case.smoke || whole_matrix()) {
                let name = format!("everywhere/wasmtime-0.3/{}/{}", runtime.name, shared.case.name);
                let named = expected_of_concurrent(MAIN, &shared.case);
                let (hosted, runtime) = (hosted.clone(), runtime.name.clone());
                trials.push(Trial::test(name, move || show(named, &hosted, &runtime, &shared)));
            }
        }
    }
    if whole_matrix() {
        trials.extend(large_trials());
    }
    let cases = cases.to_vec();
    trials.push(Trial::test("everywhere/page", move || page_is(&cases)));
    trials
}

/// Returns the Python trials with the large provider, including the cases for this runtime only. One host runs all
/// cases, the other the smoke cases.
fn large_trials() -> Vec<Trial> {
    let (runtime, program, hosts) = LARGE;
    let cases = load_all_cases(&cases_dir()).expect("the cases are well formed");
    let cases: Vec<Case> = cases.iter().filter_map(|case| case.on_runtime(runtime)).collect();
    let mut trials = Vec::new();
    for host in hosts {
        let hosted = match HostPool::of(host, program) {
            Ok(hosted) => hosted,
            Err(line) => {
                trials.push(missing_trial(format!("everywhere/{}/{runtime}", host.name()), line));
                continue;
            }
        };
        for case in cases.iter().filter(|case| !case.packages && (host == MAIN || case.smoke)) {
            let name = format!("everywhere/{}/{runtime}/{}", host.name(), case.name);
            let (hosted, shared) = (hosted.clone(), Shared::new(case.clone()));
            let named = expected_of_large(host, &shared.case);
            trials.push(Trial::test(name, move || show(named, &hosted, runtime, &shared)));
        }
    }
    trials
}

/// A case on one runtime, and the engine's result with a fixed clock and seeded entropy, which is computed only once.
struct Shared {
    case: Case,
    fixed: Case,
    engine: OnceLock<Vec<StepResult>>,
}

impl Shared {
    fn new(case: Case) -> Self {
        let mut with_fixed = case.clone();
        fixed(&mut with_fixed.policy);
        Self { case, fixed: with_fixed, engine: OnceLock::new() }
    }

    fn by_engine(&self, runtime: &str) -> &[StepResult] {
        self.engine.get_or_init(|| EngineBackend::of_runtime(runtime).without_packages().run(&self.fixed))
    }
}

/// Runs a case, which differs from the engine as `named` describes.
fn show(named: Option<&Exception>, hosted: &HostPool, runtime: &str, shared: &Shared) -> Result<(), Failed> {
    // `conformance` checks the engine's results. If the provider's results are equal, the unchanged case need not run.
    let as_it_is = (whole_matrix() || shared.case.smoke || named.is_some()).then_some(&shared.case);
    let cases: Vec<&Case> = as_it_is.into_iter().chain([&shared.fixed]).collect();
    let (mut answers, _) = hosted.run(runtime, &cases);
    let with_fixed = answers.pop().expect("each case has an answer");
    let differences = with_fixed.map_or_else(|broke| broke, |seen| differences(shared, runtime, &seen));
    let as_it_is = answers.pop().unwrap_or(Ok(Vec::new()));
    let wrong = match as_it_is {
        Ok(seen) if cases.len() == 2 => check_case(&shared.case, &seen),
        Ok(_) => String::new(),
        Err(broke) => broke,
    };
    let report = format!("{wrong}{differences}");
    match (named.map(|exception| exception.differs), wrong.is_empty(), differences.is_empty()) {
        (None, true, true)
        | (Some(DifferenceKind::Outcome), false, _)
        | (Some(DifferenceKind::Details), true, false) => Ok(()),
        (None, ..) => Err(Failed::from(report)),
        (Some(differs), ..) => Err(Failed::from(format!("it is named as one with other {differs:?}\n{report}"))),
    }
}

/// Describes how the results differ from the engine's, up to the first step that depends on timing.
fn differences(shared: &Shared, runtime: &str, results: &[StepResult]) -> String {
    let mut report = String::new();
    let case = &shared.fixed;
    for (step, (expected, seen)) in case.steps.iter().zip(shared.by_engine(runtime).iter().zip(results)) {
        let by_time = depends_on_time(case, step, expected) || depends_on_time(case, step, seen);
        let (one, other) = (comparable(expected, by_time), comparable(seen, by_time));
        if one != other {
            report += &format!("[fixed: {}] the engine gives\n{one:#?}\nthe provider\n{other:#?}\n", step.name);
        }
        if by_time {
            break;
        }
    }
    report
}

fn page_is(cases: &[Case]) -> Result<(), Failed> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cases.md");
    let page = page(cases);
    if env::var_os("BLESS").is_some_and(|set| set == "1") {
        fs::write(&file, &page)?;
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    if there == page { Ok(()) } else { Err("docs/cases.md is out of date; run with BLESS=1".into()) }
}
