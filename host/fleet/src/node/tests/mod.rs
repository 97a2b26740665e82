//! Tests attempts without an engine: the steps that they record, and nodes that take over with the recorded steps.

mod suspending;

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex, OnceLock},
};

use glovebox::{CancelToken, Engine, EngineConfig, Language, Timestamp, UrlPatterns};
use glovebox_object_stores::BlobStore;
use glovebox_requests::callbacks::{Callbacks, CallbacksConfig};
use serde_json::{Value, json};

use super::{
    NodeConfig,
    attempt::{AnsweredCall, Attempt, ExecutionEnd, JournalStep, StepError},
    machine::{Machine, SessionOpening},
    object::{SessionState, blob_dir},
    serve::Admin,
};
use crate::{ExecuteRequest, FleetName, FleetUrl, OpenRequest, address::image_service};

const COUNT: &str = "globalThis.n = (globalThis.n ?? 0) + 1; console.log(n)";
const INVOCATION: &str = "inv_1";
const ASK: &str = "const a = await tools.ask({n: 1}); const b = await tools.ask({n: 2}); console.log(a, b)";

fn engine() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineConfig::default()).unwrap()).clone()
}

/// Creates a node with this store. `change` modifies the configuration.
fn machine(store: &str, change: impl FnOnce(&mut NodeConfig)) -> Arc<Machine> {
    let mut config = NodeConfig::new(FleetUrl::local(1, 2), engine(), BlobStore::open(store).unwrap());
    config.runtimes = vec!["javascript".into()];
    change(&mut config);
    Arc::new(Machine::new(config).unwrap())
}

fn name() -> FleetName {
    "team!notes".parse().unwrap()
}

fn opening(id: &str) -> SessionOpening {
    SessionOpening { at: Timestamp::from_unix_ms(1_000), id: id.into() }
}

async fn opened(machine: &Arc<Machine>) -> SessionState {
    let open = OpenRequest { language: Some(Language::JavaScript), ..OpenRequest::default() };
    machine.open(&name(), open, opening("0a")).await.unwrap()
}

fn request(source: &str) -> Arc<ExecuteRequest> {
    Arc::new(ExecuteRequest { source: source.into(), ..ExecuteRequest::default() })
}

/// Runs an execution to its end. Returns its result and the recorded calls.
async fn run(
    machine: &Arc<Machine>,
    state: &SessionState,
    request: Arc<ExecuteRequest>,
    mut recorded: Vec<AnsweredCall>,
) -> Result<(ExecutionEnd, Vec<AnsweredCall>), StepError> {
    let mut attempt = Attempt::new(Arc::clone(machine), state.clone(), request, CancelToken::new(), INVOCATION.into());
    let mut fresh = recorded.clone();
    loop {
        match attempt.step(std::mem::take(&mut fresh)).await? {
            JournalStep::Done(done) => return Ok((*done, recorded)),
            JournalStep::Tool(called) => {
                fresh.push(called.clone());
                recorded.push(called);
            }
            JournalStep::SlowSuspension(reason) => return Err(StepError::Later(reason)),
        }
    }
}

/// Starts an execution and drops it after its first call. Returns that call.
async fn interrupted(machine: &Arc<Machine>, state: &SessionState, request: Arc<ExecuteRequest>) -> AnsweredCall {
    let mut attempt = Attempt::new(Arc::clone(machine), state.clone(), request, CancelToken::new(), INVOCATION.into());
    let JournalStep::Tool(called) = attempt.step(Vec::new()).await.unwrap() else {
        panic!("the script must call a tool")
    };
    called
}

fn printed(done: &ExecutionEnd) -> String {
    let execution: Value = serde_json::from_str(done.executed.execution.get()).unwrap();
    execution["stdout"].as_str().unwrap_or_default().trim_end().to_owned()
}

/// A service that answers with the number of calls so far and records the calls' keys.
struct Service {
    port: u16,
    url: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Self {
        Self::answering(|count| count.to_string())
    }

    /// Starts a service that computes each answer from the number of the call.
    fn answering(answer: impl Fn(usize) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}/ask");
        let keys = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&keys);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut length, mut line) = (0, String::new());
                while reader.read_line(&mut line).unwrap() > 2 {
                    let (name, value) = line.split_once(':').unwrap_or_default();
                    match name.to_ascii_lowercase().as_str() {
                        "content-length" => length = value.trim().parse().unwrap(),
                        "idempotency-key" => noted.lock().unwrap().push(value.trim().to_owned()),
                        _ => {}
                    }
                    line.clear();
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                let body = answer(noted.lock().unwrap().len());
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).unwrap();
            }
        });
        Self { port, url, keys }
    }

    fn callbacks(&self) -> Callbacks {
        let allowed = UrlPatterns::new(std::slice::from_ref(&self.url)).unwrap();
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        Callbacks::new(&CallbacksConfig { allowed, secret }).unwrap()
    }

    fn request(&self, source: &str) -> Arc<ExecuteRequest> {
        let tool = json!({ "name": "ask", "callback": self.url });
        Arc::new(serde_json::from_value(json!({ "source": source, "tools": [tool] })).unwrap())
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn session_continues_on_any_node() {
    let store = "memory://attempts-nodes";
    let (one, other) = (machine(store, |_| {}), machine(store, |config| config.warm_count = 0));
    let mut state = opened(&one).await;
    for (round, node) in [&one, &one, &other, &other, &one].into_iter().enumerate() {
        let (done, _) = run(node, &state, request(COUNT), Vec::new()).await.unwrap();
        assert_eq!(printed(&done), (round + 1).to_string());
        assert_eq!(done.executed.generation, done.state.session.generation);
        state = done.state;
    }
    assert_eq!((state.session.generation, state.session.executions), (6, 5));
    // `one` has the latest state in memory, so it loads the blob of the undone state.
    let undone = state.undone(Timestamp::now()).unwrap();
    let (done, _) = run(&one, &undone, request("console.log(n)"), Vec::new()).await.unwrap();
    assert_eq!(printed(&done), "4");
}

#[tokio::test]
async fn repeated_execution_is_byte_identical() {
    let store = "memory://attempts-same";
    let (one, other) = (machine(store, |_| {}), machine(store, |config| config.warm_count = 0));
    let state = opened(&one).await;
    let script = "globalThis.r = [Math.random(), Date.now()]; console.log(r)";
    let (first, _) = run(&one, &state, request(script), Vec::new()).await.unwrap();
    let (again, _) = run(&other, &state, request(script), Vec::new()).await.unwrap();
    assert_eq!(printed(&first), printed(&again));
    assert!(printed(&first).contains("1000"), "the clock is fixed at the opening: {}", printed(&first));
    // The blob's name contains a digest of the bytes, so the bytes are equal as well.
    assert_eq!(first.state.blob, again.state.blob);
}

#[tokio::test]
async fn takeover_does_not_repeat_recorded_tool_calls() {
    let store = "memory://attempts-tools";
    let service = Service::start();
    let node = || machine(store, |config| config.callbacks = Some(service.callbacks()));
    let (one, other) = (node(), node());
    let state = opened(&one).await;
    let called = interrupted(&one, &state, service.request(ASK)).await;
    assert_eq!((called.call, called.tool.as_str()), (0, "ask"));
    let (done, recorded) = run(&other, &state, service.request(ASK), vec![called]).await.unwrap();
    assert_eq!(printed(&done), "1 2");
    let keys = service.keys();
    assert_eq!(keys, ["team!notes/0a-2-inv_1/0", "team!notes/0a-2-inv_1/1"]);
    // With all calls recorded, the script runs without calling the service.
    let (again, _) = run(&one, &state, service.request(ASK), recorded.clone()).await.unwrap();
    assert_eq!((printed(&again), again.state.blob, service.keys()), ("1 2".into(), done.state.blob.clone(), keys));
    // The next execution uses different keys.
    run(&one, &done.state, service.request("await tools.ask({n: 3})"), Vec::new()).await.unwrap();
    assert_eq!(service.keys().last().unwrap(), "team!notes/0a-3-inv_1/0");
    // A script that deviates from the record stores nothing.
    for script in ["console.log(1)", "await tools.other({})"] {
        let tools = Arc::new(ExecuteRequest { source: script.into(), ..(*service.request("")).clone() });
        let error = run(&one, &state, tools, recorded.clone()).await.unwrap_err();
        assert!(error.to_string().contains("diverged from its first run"), "{script}: {error}");
    }
}

#[tokio::test]
async fn tools_are_called_only_at_allowed_addresses() {
    let store = "memory://attempts-refused";
    let service = Service::start();
    let (closed, open) =
        (machine(store, |_| {}), machine(store, |config| config.callbacks = Some(service.callbacks())));
    let state = opened(&closed).await;
    let error = run(&closed, &state, service.request(ASK), Vec::new()).await.unwrap_err();
    assert!(matches!(&error, StepError::Never(400, text) if text.contains("--callback")), "{error}");
    let elsewhere = json!({ "source": ASK, "tools": [{ "name": "ask", "callback": "http://127.0.0.1:1/x" }] });
    let error = run(&open, &state, Arc::new(serde_json::from_value(elsewhere).unwrap()), Vec::new()).await.unwrap_err();
    assert!(matches!(error, StepError::Never(400, _)), "{error}");
    let tool = json!({ "name": "ask", "callback": service.url });
    for (count, taken) in [(63, true), (64, true), (65, false)] {
        let tools: Vec<Value> = (0..count)
            .map(|n| {
                let mut tool = tool.clone();
                tool["name"] = format!("t{n}").into();
                tool
            })
            .collect();
        let request = serde_json::from_value(json!({ "source": "1", "tools": tools })).unwrap();
        let ran = run(&open, &state, Arc::new(request), Vec::new()).await;
        assert_eq!(ran.is_ok(), taken, "{count}: {:?}", ran.err());
    }
    assert!(service.keys().is_empty());
}

#[tokio::test]
async fn cancelled_execution_ends_and_reports_it() {
    let node = machine("memory://attempts-cancel", |_| {});
    let state = opened(&node).await;
    let cancel = CancelToken::new();
    let mut attempt =
        Attempt::new(Arc::clone(&node), state.clone(), request("for (;;) {}"), cancel.clone(), INVOCATION.into());
    let (ended, ()) = tokio::join!(attempt.step(Vec::new()), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        cancel.cancel();
    });
    let JournalStep::Done(done) = ended.unwrap() else { panic!("the script must not call a tool") };
    let execution: Value = serde_json::from_str(done.executed.execution.get()).unwrap();
    assert_eq!(execution["outcome"]["kind"], "cancelled", "{execution}");
    assert_eq!(done.state.session.generation, 2);
    let (next, _) = run(&node, &done.state, request(COUNT), Vec::new()).await.unwrap();
    assert_eq!(printed(&next), "1", "the session continues");
}

#[tokio::test]
async fn cancellation_before_takeover_leaves_no_effect() {
    let store = "memory://attempts-cancelled-before";
    let service = Service::start();
    let node = || machine(store, |config| config.callbacks = Some(service.callbacks()));
    let (one, other) = (node(), node());
    let state = opened(&one).await;
    let called = interrupted(&one, &state, service.request(ASK)).await;
    let cancel = CancelToken::new();
    cancel.cancel();
    let mut taken_over =
        Attempt::new(Arc::clone(&other), state.clone(), service.request(ASK), cancel, INVOCATION.into());
    let JournalStep::Done(done) = taken_over.step(vec![called]).await.unwrap() else {
        panic!("the script must not call a tool")
    };
    let execution: Value = serde_json::from_str(done.executed.execution.get()).unwrap();
    assert_eq!(execution["outcome"]["kind"], "cancelled", "{execution}");
    assert!(done.executed.is_rolled_back && done.state.blob == state.blob);
    assert_eq!(done.state.session.generation, 2);
}

#[tokio::test]
async fn answer_over_the_limit_is_recorded_as_an_error() {
    for (bytes, expected) in [(9, "string"), (10, "string"), (11, "ToolLimit")] {
        let service = Service::answering(move |_| format!("\"{}\"", "x".repeat(bytes - 2)));
        let node = machine(&format!("memory://attempts-answers-{bytes}"), |config| {
            config.callbacks = Some(service.callbacks());
            config.policy.limits.tool_bytes = 10;
        });
        let state = opened(&node).await;
        let script = "try { console.log(typeof await tools.ask({})) } catch (error) { console.log(error.name) }";
        let (done, recorded) = run(&node, &state, service.request(script), Vec::new()).await.unwrap();
        assert_eq!(printed(&done), expected, "{bytes}");
        assert_eq!(recorded[0].answer.is_ok(), bytes <= 10);
    }
}

#[tokio::test]
async fn execution_without_capacity_is_retried() {
    let node = machine("memory://attempts-places", |config| {
        (config.running, config.queue) = (1, std::time::Duration::from_millis(20));
    });
    let state = opened(&node).await;
    let held = Arc::clone(&node.places).acquire_owned().await.unwrap();
    let error = run(&node, &state, request(COUNT), Vec::new()).await.unwrap_err();
    assert!(matches!(&error, StepError::Later(text) if text.contains("busy")), "{error}");
    drop(held);
    run(&node, &state, request(COUNT), Vec::new()).await.unwrap();
}

#[tokio::test]
async fn warm_sessions_do_not_count_against_the_policy() {
    let node = machine("memory://attempts-room", |config| {
        // A separate engine, because an engine counts the sessions of all its nodes.
        config.engine = Engine::new(EngineConfig::default()).unwrap();
        config.policy.limits.session_count = 1;
        (config.warm_count, config.running) = (3, 1);
    });
    for id in ["a", "b", "c", "d", "e"] {
        let open = OpenRequest { language: Some(Language::JavaScript), ..OpenRequest::default() };
        node.open(&id.parse().unwrap(), open, opening("0a")).await.unwrap();
    }
    assert_eq!(node.warm_names(), ["c", "d", "e"]);
}

#[tokio::test]
async fn nodes_of_other_images_are_refused_at_an_address() {
    let own = image_service(&"ab".repeat(32));
    let images = BTreeSet::from([own.clone()]);
    for (known, is_registered) in [
        (vec!["glovebox-sessions-00", &own], true),
        (vec!["glovebox-sessions-00", "glovebox-image-0123"], false),
        (vec!["glovebox-sessions-00", &own, "glovebox-image-0123"], false),
        (vec!["glovebox-sessions-00"], false),
    ] {
        let services: Vec<Value> = known.iter().map(|name| json!({ "name": name, "revision": 1 })).collect();
        let answer = json!({ "id": "dp_1", "services": services }).to_string();
        let engine = Service::answering(move |_| answer.clone());
        let admin = Admin::new(&FleetUrl::local(1, engine.port)).unwrap();
        match admin.register("http://nodes:9080", &images, false).await {
            Ok(registered) => assert!(is_registered && registered.deployment == "dp_1", "{known:?}"),
            Err(error) => assert!(!is_registered && error.to_string().contains("--advertise"), "{known:?}: {error}"),
        }
    }
}

#[tokio::test]
async fn stopped_script_leaves_the_session_unchanged() {
    let node = machine("memory://attempts-stopped", |config| config.policy.limits.fuel = 50_000_000);
    let state = opened(&node).await;
    let (before, _) = run(&node, &state, request(COUNT), Vec::new()).await.unwrap();
    let (stopped, _) = run(&node, &before.state, request("n = 100; for (;;) {}"), Vec::new()).await.unwrap();
    let execution: Value = serde_json::from_str(stopped.executed.execution.get()).unwrap();
    assert_eq!(execution["outcome"]["kind"], "exhausted", "{execution}");
    let (after, _) = run(&node, &stopped.state, request(COUNT), Vec::new()).await.unwrap();
    let expected = if stopped.executed.is_rolled_back { "2" } else { "101" };
    assert_eq!(printed(&after), expected);
    assert!(after.state.session.generation > stopped.state.session.generation);
}

#[tokio::test]
async fn missing_state_is_retried_and_foreign_seal_rejected() {
    let store = "memory://attempts-sealed";
    let key = |byte| glovebox::SessionKey::new(&[byte; 32]).unwrap();
    let node = |byte| machine(store, |config| (config.key, config.warm_count) = (Some(key(byte)), 0));
    let one = node(1);
    let state = opened(&one).await;
    let (done, _) = run(&one, &state, request(COUNT), Vec::new()).await.unwrap();
    let error = run(&node(2), &done.state, request(COUNT), Vec::new()).await.unwrap_err();
    assert!(matches!(error, StepError::Never(..)), "{error}");
    let mut gone = done.state.clone();
    gone.blob = format!("{}/0000000009-00", blob_dir(&name(), "0a"));
    let error = run(&one, &gone, request(COUNT), Vec::new()).await.unwrap_err();
    assert!(matches!(error, StepError::Later(_)), "{error}");
    // A late close does not affect a session that was opened again.
    let open = OpenRequest { language: Some(Language::JavaScript), ..OpenRequest::default() };
    let again = one.open(&name(), open, opening("0b")).await.unwrap();
    one.forget(&done.state).await.unwrap();
    let error = run(&one, &done.state, request(COUNT), Vec::new()).await.unwrap_err();
    assert!(matches!(error, StepError::Later(_)), "{error}");
    let (done, _) = run(&one, &again, request(COUNT), Vec::new()).await.unwrap();
    assert_eq!(printed(&done), "1");
}

#[tokio::test]
async fn sessions_stay_in_memory_as_long_as_there_is_room() {
    let held = |machine: &Arc<Machine>| machine.warm_names();
    let node = machine("memory://attempts-warm", |config| config.warm_count = 2);
    let mut states = Vec::new();
    for id in ["a", "b", "c"] {
        let open = OpenRequest { language: Some(Language::JavaScript), ..OpenRequest::default() };
        states.push(node.open(&id.parse().unwrap(), open, opening("0a")).await.unwrap());
    }
    assert_eq!(held(&node), ["b", "c"], "the least recently used session is evicted");
    run(&node, &states[1], request(COUNT), Vec::new()).await.unwrap();
    run(&node, &states[0], request(COUNT), Vec::new()).await.unwrap();
    assert_eq!(held(&node), ["a", "b"]);
    // A session needs a little over 1 MiB.
    for (warm_bytes, expected) in [(1 << 20, 0), (2 << 20, 1)] {
        let node = machine(&format!("memory://attempts-{warm_bytes}"), |config| config.warm_bytes = warm_bytes);
        for id in ["a", "b"] {
            let open = OpenRequest { language: Some(Language::JavaScript), ..OpenRequest::default() };
            node.open(&id.parse().unwrap(), open, opening("0a")).await.unwrap();
        }
        assert_eq!(held(&node).len(), expected, "{warm_bytes}");
    }
}
