//! Tests suspended executions that the server stores.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glovebox::{SessionKey, Timestamp, Tool};
use glovebox_server::{TenantConfig, http::HttpConfig};
use serde_json::{Value, json};

use super::support::{Answer, LINES, Server, Setup, metric, until};

const OTHER: &str = "the other token";
/// The default lifetime of a stored execution.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Scripts that receive a file, times and random numbers, and call a tool twice.
const SCRIPTS: [(&str, &str); 2] = [
    (
        "python",
        "import random, time\nprint(random.random(), time.time_ns())\nprint(tools.ask(q=1), open('given').read())\nopen('out', 'w').write(tools.ask(q=2))",
    ),
    (
        "javascript",
        "const fs = require('fs');\nprint(Math.random(), Date.now());\nprint(await tools.ask({q: 1}), fs.readFileSync('given', 'utf8'));\nfs.writeFileSync('out', await tools.ask({q: 2}));",
    ),
];

fn setup() -> Setup {
    Setup { other: Some(OTHER), key: Some(SessionKey::new(&[7; 32]).unwrap()), ..Setup::default() }
}

fn with_tenant(change: impl FnOnce(&mut TenantConfig) + 'static) -> Server {
    Server::start(Setup { tenant: Some(Box::new(change)), ..setup() })
}

/// Returns a server with the tool `pay`, and the number of calls to it.
fn with_payments() -> (Server, Arc<AtomicUsize>) {
    let paid = Arc::new(AtomicUsize::new(0));
    let payments = Arc::clone(&paid);
    let server = with_tenant(move |tenant| {
        let pay = Tool::new("pay", "Pays.").handler(move |_, _| {
            payments.fetch_add(1, Ordering::SeqCst);
            Ok(json!("paid"))
        });
        tenant.tools = vec![pay];
    });
    (server, paid)
}

fn request(language: &str, source: &str) -> Value {
    json!({
        "language": language, "source": source, "tools": [{"name": "ask"}], "files": {"given": "file"},
        "policy": {"limits": {"tool_calls": 5}}, "return_files": ["out"], "suspend": true,
    })
}

/// Returns the ID and the calls of a stored execution.
fn stored(answer: &Answer) -> (String, Value) {
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["type"], "suspended", "{answer}");
    (answer["id"].as_str().unwrap().to_owned(), answer["calls"].clone())
}

/// Starts an execution that calls a tool once, and returns its ID when it is stored.
fn start(server: &Server) -> String {
    stored(&server.post("/v1/execute", &request("python", "print(tools.ask(q=1))"))).0
}

fn path(id: &str) -> String {
    format!("/v1/suspended/{id}")
}

fn resume(server: &Server, id: &str, answers: &Value) -> Answer {
    server.post(&path(id), &json!({ "answers": answers }))
}

fn delete(server: &Server, id: &str) -> Answer {
    server.ask("DELETE", &path(id), &[], b"")
}

fn answer(id: u64, value: &str) -> Value {
    json!([{"id": id, "value": value}])
}

/// Returns the IDs that the server lists.
fn listed(server: &Server) -> Vec<String> {
    let page = server.get("/v1/suspended").ok();
    page["suspended"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

fn is_gone(answer: &Answer) -> bool {
    answer.problem() == (404, "not-found".into()) && answer.text().contains("was resumed or deleted, or it has expired")
}

#[test]
fn stored_execution_survives_a_restart_and_is_resumed_once() {
    for (language, source) in SCRIPTS {
        let server = Server::start(setup());
        let (first, calls) = stored(&server.post("/v1/execute", &request(language, source)));
        assert_eq!(calls, json!([{"id": 0, "name": "ask", "arguments": {"q": 1}}]), "{language}");
        let dir = server.stop(Duration::from_secs(5));

        let server = Server::start(Setup { dir: Some(dir), ..setup() });
        assert_eq!(listed(&server), [first.as_str()], "{language}");
        let described = server.get(&path(&first)).ok();
        assert_eq!((&described["calls"], &described["session"]), (&calls, &Value::Null), "{language}");
        let (second, calls) = stored(&resume(&server, &first, &answer(0, "one")));
        assert_eq!((&calls[0]["id"], &calls[0]["arguments"]), (&json!(1), &json!({"q": 2})), "{language}");
        assert_eq!(listed(&server), [second.as_str()], "{language}");
        assert!(is_gone(&resume(&server, &first, &answer(0, "one"))) && is_gone(&server.get(&path(&first))));
        let done = resume(&server, &second, &answer(1, "two")).ok();
        let lines: Vec<_> = done["stdout"].as_str().unwrap().lines().skip(1).collect();
        assert_eq!((lines, &done["files"]["out"]), (vec!["one file"], &json!("dHdv")), "{language}: {done}");
        assert!(is_gone(&resume(&server, &second, &answer(1, "two"))) && listed(&server).is_empty(), "{language}");
        let outcomes: Vec<_> = server.audited().iter().map(|line| line["outcome"].clone()).collect();
        assert_eq!(outcomes, ["suspended", "completed"], "{language}");
        assert_eq!(metric(&server, "glovebox_running"), 0);
    }
}

#[test]
fn one_of_several_concurrent_requests_continues_the_script() {
    let (server, paid) = with_payments();
    let source = "print(tools.ask(q=1), tools.pay())";
    for round in 1..=5 {
        let (id, _) = stored(&server.post("/v1/execute", &request("python", source)));
        let body = json!({"answers": answer(0, "yes")}).to_string();
        let streams: Vec<_> = (0..6).map(|_| server.begin("POST", &path(&id), &[], body.as_bytes())).collect();
        let answers: Vec<_> = streams.into_iter().map(Answer::read).collect();
        let done: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(done.len(), 1, "{answers:?}");
        assert_eq!(done[0].ok()["stdout"], "yes paid\n");
        let refused = answers.iter().filter(|answer| answer.status != 200);
        for answer in refused {
            let problem = answer.problem();
            assert!(problem == (409, "execution-busy".into()) || is_gone(answer), "{answer:?}");
        }
        assert_eq!(paid.load(Ordering::SeqCst), round, "the effect happens once");
    }
}

#[test]
fn script_without_a_claim_handles_no_cancellation() {
    let (server, paid) = with_payments();
    let source = "try:\n    print(tools.ask(q=1))\nexcept BaseException:\n    tools.pay()\n    raise";
    for _ in 0..5 {
        let (id, _) = stored(&server.post("/v1/execute", &request("python", source)));
        let body = json!({"answers": answer(0, "yes")}).to_string();
        let streams: Vec<_> = (0..6).map(|_| server.begin("POST", &path(&id), &[], body.as_bytes())).collect();
        let answers: Vec<_> = streams.into_iter().map(Answer::read).collect();
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    }
    assert_eq!(paid.load(Ordering::SeqCst), 0);
}

#[test]
fn request_that_fails_before_the_script_continues_can_be_repeated() {
    let server = Server::start(setup());
    let id = start(&server);
    for body in [
        json!({}),
        json!({"answers": []}),
        json!({"answers": [{"id": 7, "value": 1}]}),
        json!({"answers": [{"id": 0, "value": 1}, {"id": 7, "value": 1}]}),
        json!({"answers": [{"id": 0}]}),
        json!({"answers": answer(0, "x"), "ttl_ms": 999}),
        json!({"answers": answer(0, "x"), "ttl_ms": 2_592_000_001_u64}),
        json!({"answers": answer(0, "x"), "source": "1"}),
        json!({"answers": answer(0, "x"), "return_files": ["*".repeat(9)]}),
    ] {
        assert_eq!(server.post(&path(&id), &body).problem(), (400, "invalid-argument".into()), "{body}");
    }
    let deep = format!("{{\"answers\": [{{\"id\": 0, \"value\": {}{}}}]}}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(server.ask("POST", &path(&id), &[], deep.as_bytes()).problem().0, 400);
    let body = json!({"answers": answer(0, "x")}).to_string();
    let conditional = server.ask("POST", &path(&id), &[("if-match", "*")], body.as_bytes());
    assert_eq!(conditional.problem(), (400, "invalid-argument".into()), "it is not in a session");
    let unknown = resume(&server, &id, &json!([{"id": 7, "value": 1}]));
    assert!(unknown.text().contains("waiting calls: 0"), "{unknown:?}");
    assert_eq!(resume(&server, &id, &answer(0, "x")).ok()["stdout"], "x\n");
}

#[test]
fn calls_can_be_answered_in_several_requests() {
    let server = Server::start(setup());
    let source = "import asyncio\nasync def main():\n    print(await asyncio.gather(*(tools.ask.aio(q=n) for n in range(3)), return_exceptions=True))\nasyncio.run(main())";
    let (id, calls) = stored(&server.post("/v1/execute", &request("python", source)));
    assert_eq!(calls.as_array().unwrap().len(), 3);
    let (id, calls) = stored(&resume(&server, &id, &answer(1, "b")));
    let ids: Vec<_> = calls.as_array().unwrap().iter().map(|call| call["id"].clone()).collect();
    assert_eq!(ids, [0, 2]);
    let denied = json!({"type": "ToolDenied", "message": "no"});
    let done = resume(&server, &id, &json!([{"id": 2, "value": "c"}, {"id": 0, "error": denied}])).ok();
    assert_eq!(done["stdout"], "[ToolDenied('no'), 'b', 'c']\n");
}

#[test]
fn stored_execution_expires() {
    let server = Server::start(setup());
    let mut brief = request("python", "tools.ask(q=1)");
    for ttl_ms in [0, 999, 2_592_000_001_u64] {
        brief["ttl_ms"] = ttl_ms.into();
        assert_eq!(server.post("/v1/execute", &brief).problem(), (400, "invalid-argument".into()), "{ttl_ms}");
    }
    assert!(server.audited().is_empty(), "no script ran");
    let before = Timestamp::now();
    let remaining = start(&server);
    brief["ttl_ms"] = 1_000.into();
    let (id, _) = stored(&server.post("/v1/execute", &brief));
    until("it has expired", || server.get(&path(&id)).status == 404);
    assert!(is_gone(&resume(&server, &id, &answer(0, "x"))) && is_gone(&delete(&server, &id)));
    let page = server.get("/v1/suspended").ok();
    assert_eq!((listed(&server), &page["next"]), (vec![remaining], &Value::Null));
    let entry = &page["suspended"][0];
    let time = |name: &str| entry[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    let (created, expires) = (time("created_at"), time("expires_at"));
    assert!(created >= before && expires.since(before) >= WEEK && expires.since(created) <= WEEK, "{entry}");
    // Without `suspend`, there is nothing to store.
    brief["suspend"] = false.into();
    assert_eq!(server.post("/v1/execute", &brief).problem(), (400, "invalid-argument".into()));
}

#[test]
fn other_tenants_have_no_access() {
    let server = Server::start(setup());
    let id = start(&server);
    let token = format!("Bearer {OTHER}");
    let body = json!({"answers": answer(0, "x")}).to_string();
    let ask =
        |method: &str, path: &str, body: &str| server.ask(method, path, &[("authorization", &token)], body.as_bytes());
    for (method, body) in [("GET", ""), ("POST", &*body), ("DELETE", "")] {
        assert!(is_gone(&ask(method, &path(&id), body)), "{method}");
    }
    assert_eq!(ask("GET", "/v1/suspended", "").ok()["suspended"], json!([]));
    for other in ["x", "..", "%2e%2e%2fone", &id.to_uppercase(), &format!("{id}0")] {
        assert!(is_gone(&server.get(&path(other))) && is_gone(&delete(&server, other)), "{other}");
    }
    assert_eq!(resume(&server, &id, &answer(0, "x")).ok()["stdout"], "x\n");
}

#[test]
fn suspended_execution_is_deleted() {
    let server = Server::start(setup());
    let id = start(&server);
    assert_eq!(delete(&server, &id).status, 204);
    assert!(is_gone(&delete(&server, &id)) && is_gone(&resume(&server, &id, &answer(0, "x"))));
    let deletions: Vec<_> = server.audited().into_iter().filter(|line| line["action"] == "delete-suspended").collect();
    assert_eq!(deletions.len(), 2, "{deletions:?}");
    assert_eq!((&deletions[0]["of"], &deletions[0]["outcome"]), (&json!(id), &json!("done")));
    assert_eq!(deletions[1]["outcome"], "not-found");
}

#[test]
fn script_does_not_run_without_a_store_or_room() {
    let server = with_tenant(|tenant| tenant.suspended_store = None);
    let refused = server.post("/v1/execute", &request("python", "tools.ask(q=1)"));
    assert!(
        refused.problem() == (422, "unsupported".into()) && refused.text().contains("`suspendable`"),
        "{refused:?}"
    );
    for answer in [server.get("/v1/suspended"), server.get(&path("x")), delete(&server, "x")] {
        assert_eq!(answer.problem(), (422, "unsupported".into()));
    }
    let server = with_tenant(|tenant| tenant.stored_suspended = 1);
    let id = start(&server);
    let full = server.post("/v1/execute", &request("python", "tools.ask(q=1)"));
    assert_eq!(full.problem(), (429, "quota-exceeded".into()));
    assert_eq!(server.audited().len(), 1, "the second script did not run");
    // The entry of a resumed execution is free for its next wait.
    let (id, _) = {
        assert_eq!(delete(&server, &id).status, 204);
        stored(&server.post("/v1/execute", &request("python", SCRIPTS[0].1)))
    };
    let (id, _) = stored(&resume(&server, &id, &answer(0, "one")));
    resume(&server, &id, &answer(1, "two")).ok();
    let mut body = request("python", "1");
    body["tools"] = json!([]);
    assert_eq!(server.post("/v1/execute", &body).problem(), (400, "invalid-argument".into()));
}

#[test]
fn execution_that_cannot_be_stored_waits_in_memory() {
    let unstored = |answer: &Answer, problem: (u64, &str)| {
        let waiting = answer.json();
        assert_eq!((answer.status, &waiting["type"]), (202, &json!("needs-tools")), "{waiting}");
        let not_stored = &waiting["not_stored"];
        assert_eq!((&not_stored["status"], &not_stored["type"]), (&json!(problem.0), &json!(problem.1)), "{waiting}");
        waiting["execution"].as_str().unwrap().to_owned()
    };
    let go_on = |server: &Server, execution: &str, answers: &Value| {
        server.post(&format!("/v1/executions/{execution}/continue"), &json!({ "answers": answers }))
    };
    // The journal needs up to 2 MiB.
    let server = with_tenant(|tenant| tenant.stored_bytes = 2 << 20);
    let waiting = server.post("/v1/execute", &request("python", "print(tools.ask(q=1))"));
    let execution = unstored(&waiting, (429, "quota-exceeded"));
    assert_eq!(go_on(&server, &execution, &answer(0, "x")).ok()["stdout"], "x\n");

    let http = HttpConfig { bodies_bytes: 2 << 20, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..setup() });
    let waiting = server.post("/v1/execute", &request("python", "print(tools.ask(q=1))"));
    let execution = unstored(&waiting, (413, "too-large"));
    assert_eq!(go_on(&server, &execution, &answer(0, "x")).ok()["stdout"], "x\n");

    // The record of the answers is limited to 1 MiB.
    let server = Server::start(setup());
    let source = "for n in range(3): print(len(tools.ask(q=n)))";
    let (id, _) = stored(&server.post("/v1/execute", &request("python", source)));
    let long = "x".repeat(700_000);
    let (id, _) = stored(&resume(&server, &id, &answer(0, &long)));
    let execution = unstored(&resume(&server, &id, &answer(1, &long)), (409, "not-suspendable"));
    assert!(is_gone(&resume(&server, &id, &answer(1, &long))));
    assert_eq!(go_on(&server, &execution, &answer(2, "x")).ok()["stdout"], "700000\n700000\n1\n");

    let (id, _) = stored(&server.post("/v1/execute", &request("python", SCRIPTS[0].1)));
    let waiting = server.post(&path(&id), &json!({"answers": answer(0, "one"), "suspend": false}));
    assert!(waiting.status == 202 && waiting.json()["type"] == "needs-tools", "{waiting:?}");
    assert!(waiting.json().get("not_stored").is_none() && listed(&server).is_empty(), "{waiting:?}");
    go_on(&server, waiting.json()["execution"].as_str().unwrap(), &answer(1, "two")).ok();
}

#[test]
fn retry_with_a_key_returns_the_same_response() {
    let server = Server::start(setup());
    let ask = |path: &str, key: &str, body: &Value| {
        server.ask("POST", path, &[("idempotency-key", key)], body.to_string().as_bytes())
    };
    let [first, again] = [(); 2].map(|()| ask("/v1/execute", "a", &request("python", "print(tools.ask(q=1))")));
    assert_eq!(stored(&first), stored(&again));
    let id = stored(&first).0;
    let body = json!({"answers": answer(0, "x")});
    let [first, again] = [(); 2].map(|()| ask(&path(&id), "b", &body));
    assert_eq!((&first.ok()["stdout"], again.status, &again.body), (&json!("x\n"), 200, &first.body));
    assert!(is_gone(&ask(&path(&id), "c", &body)));
    assert_eq!(ask(&path(&id), "b", &json!({"answers": answer(0, "y")})).problem(), (422, "idempotency-key".into()));
    let mut waits = request("python", "tools.ask(q=1)");
    waits["suspend"] = false.into();
    assert_eq!(ask("/v1/execute", "d", &waits).problem(), (400, "invalid-argument".into()));
}

#[test]
fn streamed_execution_ends_with_its_id() {
    let server = Server::start(setup());
    let source = "print('one', flush=True)\nprint('two', tools.ask(q=1), flush=True)";
    let last = |path: &str, body: &Value| {
        let answer = server.ask("POST", path, &[LINES], body.to_string().as_bytes());
        let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap().to_owned()).collect();
        (types, lines.into_iter().last().unwrap())
    };
    let (types, suspended) = last("/v1/execute", &request("python", source));
    assert_eq!(types, ["started", "stdout", "suspended"]);
    let (types, done) = last(&path(suspended["id"].as_str().unwrap()), &json!({"answers": answer(0, "x")}));
    assert_eq!(types, ["started", "stdout", "result"]);
    assert_eq!(done["result"]["stdout"], "one\ntwo x\n");
}

#[test]
fn lists_are_paged() {
    let server = Server::start(setup());
    let ids: Vec<String> = (0..3).map(|_| start(&server)).collect();
    let all = listed(&server);
    assert!(ids.iter().all(|id| all.contains(id)) && all.is_sorted() && all.len() == 3, "{all:?}");
    let first = server.get("/v1/suspended?limit=2").ok();
    assert_eq!((first["suspended"].as_array().unwrap().len(), &first["next"]), (2, &json!(all[1])));
    let second = server.get(&format!("/v1/suspended?limit=2&after={}", all[1])).ok();
    assert_eq!((&second["suspended"][0]["id"], &second["next"]), (&json!(all[2]), &Value::Null));
    for query in ["limit=0", "limit=1001", "limit=x", "after=a/b", "other=1"] {
        assert_eq!(
            server.get(&format!("/v1/suspended?{query}")).problem(),
            (400, "invalid-argument".into()),
            "{query}"
        );
    }
}

#[test]
fn changed_bytes_are_rejected() {
    let server = Server::start(setup());
    let id = start(&server);
    let file = server.dir.path().join("one-suspended").join(format!("{id}.session"));
    let bytes = std::fs::read(&file).unwrap();
    let mut changed = bytes.clone();
    // Changes the last bytes of the tool's definition, which the execution's seal does not cover.
    let at = bytes.windows(5).position(|window| window == b"\"ask\"").unwrap();
    changed[at + 1] = b'b';
    std::fs::write(&file, changed).unwrap();
    assert_eq!(resume(&server, &id, &answer(0, "x")).problem(), (400, "invalid-argument".into()));
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(resume(&server, &id, &answer(0, "x")).ok()["stdout"], "x\n");
}

#[test]
fn late_request_does_not_replace_the_state_of_a_session() {
    let server = Server::start(setup());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let body = json!({"source": "x = tools.ask(q=1)", "tools": [{"name": "ask"}], "suspend": true});
    let (id, _) = stored(&server.post("/v1/sessions/s/execute", &body));
    let body = json!({"answers": answer(0, "one")}).to_string();
    let any = [("if-match", "*")];
    let streams: Vec<_> = (0..4).map(|_| server.begin("POST", &path(&id), &any, body.as_bytes())).collect();
    let answers: Vec<_> = streams.into_iter().map(Answer::read).collect();
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    let read = server.post("/v1/sessions/s/execute", &json!({"source": "x"})).ok();
    assert_eq!(read["value"]["json"], "one", "{answers:?}");
}

#[test]
fn execution_in_a_session_continues_after_a_restart() {
    let server = Server::start(setup());
    let run = |server: &Server, source: &str| {
        server.post("/v1/sessions/s/execute", &json!({ "source": source })).ok()["value"]["json"].clone()
    };
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    run(&server, "x = ['before']; None");
    let body = json!({"source": "x.append(tools.ask(q=1)); x.append(tools.ask(q=2))", "tools": [{"name": "ask"}], "suspend": true});
    let suspended = server.post("/v1/sessions/s/execute", &body);
    let etag = |answer: &Answer| answer.header("etag").map(str::to_owned);
    assert_eq!(etag(&suspended), etag(&server.get("/v1/sessions/s")));
    let (first, _) = stored(&suspended);
    assert_eq!(suspended.json()["session"], "s");
    assert_eq!(run(&server, "len(x)"), 1, "the session is in the state before the execution");
    let dir = server.stop(Duration::from_secs(5));

    let server = Server::start(Setup { dir: Some(dir), ..setup() });
    assert_eq!(resume(&server, &first, &answer(0, "one")).problem(), (412, "generation".into()));
    let any = |id: &str, answers: &Value| {
        let body = json!({ "answers": answers }).to_string();
        server.ask("POST", &path(id), &[("if-match", "*")], body.as_bytes())
    };
    let (second, _) = stored(&any(&first, &answer(0, "one")));
    resume(&server, &second, &answer(1, "two")).ok();
    assert_eq!(run(&server, "' '.join(x)"), "before one two");
    assert!(is_gone(&any(&first, &answer(0, "one"))));
}

#[test]
fn description_keeps_its_memory_until_the_response_is_charged() {
    let server = Server::start(Setup { other: None, ..setup() });
    let (id, _) = stored(&server.post("/v1/execute", &request("python", "tools.ask(q='x' * 400_000)")));
    let dir = server.stop(Duration::from_secs(5));
    // The stored execution is 0.8 MB long, and needs twice as much while it is read. The server allows 1.84 MB, which
    // is too little for one read and one response.
    let http = HttpConfig { bodies_bytes: 2_100_000, body_time: Duration::from_millis(1), ..HttpConfig::default() };
    let server = Server::start(Setup { http, dir: Some(dir), other: None, ..setup() });
    for _ in 0..20 {
        let streams: Vec<_> = (0..4).map(|_| server.begin("GET", &path(&id), &[], b"")).collect();
        for answer in streams.into_iter().map(Answer::read) {
            // A response without memory would be replaced by another problem: `the request was executed, but …`.
            let is_refused_early = || answer.problem() == (503, "unavailable".into()) && !answer.text().contains("but");
            assert!(answer.status == 200 || is_refused_early(), "{}: {:.200}", answer.status, answer.text());
        }
    }
    until("the memory is free again", || server.get(&path(&id)).status == 200);
}
