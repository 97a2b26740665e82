//! Suspends random scripts. A script that is suspended and resumed in another sandbox must have the same outcome,
//! output, value, files, tool calls and fuel as without suspensions. Each script is also forked: the same bytes are
//! resumed twice with different answers, and each fork must equal an uninterrupted run with these answers.
//!
//! A seed determines each script, the answers to its calls and their order. Failures name the seed and print the
//! script. `GLOVEBOX_SUSPENDED_SEED=17` runs only that script, and `GLOVEBOX_SUSPENDED_SCRIPTS=10000` sets the number
//! of scripts.

mod script;

use std::{
    collections::BTreeMap,
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use glovebox::{
    Execution, FileKind, Language, Request, ResumeOptions, Sandbox, Session, Started, Step, Stream, Suspended,
    ToolAnswer, ToolRequest,
};
use glovebox_tests::{
    fixed,
    model::Dice,
    process::{child_task, run_child},
    short,
};
use serde::{Deserialize, Serialize};

use super::{BOTH, LONG, needs, of, stepped};
use script::{INPUT, reply, script};

/// The default number of scripts, half of them in each language.
const SCRIPTS: u64 = 200;

/// A random script and its environment.
struct Trial {
    language: Language,
    seed: u64,
    source: String,
    is_in_session: bool,
    /// `true` if the standard input is provided at the first read instead of in advance.
    is_input_late: bool,
    /// `true` if several calls are answered at once.
    answers_together: bool,
}

/// The waits at which an execution is suspended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Suspensions {
    Never,
    Always,
    /// At half of the waits.
    Sometimes,
}

/// The caller of a script, which answers its calls and suspends it.
#[derive(Clone)]
struct Caller {
    suspensions: Suspensions,
    /// Determines the answers, together with the arguments of the calls.
    seed: u64,
    order: Dice,
    chance: Dice,
    /// The number of waits so far.
    waits: usize,
    /// The output up to the last wait.
    written: [Vec<u8>; 2],
}

/// The parts of a script's result that suspensions must not change.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ComparedResult {
    outcome: String,
    stdout: String,
    stderr: String,
    value: Option<String>,
    fuel: u64,
    calls: Vec<String>,
    changes: [Vec<String>; 3],
    /// The text and modification time of each file.
    files: BTreeMap<String, (String, u64)>,
    /// The value of a script that runs in the session afterwards.
    afterwards: Option<String>,
}

/// A started execution, and the session in which it runs.
struct Run {
    started: Started,
    session: Option<Session>,
}

impl Trial {
    fn new(language: Language, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let is_in_session = dice.below(4) == 0;
        let [is_input_late, answers_together] = [(); 2].map(|()| dice.below(2) == 0);
        let source = script(&mut dice, language);
        Self { language, seed, source, is_in_session, is_input_late, answers_together }
    }

    fn with_input<'a>(&self, request: Request<'a>) -> Request<'a> {
        if self.is_input_late { request.stdin_from(|| INPUT.to_vec()) } else { request.stdin(INPUT) }
    }

    /// Runs the script in one of two equal sandboxes. Suspensions move it to the other one and back. Returns the result
    /// and the number of waits.
    fn run(&self, sandboxes: &[Sandbox; 2], suspensions: Suspensions) -> (ComparedResult, usize) {
        let mut caller = Caller::new(self.seed, suspensions);
        let run = Run::start(&sandboxes[0], self, suspensions != Suspensions::Never);
        let (result, _) = self.advance(sandboxes, run, &mut caller, usize::MAX);
        (result.unwrap(), caller.waits)
    }

    /// Continues an execution until it has ended, or until its caller has waited `until` times. Returns the result of an
    /// execution that has ended.
    fn advance(
        &self,
        sandboxes: &[Sandbox; 2],
        mut run: Run,
        caller: &mut Caller,
        until: usize,
    ) -> (Option<ComparedResult>, Run) {
        let mut answers = Vec::new();
        loop {
            let calls = match run.started.advance(answers, Some(LONG)).unwrap() {
                Step::Done(execution) => {
                    assert!(execution.stdout.bytes.starts_with(&caller.written[0]), "earlier output is different");
                    assert!(execution.stderr.bytes.starts_with(&caller.written[1]), "earlier output is different");
                    let result = ComparedResult::of(&execution, self.language, run.session.as_ref());
                    return (Some(result), run);
                }
                Step::NeedsTools(calls) => calls,
                Step::Running => panic!("the script neither ends nor waits"),
            };
            caller.waits += 1;
            let now = run.written();
            assert!(
                now.iter().zip(&caller.written).all(|(now, before)| now.starts_with(before)),
                "earlier output is different"
            );
            caller.written = now;
            if caller.waits == until {
                return (None, run);
            }
            if caller.suspends() {
                let bytes = run.suspend();
                run = Run::resume(&sandboxes[caller.waits % 2], self, &bytes);
                assert_eq!(needs(&run.started, Vec::new()), calls, "the calls are different");
                assert_eq!(run.written(), caller.written, "the repeated output is different");
            }
            answers = self.answers(caller, calls);
        }
    }

    /// Answers one or more random calls in random order.
    fn answers(&self, caller: &mut Caller, mut calls: Vec<ToolRequest>) -> Vec<ToolAnswer> {
        let Caller { order, seed, .. } = caller;
        let count = if self.answers_together { 1 + order.below(calls.len()) } else { 1 };
        (0..count).map(|_| reply(*seed, &calls.remove(order.below(calls.len())))).collect()
    }

    /// Suspends the script at one of its `waits`, and resumes the same bytes twice: with the answers that led to
    /// `expected`, and with other answers. Compares both forks with uninterrupted runs. Returns `true` if the answers
    /// have changed the result.
    fn check_forks(&self, sandboxes: &[Sandbox; 2], expected: &ComparedResult, waits: usize) -> bool {
        let at = 1 + Dice::new(self.seed.rotate_left(32)).below(waits);
        let mut before = Caller::new(self.seed, Suspensions::Never);
        let run = Run::start(&sandboxes[0], self, true);
        let (_, run) = self.advance(sandboxes, run, &mut before, at);
        let bytes = run.suspend();
        let calls = Suspended::from_bytes(&bytes, None).unwrap().tool_requests();
        let is_different = |seed: &u64| calls.iter().all(|call| reply(*seed, call) != reply(self.seed, call));
        let seed = (1..1_000).map(|number: u64| self.seed ^ (number << 32)).find(is_different).unwrap();

        let mut other = Caller::new(self.seed, Suspensions::Never);
        let run = Run::start(&sandboxes[1], self, false);
        let (_, run) = self.advance(sandboxes, run, &mut other, at);
        other.seed = seed;
        let other = self.advance(sandboxes, run, &mut other, usize::MAX).0.unwrap();

        // Both forks wait before the first one continues.
        let forks = sandboxes.each_ref().map(|sandbox| Run::resume(sandbox, self, &bytes));
        for (fork, (seed, expected)) in forks.into_iter().zip([(self.seed, expected), (seed, &other)]) {
            let mut caller = Caller { seed, suspensions: Suspensions::Sometimes, ..before.clone() };
            let observed = self.advance(sandboxes, fork, &mut caller, usize::MAX).0.unwrap();
            assert_eq!(observed, *expected, "the fork at wait {at} with the answers of seed {seed}");
        }
        *expected != other
    }

    /// Compares executions with and without suspensions, and forks. Returns the number of waits, and `true` if the
    /// forks have different results.
    fn check(&self, repeatable: &[Sandbox; 2], random: &[Sandbox; 2]) -> (usize, bool) {
        let (expected, waits) = self.run(repeatable, Suspensions::Never);
        let (observed, suspensions) = self.run(repeatable, Suspensions::Always);
        assert_eq!(observed, expected);
        assert_eq!(suspensions, waits);
        // With the host's clock and random numbers, the journal also contains times and random values. They differ in
        // each run, so compare only the parts of the result that do not contain them.
        let (observed, _) = self.run(random, Suspensions::Sometimes);
        assert_eq!(first_word(&observed.outcome), first_word(&expected.outcome));
        assert_eq!(observed.changes, expected.changes);
        (waits, waits > 0 && self.check_forks(repeatable, &expected, waits))
    }
}

impl Caller {
    fn new(seed: u64, suspensions: Suspensions) -> Self {
        let (order, chance) = (Dice::new(seed), Dice::new(!seed));
        Self { suspensions, seed, order, chance, waits: 0, written: [Vec::new(), Vec::new()] }
    }

    /// Returns `true` if the caller suspends the execution at this wait.
    fn suspends(&mut self) -> bool {
        match self.suspensions {
            Suspensions::Never => false,
            Suspensions::Always => true,
            Suspensions::Sometimes => self.chance.below(2) == 0,
        }
    }
}

/// Returns the kind of an outcome, without the numbers that it contains.
fn first_word(outcome: &str) -> &str {
    outcome.split(' ').next().unwrap_or_default()
}

impl Run {
    fn start(sandbox: &Sandbox, trial: &Trial, is_suspendable: bool) -> Self {
        let session = trial.is_in_session.then(|| {
            let session = sandbox.session().unwrap();
            let first = of(trial.language, "import random\nrandom.random()", "Math.random()");
            assert!(session.execute(first).unwrap().is_success());
            session
        });
        let request = Request::new(&trial.source).value(true).suspendable(is_suspendable);
        Self::begin(sandbox, session, trial.with_input(request))
    }

    fn begin(sandbox: &Sandbox, session: Option<Session>, request: Request<'_>) -> Self {
        let started = match &session {
            Some(session) => session.start(request),
            None => sandbox.start(request),
        };
        Self { started: started.unwrap(), session }
    }

    fn suspend(self) -> Vec<u8> {
        self.started.suspend().unwrap().to_bytes(None)
    }

    fn resume(sandbox: &Sandbox, trial: &Trial, bytes: &[u8]) -> Self {
        let suspended = Suspended::from_bytes(bytes, None).unwrap();
        assert_eq!(suspended.is_in_session(), trial.is_in_session);
        let restore = || sandbox.resume_suspended_session(&suspended, ResumeOptions::default()).unwrap();
        let session = trial.is_in_session.then(restore);
        let request = suspended.request();
        Self::begin(sandbox, session, if trial.is_input_late { trial.with_input(request) } else { request })
    }

    fn written(&self) -> [Vec<u8>; 2] {
        [Stream::Stdout, Stream::Stderr].map(|stream| self.started.read_output(stream, 0, u64::MAX))
    }
}

impl ComparedResult {
    fn of(execution: &Execution, language: Language, session: Option<&Session>) -> Self {
        let repr = |execution: &Execution| execution.value.as_ref().map(|value| value.repr.clone());
        let calls = execution.tool_calls.iter();
        let files = execution.files();
        let mut listed = files.list("**").unwrap();
        listed.retain(|entry| entry.kind == FileKind::File);
        let held = |path: &str| String::from_utf8(files.read(path).unwrap()).unwrap();
        let afterwards = session.map(|session| {
            let source = of(language, "len(seen), random.random()", "[seen.length, Math.random()]");
            let later = session.execute(source).unwrap();
            repr(&later).unwrap_or_else(|| panic!("{:?} {}", later.outcome, later.stderr.text()))
        });
        Self {
            outcome: format!("{} {:?}", short(&execution.outcome), execution.outcome),
            stdout: execution.stdout.text(),
            stderr: execution.stderr.text(),
            value: repr(execution),
            fuel: execution.fuel_consumed,
            calls: calls.map(|call| format!("{} {:?} {:?}", call.name, call.arguments, call.outcome)).collect(),
            changes: [&execution.files_created, &execution.files_modified, &execution.files_deleted].map(Clone::clone),
            files: listed.iter().map(|entry| (entry.path.clone(), (held(&entry.path), entry.modified_ns))).collect(),
            afterwards,
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("`{name}` is a number")))
}

fn check_all(language: Language) {
    let repeatable = [(); 2].map(|()| stepped(language, &[], fixed));
    let random = [(); 2].map(|()| stepped(language, &[], |_| {}));
    let count = setting("GLOVEBOX_SUSPENDED_SCRIPTS").unwrap_or(SCRIPTS) / 2;
    let only = setting("GLOVEBOX_SUSPENDED_SEED");
    let (mut waits, mut different_forks) = (0, 0);
    for seed in only.map_or(0..count, |seed| seed..seed + 1) {
        let trial = Trial::new(language, seed);
        match catch_unwind(AssertUnwindSafe(|| trial.check(&repeatable, &random))) {
            Ok((more, is_different)) => {
                waits += more as u64;
                different_forks += u64::from(is_different);
            }
            Err(_) => panic!("{language}, GLOVEBOX_SUSPENDED_SEED={seed}:\n{}", trial.source),
        }
    }
    println!("{language}: {waits} suspensions, {different_forks} scripts with different forks");
    assert!(only.is_some() || waits > count, "the scripts make too few calls: {waits}");
    assert!(only.is_some() || different_forks > count / 4, "too few answers matter: {different_forks}");
}

#[test]
fn random_python_scripts_behave_alike_with_suspensions() {
    check_all(Language::Python);
}

#[test]
fn random_javascript_scripts_behave_alike_with_suspensions() {
    check_all(Language::JavaScript);
}

#[test]
fn script_continues_in_other_processes() {
    const TEST: &str = "stepping::suspending_random::script_continues_in_other_processes";
    if let Some(task) = child_task() {
        return continue_in_child(&task);
    }
    for language in BOTH {
        let sandboxes = [(); 2].map(|()| stepped(language, &[], fixed));
        for is_in_session in [false, true] {
            let of_this_kind = |trial: &Trial| trial.is_in_session == is_in_session && !trial.answers_together;
            let mut trials = (0..).map(|seed| Trial::new(language, seed)).filter(of_this_kind);
            let (trial, expected, waits) = trials
                .find_map(|trial| {
                    let (expected, waits) = trial.run(&sandboxes, Suspensions::Never);
                    (2..=4).contains(&waits).then_some((trial, expected, waits))
                })
                .unwrap();
            let dir = tempfile::tempdir().unwrap();
            let run = Run::start(&sandboxes[0], &trial, true);
            needs(&run.started, Vec::new());
            fs::write(dir.path().join("suspended"), run.suspend()).unwrap();
            for wait in 0..waits {
                let task = format!("{language} {} {wait} {}", trial.seed, dir.path().display());
                let child = run_child(TEST, &task, LONG);
                let printed = String::from_utf8_lossy(&child.stdout);
                let has_passed = printed.contains("test result: ok. 1 passed;");
                assert!(has_passed, "{printed}{}\n{}", String::from_utf8_lossy(&child.stderr), trial.source);
            }
            let observed = fs::read(dir.path().join("observed")).unwrap();
            let observed: ComparedResult = serde_json::from_slice(&observed).unwrap();
            assert_eq!(observed, expected, "{language}, seed {}:\n{}", trial.seed, trial.source);
        }
    }
}

/// Resumes the execution that the parent process or an earlier child has suspended, and answers one call. Suspends the
/// execution again, or writes its result.
fn continue_in_child(task: &str) {
    let [language, seed, wait, dir] = task.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let language = BOTH.into_iter().find(|known| known.to_string() == language).unwrap();
    let (trial, dir) = (Trial::new(language, seed.parse().unwrap()), Path::new(dir));
    let mut caller = Caller::new(trial.seed, Suspensions::Always);
    // Every earlier process has answered one call, and drawn one number for it.
    for _ in 0..wait.parse::<usize>().unwrap() {
        caller.order.roll();
    }
    let sandbox = stepped(language, &[], fixed);
    let run = Run::resume(&sandbox, &trial, &fs::read(dir.join("suspended")).unwrap());
    let calls = needs(&run.started, Vec::new());
    match run.started.advance(trial.answers(&mut caller, calls), Some(LONG)).unwrap() {
        Step::NeedsTools(_) => fs::write(dir.join("suspended"), run.suspend()).unwrap(),
        Step::Done(execution) => {
            let observed = ComparedResult::of(&execution, language, run.session.as_ref());
            fs::write(dir.join("observed"), serde_json::to_vec(&observed).unwrap()).unwrap();
        }
        Step::Running => panic!("the script neither ends nor waits"),
    }
}
