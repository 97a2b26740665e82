//! Version 0.3.0 of the contract: the scenarios of the program `concurrent`, in a host with a single thread.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Barrier, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox::{Language, Policy, Request, Sandbox, Tool};
use glovebox_component_host::{
    LIFT_BYTES, Quotas, SandboxCtx, SandboxHost, SandboxHostBuilder, Usage, add_to_linker_concurrent,
};
use glovebox_tests::{
    Case, engine,
    process::{self, peak_resident_bytes},
    program_path, program_trial, trial_with,
};
use libtest_mimic::{Failed, Trial};
use serde_json::json;
use wasmtime::{
    Engine, Store,
    component::{Component, InstancePre, Linker},
};

/// A timeout that no scenario reaches, even on a slow machine.
const LONG: Duration = Duration::from_secs(120);

/// Maximum time until a cancelled script has ended; less than the policy's timeout.
const ENDS: Duration = Duration::from_secs(30);

/// A scenario and its expected result.
struct Scenario {
    name: &'static str,
    expected: &'static str,
    host: fn(&mut Policy, &mut Quotas),
}

const fn scenario(name: &'static str, expected: &'static str) -> Scenario {
    Scenario { name, expected, host: |_, _| {} }
}

const SCENARIOS: [Scenario; 17] = [
    scenario("validate", "1 0"),
    scenario("several", "0 1 2 3 4 5 6 7 8 9 "),
    scenario("live", "before\nask {\"question\":\"?\"}\nafter\nwrong\n"),
    scenario("answers", "2 1 not now "),
    scenario("wrong-answers", "1\n"),
    scenario("cancel", "Outcome::Cancelled"),
    scenario("drop-calls", "Outcome::Completed"),
    scenario("unread", "1000000"),
    scenario("halfway", "1000000 Outcome::Cancelled"),
    scenario("cancelled-read", "whole\n"),
    scenario("drop-started", "begun\n"),
    scenario("finish-twice", "Outcome::Completed"),
    scenario("many-answers", "50\n"),
    Scenario { name: "too-many-calls", expected: "4 6", host: |_, quotas| quotas.started = 4 },
    Scenario { name: "too-many-streams", expected: "4", host: |_, quotas| quotas.handles = 5 },
    // The maximum output takes 11 MB, and each event stream takes 1 MiB.
    Scenario { name: "too-many-events", expected: "5", host: |_, quotas| quotas.held_bytes = 16 << 20 },
    Scenario { name: "out-of-fuel", expected: "1 2", host: |policy, quotas| quotas.fuel = policy.limits.fuel },
];

/// The scenarios with sessions.
const SESSIONS: [Scenario; 17] = [
    scenario("drop-session-calls", "1\n"),
    scenario("session-state", "5 1\n5"),
    scenario("session-several", "0 1 2 3 4 5 6 7 8 9 "),
    scenario("session-busy", "1"),
    // Even on a slow machine, the endless scripts must end because they are dropped, not because they reach a limit.
    Scenario {
        name: "session-dropped",
        expected: "1\n",
        host: |policy, quotas| {
            policy.limits.fuel *= 100;
            policy.limits.timeout_ms = 300_000;
            quotas.fuel = 20 * policy.limits.fuel;
        },
    },
    scenario("session-start", "asked\n42 42\n"),
    scenario("session-checkpoints", "5 5 6 6 8\n"),
    Scenario { name: "session-too-many", expected: "2", host: |_, quotas| quotas.sessions = 2 },
    Scenario {
        name: "session-files",
        expected: "8000000\ndir 0, dir/copy 8000000, empty 0",
        host: |_, quotas| quotas.held_bytes = 20 << 20,
    },
    Scenario { name: "session-gigabyte", expected: "1073741824", host: |_, quotas| quotas.held_bytes = 20 << 20 },
    Scenario { name: "session-unread", expected: "2 4000000", host: |_, quotas| quotas.held_bytes = 10 << 20 },
    scenario("session-unclosed", "10"),
    scenario("session-over-limit", "1000000"),
    Scenario { name: "session-over-quota", expected: "0", host: |_, quotas| quotas.held_bytes = 4 << 20 },
    scenario("session-close-streams", "10 1999990 2000000"),
    scenario("session-output", "1500000"),
    Scenario { name: "session-too-many-calls", expected: "0 1", host: |_, quotas| quotas.started = 2 },
];

/// The scenarios that suspend executions.
const SUSPENDING: [Scenario; 17] = [
    scenario("suspend-same", "Outcome::Completed 2"),
    scenario("suspend-fork", "1 b c "),
    scenario("suspend-streams", "1 2"),
    scenario("suspend-forged", "9 1\n"),
    scenario("suspend-other-files", "old 1 "),
    scenario("suspend-refused", "1\nOutcome::Cancelled"),
    scenario("suspend-dropped", "1\n"),
    scenario("suspend-at-once", "1\n"),
    Scenario { name: "suspend-last-execution", expected: "1\n", host: |_, quotas| quotas.started = 1 },
    Scenario { name: "suspend-held-bytes", expected: "1\n", host: small_streams },
    scenario("suspend-session-same", "Outcome::Completed 2"),
    scenario("suspend-session-fork", "7,1 7,1 7,2 7,2 7,8 "),
    scenario("suspend-session-forged", "9 7,1\n7\n"),
    scenario("suspend-session-too-large", "true"),
    scenario("suspend-session-refused", "7,1\n7,3\n"),
    scenario("suspend-session-dropped", "7,1\n"),
    Scenario {
        name: "suspend-session-quotas",
        expected: "7,1\n7,2\n7,2\n",
        host: |_, quotas| (quotas.started, quotas.sessions, quotas.handles) = (1, 2, 6),
    },
];

/// The scenarios with displays.
const DISPLAYS: [Scenario; 8] = [
    scenario("displays-live", "one two three"),
    scenario("displays-late", "one two one two"),
    Scenario { name: "displays-limited", expected: "1 2", host: |policy, _| policy.limits.display_bytes = 60 },
    scenario("displays-many", "1000 1000 1000"),
    scenario("displays-dropped", "one 1"),
    scenario("displays-session", "one text/html two"),
    scenario("displays-resumed", "one one one two"),
    Scenario {
        name: "displays-over-quota",
        expected: "one",
        // The stream of events reserves 800,000 bytes, so there is no room for a call with 400,000.
        host: |policy, quotas| {
            let limits = &mut policy.limits;
            [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes] = [1_000, 1_000, 1_000];
            limits.tool_bytes = 800_000;
            quotas.held_bytes = 1 << 20;
        },
    },
];

/// The scenarios with files of executions outside sessions.
const FILES: [Scenario; 4] = [
    scenario("left-files", "a 3, dir 0, dir/b 4; text"),
    scenario("left-files-busy", "3 4"),
    Scenario { name: "left-files-large", expected: "3000000", host: small_output },
    Scenario { name: "left-files-too-large", expected: "a", host: small_output },
];

/// Limits the byte quota to 8 MiB, of which the output of an execution takes little.
fn small_output(policy: &mut Policy, quotas: &mut Quotas) {
    let limits = &mut policy.limits;
    [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes] = [1_000; 3];
    quotas.held_bytes = 8 << 20;
}

/// The scenarios that call the host's tools.
const TOOLS: [Scenario; 7] = [
    scenario("tools-list", "meet pause gate open null"),
    scenario("tools-several", "nullnullnullnullnullnullnullnullnullnull"),
    scenario("tools-forwarded", "10\n"),
    scenario("tools-refused", "null"),
    scenario("tools-dropped", "null"),
    Scenario { name: "tools-too-many", expected: "4 6", host: |_, quotas| quotas.started = 4 },
    // Each call reserves 1 MiB for its result.
    Scenario { name: "tools-held-bytes", expected: "null", host: |_, quotas| quotas.held_bytes = 3 << 19 },
];

/// The scenarios with calls that wait for other calls.
const QUEUE: [Scenario; 3] = [
    Scenario {
        name: "queue-dropped",
        expected: "open\nopen\nlast\n",
        host: |_, quotas| (quotas.calls_at_once, quotas.started) = (2, 4),
    },
    Scenario {
        name: "queue-deadline",
        expected: "Outcome::Cancelled \"\" open\n",
        host: |_, quotas| quotas.calls_at_once = 1,
    },
    Scenario { name: "queue-session", expected: "undefined 2\nopen\n", host: |_, quotas| quotas.calls_at_once = 1 },
];

/// Limits the byte quota to 32 MiB, of which each event stream reserves 65,536 bytes.
fn small_streams(policy: &mut Policy, quotas: &mut Quotas) {
    let limits = &mut policy.limits;
    [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes] = [1_000, 1_000, 0];
    limits.tool_bytes = 1 << 16;
    quotas.held_bytes = 32 << 20;
}

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    let scenarios = SCENARIOS.iter().chain(&DISPLAYS).chain(&FILES).chain(&TOOLS);
    let scenarios = scenarios.chain(&SUSPENDING).chain(&SESSIONS).chain(&QUEUE).map(|scenario| {
        program_trial(format!("concurrent/{}", scenario.name), "concurrent", |bytes| scenario.check(bytes))
    });
    let mut trials: Vec<_> = scenarios.collect();
    // The calls, again, through a component that forwards them to the host's tools.
    trials.extend(TOOLS.iter().filter(|scenario| scenario.name != "tools-dropped").map(|scenario| {
        let name = format!("concurrent/composed/{}", scenario.name);
        program_trial(name, "concurrent-relay", |bytes| scenario.check(bytes))
    }));
    trials.push(program_trial("concurrent/execute", "concurrent", fuel_equals_the_library));
    trials.push(program_trial("concurrent/session-fuel", "concurrent", session_fuel_equals_the_library));
    let thousand = trial_with("concurrent/queue-thousand", program_path("concurrent"), |path| {
        let task = format!("thousand {}", path.display());
        let output = process::run_child("concurrent/queue-thousand", &task, 2 * LONG);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(()) } else { Err((text(&output.stdout) + &text(&output.stderr)).into()) }
    });
    trials.push(thousand);
    for name in ["leak", "session-leak"] {
        let check = move |bytes: &[u8]| dropped_store_cancels_everything(bytes, name);
        trials.push(program_trial(format!("concurrent/{name}"), "concurrent", check));
    }
    trials
}

impl Scenario {
    fn check(&self, bytes: &[u8]) -> Result<(), Failed> {
        let (result, usage) = run(bytes, self.name, self.host)?;
        if result == self.expected {
            return Ok(());
        }
        Err(format!("{result:?}, expected {:?}; {usage:?}", self.expected).into())
    }
}

/// Compiles a program, or returns the earlier result for the same bytes.
fn compiled(bytes: &[u8]) -> &'static InstancePre<SandboxCtx> {
    static COMPILED: Mutex<BTreeMap<Vec<u8>, &'static InstancePre<SandboxCtx>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap();
    if let Some(program) = compiled.get(bytes) {
        return program;
    }
    let engine = Engine::default();
    let mut linker = Linker::new(&engine);
    add_to_linker_concurrent(&mut linker).unwrap();
    let program = Box::leak(Box::new(linker.instantiate_pre(&Component::new(&engine, bytes).unwrap()).unwrap()));
    compiled.insert(bytes.to_vec(), program);
    program
}

/// Returns a host with the tools of the scenarios.
fn host(edit: fn(&mut Policy, &mut Quotas)) -> SandboxHost {
    let (mut policy, mut quotas) = (Policy::default(), Quotas::default());
    policy.limits.timeout_ms = 60_000;
    edit(&mut policy, &mut quotas);
    let met = Arc::new(Barrier::new(10));
    let meet = Tool::new("meet", "Waits for nine others.").handler(move |_, _| {
        met.wait();
        Ok(json!(null))
    });
    let pause = Tool::new("pause", "Waits for half a second.").handler(|_, _| {
        thread::sleep(Duration::from_millis(500));
        Ok(json!(null))
    });
    let gate = Arc::new(Gate::default());
    let [wait, open] = [Arc::clone(&gate), gate];
    let wait = Tool::new("gate", "Waits until the gate is open.").handler(move |_, _| {
        wait.wait();
        Ok(json!(null))
    });
    let open = Tool::new("open", "Opens the gate.").handler(move |_, _| {
        open.open();
        Ok(json!(null))
    });
    let tools = [meet, pause, wait, open];
    let builder = SandboxHost::builder(engine()).policy(policy).quotas(quotas);
    tools.into_iter().fold(builder, SandboxHostBuilder::tool).build().unwrap()
}

/// A gate at which scripts wait until the component opens it.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

async fn call(store: &mut Store<SandboxCtx>, bytes: &[u8], name: &str) -> wasmtime::Result<Result<String, String>> {
    let instance = compiled(bytes).instantiate_async(&mut *store).await?;
    let scenario = instance.get_typed_func::<(String,), (Result<String, String>,)>(&mut *store, "scenario")?;
    let name = name.to_owned();
    let called = store.run_concurrent(async move |accessor| scenario.call_concurrent(accessor, (name,)).await);
    Ok(called.await??.0)
}

fn store(host: &SandboxHost, bytes: &[u8]) -> Store<SandboxCtx> {
    let mut store = Store::new(compiled(bytes).engine(), host.ctx());
    store.set_hostcall_fuel(LIFT_BYTES);
    store
}

/// Runs a scenario. Returns its result, and the usage after all scripts have ended and all resources have been
/// released.
fn run(bytes: &[u8], name: &str, edit: fn(&mut Policy, &mut Quotas)) -> Result<(String, Usage), Failed> {
    let host = host(edit);
    let mut store = store(&host, bytes);
    let result = runtime().block_on(async { tokio::time::timeout(LONG, call(&mut store, bytes, name)).await })??;
    let begun = Instant::now();
    loop {
        let usage = store.data().usage();
        if (usage.started, usage.sessions, usage.handles, usage.held_bytes) == (0, 0, 0, 0) {
            return Ok((result?, usage));
        }
        if begun.elapsed() > ENDS {
            return Err(format!("scripts are still running, or something is still held: {usage:?}; {result:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the number of threads of this process with a name.
fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread can end while the directory is read.
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}

/// The observations of the host in `queue-thousand`.
#[derive(Default)]
struct Thousand {
    gate: Gate,
    /// The number of scripts that have come to the gate.
    begun: AtomicUsize,
    begun_at_first_result: AtomicUsize,
    peak_threads: AtomicUsize,
}

/// Runs a thousand scripts of one component at the same time, in a process of their own. Prints the number of threads
/// and the growth of memory.
pub(crate) fn thousand(program: &Path) {
    const CALLS: usize = 1_000;
    let bytes = fs::read(program).unwrap();
    let (seen, mut quotas, mut policy) = (Arc::new(Thousand::default()), Quotas::default(), Policy::default());
    quotas.started = 1_000;
    policy.limits.timeout_ms = 60_000;
    let at_once = usize::try_from(quotas.calls_at_once).unwrap();
    let [waiting, opening] = [Arc::clone(&seen), Arc::clone(&seen)];
    let gate = Tool::new("gate", "Waits until the gate is open.").handler(move |_, _| {
        waiting.begun.fetch_add(1, Ordering::SeqCst);
        waiting.gate.wait();
        waiting.peak_threads.fetch_max(threads_named("glovebox-call"), Ordering::SeqCst);
        Ok(json!(null))
    });
    let open = Tool::new("open", "Opens the gate.").handler(move |_, _| {
        opening.begun_at_first_result.store(opening.begun.load(Ordering::SeqCst), Ordering::SeqCst);
        opening.gate.open();
        Ok(json!(null))
    });
    let host = SandboxHost::builder(engine()).policy(policy).quotas(quotas).tool(gate).tool(open).build().unwrap();
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).build().unwrap();
    // Loads the interpreter before memory is measured.
    sandbox.execute("1").unwrap();
    let mut store = store(&host, &bytes);
    let before = peak_resident_bytes();
    let called = runtime().block_on(async {
        tokio::time::timeout(LONG, call(&mut store, &bytes, "queue-thousand")).await.unwrap().unwrap()
    });
    let growth = peak_resident_bytes() - before;
    let counts = [&seen.begun, &seen.begun_at_first_result, &seen.peak_threads];
    let [begun, begun_at_first_result, threads] = counts.map(|count| count.load(Ordering::SeqCst));
    println!("{begun_at_first_result} waiting scripts, {threads} threads, {} MiB", growth >> 20);
    assert_eq!(called, Ok(CALLS.to_string()), "all results are right");
    assert_eq!(begun, CALLS - 1);
    assert!(begun_at_first_result <= at_once, "the first result arrives before the other scripts begin");
    // In addition: the call that opens the gate, and threads that have run their last call, but are not idle yet. On a
    // busy machine, there can be several of them.
    assert!(threads <= 2 * at_once, "the number of threads is limited");
    // If all scripts ran at the same time, the host would reserve gigabytes for their output.
    assert!(growth < 512 << 20, "the memory is limited");
}

fn fuel_equals_the_library(bytes: &[u8]) -> Result<(), Failed> {
    let (result, _) = run(bytes, "execute", |_, _| {})?;
    let host = host(|_, _| {});
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).policy(host.policy().clone()).build()?;
    let execution = sandbox.run(Request::new("console.log(6 * 7)"))?;
    let expected = format!("42\nTypeError {}", execution.fuel_consumed);
    if result == expected { Ok(()) } else { Err(format!("{result:?}, expected {expected:?}").into()) }
}

fn session_fuel_equals_the_library(bytes: &[u8]) -> Result<(), Failed> {
    let (result, _) = run(bytes, "session-fuel", |_, _| {})?;
    let host = host(|_, _| {});
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).policy(host.policy().clone()).build()?;
    let session = sandbox.session()?;
    session.execute("var x = 6")?;
    let expected = format!("42\n{}", session.execute("console.log(x * 7)")?.fuel_consumed);
    if result == expected { Ok(()) } else { Err(format!("{result:?}, expected {expected:?}").into()) }
}

/// The component leaks running scripts and open streams. Dropping the store ends them.
fn dropped_store_cancels_everything(bytes: &[u8], name: &str) -> Result<(), Failed> {
    let host = host(|_, _| {});
    let mut store = store(&host, bytes);
    let token = store.data().cancel_token();
    // The component may trap, because it ends while its calls wait.
    drop(runtime().block_on(async { tokio::time::timeout(LONG, call(&mut store, bytes, name)).await })?);
    assert!(store.data().usage().started > 0, "{:?}", store.data().usage());
    drop(store);
    if token.is_cancelled() { Ok(()) } else { Err("the scripts are not cancelled".into()) }
}
