//! Executions that wait for their caller: suspended on one node, and resumed on another.

use std::time::Duration;

use glovebox::{SessionKey, ToolAnswer, ToolError, ToolErrorKind};

use super::*;
use crate::node::services::RecordedSteps;
use crate::{Resumption, WaitingExecution};

/// Calls the service before and after the caller's answer.
const PAY: &str = "globalThis.r = Math.random(); const t = Date.now(); const a = await tools.ask({n: 1}); \
                   const b = await tools.pay({euros: 20}); const c = await tools.ask({n: 2}); \
                   console.log(a, b, c, r !== Math.random(), t, Date.now())";

/// Returns a request with two tools. The service answers calls of `ask`, and the caller answers calls of `pay`.
fn asking(service: &Service, source: &str) -> ExecuteRequest {
    let tools = json!([{ "name": "ask", "callback": service.url }, { "name": "pay" }]);
    serde_json::from_value(json!({ "source": source, "tools": tools })).unwrap()
}

/// Returns the request that resumes an execution.
fn resuming(service: &Service, waiting: &WaitingExecution, answers: Vec<ToolAnswer>) -> Arc<ExecuteRequest> {
    let resumption = Some(Resumption { suspended: waiting.suspended.clone(), answers });
    Arc::new(ExecuteRequest { resumption, ..asking(service, "") })
}

fn paid(id: u64) -> ToolAnswer {
    ToolAnswer::value(id, &json!("paid"))
}

fn waiting(done: &ExecutionEnd) -> &WaitingExecution {
    done.executed.waiting.as_ref().unwrap_or_else(|| panic!("the script has ended: {}", done.executed.execution))
}

fn waits_for(done: &ExecutionEnd) -> Vec<(u64, String)> {
    waiting(done).calls.iter().map(|call| (call.id, call.arguments.clone())).collect()
}

#[tokio::test]
async fn waiting_execution_occupies_no_node_and_resumes_on_another() {
    let store = "memory://suspending-nodes";
    let service = Service::start();
    let node = || machine(store, |config| config.callbacks = Some(service.callbacks()));
    let (one, other) = (node(), node());
    let state = opened(&one).await;
    let places = one.places.available_permits();
    let (done, recorded) = run(&one, &state, Arc::new(asking(&service, PAY)), Vec::new()).await.unwrap();
    assert_eq!(waits_for(&done), [(1, r#"{"euros":20}"#.to_owned())]);
    let execution: Value = serde_json::from_str(done.executed.execution.get()).unwrap();
    assert_eq!(execution["outcome"]["kind"], "cancelled", "{execution}");
    assert_eq!(one.places.available_permits(), places);
    assert!(done.executed.is_rolled_back && done.state.blob == state.blob);
    assert_eq!(done.state.session.generation, 2);
    // A node that takes over does not repeat the recorded call, and suspends the execution as well.
    let (again, _) = run(&other, &state, Arc::new(asking(&service, PAY)), recorded).await.unwrap();
    assert_eq!((waits_for(&again), service.keys().len()), (waits_for(&done), 1));
    for (round, waits) in [waiting(&done), waiting(&again)].into_iter().enumerate() {
        let (resumed, _) =
            run(&other, &done.state, resuming(&service, waits, vec![paid(1)]), Vec::new()).await.unwrap();
        assert_eq!(printed(&resumed), format!("1 paid {} true 1000 1000", round + 2), "the first call is not repeated");
        assert!(resumed.executed.waiting.is_none() && !resumed.executed.is_rolled_back);
        assert_eq!((resumed.state.session.generation, resumed.state.session.executions), (3, 1));
        assert_eq!(service.keys().last().unwrap(), "team!notes/0a-3-inv_1/2");
    }
}

#[tokio::test]
async fn session_keeps_its_state_if_a_limit_stops_the_repeated_steps() {
    let store = "memory://suspending-stopped";
    let service = Service::start();
    let node = |fuel: u64| {
        machine(store, |config| {
            config.callbacks = Some(service.callbacks());
            config.policy.limits.fuel = fuel;
        })
    };
    let one = node(10_000_000_000);
    let state = opened(&one).await;
    let source = "for (let i = 0; i < 300_000; i++); globalThis.n = await tools.pay({euros: 20}); console.log(n)";
    let (done, _) = run(&one, &state, Arc::new(asking(&service, source)), Vec::new()).await.unwrap();
    let (later, _) = run(&one, &done.state, request("globalThis.n = 'later'"), Vec::new()).await.unwrap();
    let resumption = resuming(&service, waiting(&done), vec![paid(0)]);
    let (stopped, _) = run(&node(50_000_000), &later.state, Arc::clone(&resumption), Vec::new()).await.unwrap();
    let execution: Value = serde_json::from_str(stopped.executed.execution.get()).unwrap();
    assert_eq!(execution["outcome"]["kind"], "exhausted", "{execution}");
    assert!(stopped.executed.is_rolled_back && stopped.state.blob == later.state.blob);
    let (resumed, _) = run(&one, &stopped.state, resumption, Vec::new()).await.unwrap();
    assert_eq!(printed(&resumed), "paid");
}

#[tokio::test]
async fn takeover_of_a_resumed_execution_repeats_no_call() {
    let store = "memory://suspending-takeover";
    let service = Service::start();
    let node = || machine(store, |config| config.callbacks = Some(service.callbacks()));
    let (one, other) = (node(), node());
    let state = opened(&one).await;
    let (done, _) = run(&one, &state, Arc::new(asking(&service, PAY)), Vec::new()).await.unwrap();
    let resumption = resuming(&service, waiting(&done), vec![paid(1)]);
    let called = interrupted(&one, &done.state, Arc::clone(&resumption)).await;
    assert_eq!((called.call, called.tool.as_str()), (2, "ask"));
    let (resumed, recorded) = run(&other, &done.state, Arc::clone(&resumption), vec![called]).await.unwrap();
    assert_eq!((printed(&resumed), service.keys().len()), ("1 paid 2 true 1000 1000".to_owned(), 2));
    let (repeated, _) = run(&one, &done.state, resumption, recorded).await.unwrap();
    assert_eq!((repeated.state.blob, service.keys().len()), (resumed.state.blob.clone(), 2));
    // The session continues after the resumed execution.
    let (next, _) = run(&other, &resumed.state, request("console.log(typeof r)"), Vec::new()).await.unwrap();
    assert_eq!(printed(&next), "number");
}

#[tokio::test]
async fn calls_are_answered_in_any_order() {
    let service = Service::start();
    let node = machine("memory://suspending-subset", |config| config.callbacks = Some(service.callbacks()));
    let state = opened(&node).await;
    let source = "const all = await Promise.allSettled([tools.pay({n: 1}), tools.pay({n: 2}), tools.ask({n: 3})]); \
                  console.log(all.map(one => one.value ?? one.reason.name).join(' '))";
    let (first, _) = run(&node, &state, Arc::new(asking(&service, source)), Vec::new()).await.unwrap();
    assert_eq!(waits_for(&first), [(0, r#"{"n":1}"#.to_owned()), (1, r#"{"n":2}"#.to_owned())]);
    let request = resuming(&service, waiting(&first), Vec::new());
    let (same, _) = run(&node, &first.state, request, Vec::new()).await.unwrap();
    assert_eq!(waits_for(&same), waits_for(&first), "without answers, the request lists the calls");
    let request = resuming(&service, waiting(&same), vec![paid(1)]);
    let (second, _) = run(&node, &same.state, request, Vec::new()).await.unwrap();
    assert_eq!(waits_for(&second), [(0, r#"{"n":1}"#.to_owned())]);
    let denied = ToolAnswer::error(0, ToolError::of(ToolErrorKind::Denied, "too expensive"));
    let request = resuming(&service, waiting(&second), vec![denied]);
    let (last, _) = run(&node, &second.state, request, Vec::new()).await.unwrap();
    assert_eq!(printed(&last), "ToolDenied paid 1");
    assert_eq!(service.keys().len(), 1);
}

#[tokio::test]
async fn only_unchanged_bytes_of_the_same_scope_and_key_are_resumed() {
    let store = "memory://suspending-sealed";
    let service = Service::start();
    let node = |byte: Option<u8>| {
        machine(store, |config| {
            config.key = byte.map(|byte| SessionKey::new(&[byte; 32]).unwrap());
            config.callbacks = Some(service.callbacks());
        })
    };
    let one = node(Some(1));
    let state = opened(&one).await;
    let (done, _) = run(&one, &state, Arc::new(asking(&service, PAY)), Vec::new()).await.unwrap();
    let open = |name: &'static str| {
        let open = OpenRequest { language: Some(Language::JavaScript), ..OpenRequest::default() };
        let one = Arc::clone(&one);
        let opening = SessionOpening { at: Timestamp::from_unix_ms(5_000), id: "0b".into() };
        async move { one.open(&name.parse().unwrap(), open, opening).await.unwrap() }
    };
    let (same_scope, other_scope) = (open("team!more").await, open("other!notes").await);
    let request = resuming(&service, waiting(&done), vec![paid(1)]);
    let mut changed = (*request).clone();
    changed.resumption.as_mut().unwrap().suspended[100] ^= 1;
    for (name, node, state, request) in [
        ("another key", &node(Some(2)), &done.state, Arc::clone(&request)),
        ("no key", &node(None), &done.state, Arc::clone(&request)),
        ("another scope", &one, &other_scope, Arc::clone(&request)),
        ("changed", &one, &done.state, Arc::new(changed)),
        ("unknown call", &one, &done.state, resuming(&service, waiting(&done), vec![paid(7)])),
    ] {
        let error = run(node, state, request, Vec::new()).await.unwrap_err();
        assert!(matches!(error, StepError::Never(400, _)), "{name}: {error}");
    }
    let mut without = (*request).clone();
    without.tools.retain(|tool| tool.name != "pay");
    let error = run(&one, &done.state, Arc::new(without), Vec::new()).await.unwrap_err();
    assert!(matches!(error, StepError::Never(424, _)), "{error}");
    assert_eq!(service.keys().len(), 1, "nothing continued");
    let (resumed, _) = run(&one, &same_scope, request, Vec::new()).await.unwrap();
    assert_eq!(printed(&resumed), "1 paid 2 true 1000 1000");
}

#[tokio::test]
async fn script_that_received_too_much_cannot_wait() {
    let store = "memory://suspending-full";
    let service = Service::answering(|_| format!("\"{}\"", "x".repeat(300_000)));
    let node = || machine(store, |config| config.callbacks = Some(service.callbacks()));
    let (one, other) = (node(), node());
    let state = opened(&one).await;
    let source = "for (let n = 0; n < 4; n++) await tools.ask({n}); \
                  try { await tools.pay({}) } catch (error) { console.log(error.name) }";
    let (done, recorded) = run(&one, &state, Arc::new(asking(&service, source)), Vec::new()).await.unwrap();
    assert_eq!((printed(&done), recorded.len()), ("ToolLimit".to_owned(), 5));
    let (again, _) = run(&other, &state, Arc::new(asking(&service, source)), recorded).await.unwrap();
    assert_eq!((again.state.blob, service.keys().len()), (done.state.blob, 4));
}

/// Starts an attempt that continues a journal, and adds its steps to the journal.
async fn continued(
    machine: &Arc<Machine>,
    state: &SessionState,
    request: &Arc<ExecuteRequest>,
    journal: &mut Vec<JournalStep>,
) -> Result<ExecutionEnd, StepError> {
    let (machine, request) = (Arc::clone(machine), Arc::clone(request));
    let mut attempt = Attempt::new(machine, state.clone(), request, CancelToken::new(), INVOCATION.into());
    let mut recorded = RecordedSteps::default();
    for step in journal.clone() {
        if let Some(done) = recorded.add(step)? {
            return Ok(done);
        }
    }
    loop {
        let step = attempt.step(recorded.begin_step()).await?;
        journal.push(step.clone());
        if let Some(done) = recorded.add(step)? {
            return Ok(done);
        }
    }
}

#[tokio::test]
async fn slow_suspension_is_attempted_a_limited_number_of_times() {
    let store = "memory://suspending-slow";
    let service = Service::start();
    let node = |time: Option<Duration>| {
        machine(store, |config| {
            config.callbacks = Some(service.callbacks());
            config.suspension_time = time;
        })
    };
    let (fast, slow) = (node(None), node(Some(Duration::ZERO)));
    let state = opened(&fast).await;
    let (request, mut journal) = (Arc::new(asking(&service, PAY)), Vec::new());
    for attempt in 1..=2 {
        let error = continued(&slow, &state, &request, &mut journal).await.unwrap_err();
        assert!(matches!(error, StepError::Later(_)), "attempt {attempt}: {error}");
        assert_eq!(error.to_string(), "suspending the execution took longer than 0 ms");
        assert!(matches!(journal.last(), Some(JournalStep::SlowSuspension(_))), "{journal:?}");
    }
    // A second node suspends the execution, and does not repeat the recorded call.
    let done = continued(&fast, &state, &request, &mut journal.clone()).await.unwrap();
    assert_eq!((waits_for(&done), service.keys().len()), (vec![(1, r#"{"euros":20}"#.to_owned())], 1));
    // A third slow attempt is the last one, on any node.
    for node in [&slow, &fast, &slow] {
        let error = continued(node, &state, &request, &mut journal).await.unwrap_err();
        let StepError::Never(500, message) = error else { panic!("{error}") };
        assert!(message.contains("0 ms in 3 attempts; the session keeps its state"), "{message}");
        assert_eq!((journal.len(), service.keys().len()), (4, 1), "{journal:?}");
    }
    // The journal is recorded as JSON.
    let text = serde_json::to_string(&journal).unwrap();
    let read: Vec<JournalStep> = serde_json::from_str(&text).unwrap();
    assert!(matches!(&read[..], [JournalStep::Tool(_), JournalStep::SlowSuspension(_), ..]), "{text}");
}
