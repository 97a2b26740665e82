//! Every case in `cases/` with the portable provider, in other hosts of components: trials `wasmtime/python/hello` and so on.
//!
//! A host has one process, in which one instance of the case runner, composed with the provider, runs case after case. Each is run as it
//! says, and under a fixed clock and seeded entropy, where all must be what the engine gives, fuel to the unit. What differs is in
//! `everywhere::exceptions`, neither more nor less, of which `docs/cases.md` is made; `BLESS=1` makes that anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program: a panic is a failed test")]

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use glovebox_tests::{
    Backend, Case, EngineBackend, StepResult, cases_dir, check,
    compare::{comparable, depends_on_time, with_files_written},
    engine,
    everywhere::{
        Host, Hosted,
        exceptions::{Differs, expected},
        page, run_here,
    },
    fixed, load_cases, process, trial_with,
};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    if let Some(program) = process::child_task().as_deref().and_then(|task| task.strip_prefix("run ")) {
        run_here(program).expect("the program runs");
        return ExitCode::SUCCESS;
    }
    let args = Arguments::from_args();
    let mut cases = load_cases(&cases_dir()).expect("the cases are well formed");
    cases.retain(Case::is_of_the_contract);
    let runtimes = engine().runtimes().expect("the manifest is read");
    let hosts = Hosted::all("everywhere");
    let mut trials = Vec::new();
    // Providers are woven without packages.
    for case in cases.iter().filter(|case| !case.packages) {
        let shared = Arc::new(Shared::new(case));
        // Case by case, so that the hosts work side by side.
        for (host, hosted) in &hosts {
            for runtime in runtimes.iter().filter(|runtime| runtime.default && runtime.language == case.language) {
                let name = format!("{}/{}/{}", host.name(), runtime.name, case.name);
                let (host, runtime, shared) = (*host, runtime.name.clone(), Arc::clone(&shared));
                trials.push(trial_with(name, hosted.clone(), move |hosted| show(host, &hosted, &runtime, &shared)));
            }
        }
    }
    trials.push(Trial::test("page", move || page_is(&cases)));
    libtest_mimic::run(&args, trials).exit_code()
}

/// A case, and what the engine gives for it under a fixed clock and seeded entropy, which is asked once per runtime.
struct Shared {
    case: Case,
    fixed: Case,
    engine: Mutex<BTreeMap<String, Arc<OnceLock<Vec<StepResult>>>>>,
}

impl Shared {
    fn new(case: &Case) -> Self {
        let case = with_files_written(case.clone());
        let mut with_fixed = case.clone();
        fixed(&mut with_fixed.policy);
        Self { case, fixed: with_fixed, engine: Mutex::default() }
    }

    fn by_engine(&self, runtime: &str) -> Vec<StepResult> {
        let cell = {
            let mut results = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(results.entry(runtime.to_owned()).or_default())
        };
        cell.get_or_init(|| EngineBackend::of_runtime(runtime).without_packages().run(&self.fixed)).clone()
    }
}

fn show(host: Host, hosted: &Hosted, runtime: &str, shared: &Shared) -> Result<(), Failed> {
    let (mut answers, _) = hosted.run(runtime, &[&shared.case, &shared.fixed]);
    let (with_fixed, as_it_is) = (answers.remove(1), answers.remove(0));
    let wrong = as_it_is.map_or_else(|broke| broke, |seen| wrong(&shared.case, &seen));
    let differences = with_fixed.map_or_else(|broke| broke, |seen| differences(shared, runtime, &seen));
    let report = format!("{wrong}{differences}");
    let named = expected(host, &shared.case);
    match (named.map(|exception| exception.differs), wrong.is_empty(), differences.is_empty()) {
        (None, true, true) | (Some(Differs::Outcome), false, _) | (Some(Differs::Figures), true, false) => Ok(()),
        (None, ..) => Err(Failed::from(report)),
        (Some(differs), ..) => Err(Failed::from(format!("it is named as one with other {differs:?}\n{report}"))),
    }
}

/// What is not as the case says.
fn wrong(case: &Case, results: &[StepResult]) -> String {
    let mut report = String::new();
    for (step, result) in case.steps.iter().zip(results) {
        for wrong in check(&step.expect, result, case.language) {
            report += &format!("[{}] {wrong}\n", step.name);
        }
    }
    if results.len() != case.steps.len() {
        report += &format!("{} steps gave {} results\n", case.steps.len(), results.len());
    }
    report
}

/// What is not as the engine gives it, up to the first step that depends on when things happened.
fn differences(shared: &Shared, runtime: &str, results: &[StepResult]) -> String {
    let mut report = String::new();
    let case = &shared.fixed;
    for (step, (expected, seen)) in case.steps.iter().zip(shared.by_engine(runtime).iter().zip(results)) {
        let by_time = depends_on_time(case, expected) || depends_on_time(case, seen);
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
    if there == page { Ok(()) } else { Err("docs/cases.md is not what the table says; BLESS=1 makes it anew".into()) }
}
