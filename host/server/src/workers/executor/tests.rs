use std::{process::Command, time::Duration};

use glovebox::{Language, Timestamp};
use serde_json::{Value, json};
use tokio::{net::UnixStream, task::spawn_blocking};

use super::{
    super::peer::{CallHandler, Peer, Reply},
    *,
};
use crate::{SessionSummary, byte_budget::ByteBudget};

fn page(sessions: &str, bytes: u64, next: Option<&str>) -> SessionPage {
    let id = |id: &str| SessionId::new(id).unwrap();
    let summary = |name: &str| SessionSummary {
        id: id(name),
        language: Language::Python,
        runtime: "python".into(),
        version: None,
        created_at: Timestamp::from_unix_ms(0),
        updated_at: Timestamp::from_unix_ms(0),
        executions: 0,
        generation: "0".into(),
        files: None,
        bytes,
        live: None,
    };
    SessionPage {
        sessions: sessions.split(' ').map(summary).collect(),
        damaged: vec![id("b"), id("z")],
        next: next.map(id),
    }
}

fn names(page: &SessionPage) -> (Vec<&str>, Vec<&str>, Option<&str>) {
    let sessions = page.sessions.iter().map(|session| session.id.as_str()).collect();
    (sessions, page.damaged.iter().map(SessionId::as_str).collect(), page.next.as_ref().map(SessionId::as_str))
}

#[test]
fn merged_list_takes_each_session_from_its_worker() {
    let merged =
        merged(vec![page("b a", 0, None), page("a b", 1, None)], |id, index| (id.as_str() == "a") == (index == 0));
    let seen: Vec<_> = merged.sessions.iter().map(|session| (session.id.as_str(), session.bytes)).collect();
    assert_eq!(seen, [("a", 0), ("b", 1)]);
}

#[test]
fn merged_list_ends_where_the_shortest_page_ends() {
    let all = |one, other| merged(vec![one, other], |id, index| (id.as_str() < "c") == (index == 0));
    let until_c = (vec!["a", "c"], vec!["b"], Some("c"));
    assert_eq!(names(&all(page("a c", 0, Some("c")), page("a c", 0, Some("c")))), until_c);
    assert_eq!(names(&all(page("a c d", 0, Some("d")), page("a c", 0, Some("c")))), until_c);
    assert_eq!(names(&all(page("a c", 0, Some("c")), page("a c d", 0, None))), until_c);
    assert_eq!(names(&all(page("a c", 0, None), page("a c", 0, None))), (vec!["a", "c"], vec!["b", "z"], None));
}

/// The length of a path and of arguments in a reply.
const LONG: usize = 100_000;

/// A worker that sends long replies.
struct LongReplies;

impl CallHandler for LongReplies {
    fn answer(self: Arc<Self>, call: Message, _: CancelToken, reply: Reply) {
        let long = "x".repeat(LONG);
        let entry = json!({ "path": long, "kind": "file", "size_bytes": 1, "modified_ns": 0 });
        let value = match serde_json::from_slice(&call.json).unwrap() {
            ToWorker::Session { .. } => json!({ "Files": { "Entry": entry } }),
            ToWorker::ListLeft { .. } => json!([entry]),
            ToWorker::Advance { .. } => json!({ "NeedsTools": [{ "id": 0, "name": "ask", "arguments": long }] }),
            _ => json!(null),
        };
        reply.send(Ok(Message::reply(&value, Vec::new())));
    }
}

/// Returns a stepwise execution that the worker has started.
fn execution(live: Arc<LiveWorker>, reply_budget: Option<ReplyBudget>) -> WorkerExecution {
    WorkerExecution {
        live,
        execution: 1,
        wants_files: false,
        reply_budget,
        cancel: CancelToken::new(),
        script: Mutex::default(),
        is_refused: AtomicBool::default(),
        has_only_repeated: AtomicBool::default(),
        ended: CancellationToken::new(),
        runtime: Handle::current(),
        _hook: CancelToken::new().on_cancel(|| {}),
    }
}

#[tokio::test]
async fn replies_are_charged_until_their_values_are_dropped() {
    let bytes = ByteBudget::new(1 << 20, Duration::ZERO, []);
    let budget = Some(ReplyBudget { bytes: bytes.clone(), tenant: "a".to_owned() });
    let used = || (1 << 20) - bytes.free_bytes(None);
    let (here, there) = UnixStream::pair().unwrap();
    let _worker = Peer::start(there, Arc::new(LongReplies));
    let peer = Peer::start(here, Arc::new(LongReplies));
    let live = Arc::new(LiveWorker::new(peer, Command::new("true").spawn().unwrap()));

    let operation = SessionOperation::Describe { id: SessionId::random() };
    let call = ToWorker::Session { tenant: "a".to_owned(), operation };
    let reply = session_reply(&live, &call, Vec::new(), budget.clone()).await.unwrap();
    assert!(used() >= LONG, "a session operation: {}", used());
    drop(reply);
    assert_eq!(used(), 0);

    let left = WorkerFiles::new(&live, 1, budget.clone());
    let listed = spawn_blocking(move || left.list("**")).await.unwrap().unwrap();
    assert!(used() >= LONG, "a list of files: {}", used());
    drop(listed);
    assert_eq!(used(), 0);

    let started = execution(live, budget);
    let step = started.advance(Vec::new()).await;
    assert!(matches!(step, Ok(ExecutorStep::NeedsTools { .. })) && used() >= LONG, "calls to tools: {}", used());
    drop(step);
    assert_eq!(used(), 0);
}

/// A worker whose replies contain this many bytes of data.
struct DataReplies(usize);

impl CallHandler for DataReplies {
    fn answer(self: Arc<Self>, _: Message, _: CancelToken, reply: Reply) {
        reply.send(Ok(Message::reply(&(), vec![7; self.0])));
    }
}

#[tokio::test]
async fn worker_cannot_send_more_than_is_reserved_for_it() {
    let max = 100_000;
    for (len, fits) in [(0, true), (max - 1, true), (max, true), (max + 1, false), (10 * max, false)] {
        let (here, there) = UnixStream::pair().unwrap();
        let _worker = Peer::start(there, Arc::new(DataReplies(len)));
        let peer = Peer::start(here, Arc::new(LongReplies));
        let live = Arc::new(LiveWorker::new(peer, Command::new("true").spawn().unwrap()));
        let suspended = execution(Arc::clone(&live), None).suspend(max).await;
        match suspended {
            Ok(bytes) => assert!(fits && bytes.len() == len, "{len}"),
            Err(error) => assert!(!fits && matches!(error, ServiceError::WorkerDied), "{len}: {error}"),
        }
        let left = WorkerFiles::new(&live, 1, None);
        let read = spawn_blocking(move || left.read("/a", max as u64)).await.unwrap();
        assert_eq!(read.is_ok(), len == max, "a file of {len} bytes instead of {max}");
    }
}

/// A worker that describes the variables of every session with this JSON.
struct DescribedVariables(Value);

impl CallHandler for DescribedVariables {
    fn answer(self: Arc<Self>, _: Message, _: CancelToken, reply: Reply) {
        reply.send(Ok(Message::reply(&json!({ "Variables": self.0 }), Vec::new())));
    }
}

#[tokio::test]
async fn variables_from_a_worker_are_checked() {
    let variables = |count: usize| -> Value { (0..count).map(|_| json!({ "name": "x", "kind": "other" })).collect() };
    for (described, expected) in [
        (variables(2_000), Some(2_000)),
        (variables(2_001), None),
        (json!([{ "name": "x: int = 1\nimport os", "kind": "other" }]), None),
        (json!([{ "name": "x".repeat(801), "kind": "other" }]), None),
        (json!(null), None),
    ] {
        let (here, there) = UnixStream::pair().unwrap();
        let _worker = Peer::start(there, Arc::new(DescribedVariables(described.clone())));
        let peer = Peer::start(here, Arc::new(LongReplies));
        let live = LiveWorker::new(peer, Command::new("true").spawn().unwrap());
        let operation = SessionOperation::Variables { id: SessionId::random() };
        let call = ToWorker::Session { tenant: "a".to_owned(), operation };
        let reply = session_reply(&live, &call, Vec::new(), None).await.unwrap();
        assert_eq!(reply.variables().unwrap().map(|found| found.len()), expected, "{described}");
    }
}
