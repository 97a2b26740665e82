//! Tests tools that the client itself implements.

use std::{sync::Arc, time::Duration};

use glovebox::Policy;
use glovebox_server::{ServiceConfig, SuspensionLimits, TenantConfig, http::HttpConfig};
use serde_json::{Value, json};

use super::support::{Answer, Server, Setup, metric, until};

fn tools() -> Value {
    json!([{
        "name": "ask", "description": "Asks.",
        "schema": {"properties": {"question": {"type": "string"}}, "required": ["question"]},
    }])
}

/// Returns a request for a script that calls a tool once.
fn asking(language: &str) -> Value {
    let source = match language {
        "python" => "print('before')\nprint(tools.ask('name?'), flush=True)",
        _ => "console.log('before'); console.log(await tools.ask({question: 'name?'}))",
    };
    json!({"language": language, "source": source, "tools": tools(), "return_files": ["*"]})
}

fn needs(answer: &Answer) -> (String, Vec<Value>) {
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["type"], "needs-tools");
    assert!(answer["expires_after_ms"].as_u64().unwrap() > 0);
    (answer["execution"].as_str().unwrap().to_owned(), answer["calls"].as_array().unwrap().clone())
}

fn resume(server: &Server, execution: &str, answers: &Value) -> Answer {
    server.post(&format!("/v1/executions/{execution}/continue"), &json!({ "answers": answers }))
}

/// Returns a request for a script that prints and calls a tool. The script ends when the call times out.
fn unanswered(bytes: usize) -> Value {
    let source = format!("print('x' * {bytes})\ntools.ask('name?')");
    let policy = json!({"limits": {"tool_timeout_ms": 4_000}});
    json!({"language": "python", "source": source, "tools": tools(), "policy": policy})
}

/// Reads the result of an ended execution. Retries while another request is still fetching the result, because the
/// audit log reports the end before the result is fetched.
fn result(server: &Server, execution: &str) -> Answer {
    let mut answer = resume(server, execution, &json!([]));
    until("the result is fetched", || {
        let is_busy = answer.status == 409;
        if is_busy {
            answer = resume(server, execution, &json!([]));
        }
        !is_busy
    });
    answer
}

fn service(change: impl FnOnce(&mut SuspensionLimits)) -> Setup {
    let mut suspension = SuspensionLimits::default();
    change(&mut suspension);
    Setup { service: ServiceConfig { suspension, ..ServiceConfig::default() }, ..Setup::default() }
}

#[test]
fn client_answers_the_scripts_tool_calls() {
    let server = Server::start(Setup::default());
    for language in ["python", "javascript"] {
        let (execution, calls) = needs(&server.post("/v1/execute", &asking(language)));
        assert_eq!(calls, [json!({"id": 0, "name": "ask", "arguments": {"question": "name?"}})], "{language}");
        assert_eq!(metric(&server, "glovebox_running"), 0, "a waiting execution occupies no place");
        let done = resume(&server, &execution, &json!([{"id": 0, "value": "Ada"}])).ok();
        assert_eq!(done["stdout"], "before\nAda\n");
        assert_eq!(done["tool_calls"][0]["name"], "ask");
        assert_eq!(
            resume(&server, &execution, &json!([])).problem(),
            (404, "not-found".into()),
            "the execution has ended"
        );
    }
    let lines = server.audited();
    assert_eq!((lines.len(), &lines[0]["action"], &lines[0]["outcome"]), (2, &json!("execute"), &json!("completed")));
    // The final result contains the files that the first request asked for.
    let mut writes = asking("python");
    writes["source"] = json!("open('a', 'w').write(tools.ask('x'))");
    let (execution, _) = needs(&server.post("/v1/execute", &writes));
    assert_eq!(
        resume(&server, &execution, &json!([{"id": 0, "value": "text"}])).ok()["files"],
        json!({"a": "dGV4dA=="})
    );
}

#[test]
fn call_that_needs_an_approval_is_marked() {
    let server = Server::start(Setup::default());
    let mut body = asking("python");
    body["source"] = json!("try: print(tools.ask('name?'))\nexcept tools.ToolDenied as error: print('denied:', error)");
    body["policy"] = json!({"tools": {"ask": {"approve": "always"}}});
    for (answer, stdout) in [
        (json!({"id": 0, "value": "Ada"}), "Ada\n"),
        (json!({"id": 0, "error": {"type": "ToolDenied", "message": "too late"}}), "denied: too late\n"),
    ] {
        let (execution, calls) = needs(&server.post("/v1/execute", &body));
        let expected = json!({"id": 0, "name": "ask", "arguments": {"question": "name?"}, "approve": true});
        assert_eq!(calls, [expected]);
        assert_eq!(resume(&server, &execution, &json!([answer])).ok()["stdout"], stdout);
    }
    body["policy"] = json!({"tools": {"ask": {"approve": "sometimes"}}});
    assert_eq!(server.post("/v1/execute", &body).status, 400);
}

#[test]
fn calls_are_batched_and_failures_raise_errors() {
    let server = Server::start(Setup::default());
    let source = "import asyncio\nasync def main():\n    return await asyncio.gather(*(tools.ask.aio(str(n)) for n in range(3)), return_exceptions=True)\nprint(asyncio.run(main()))";
    let body = json!({"language": "python", "source": source, "tools": tools()});
    let (execution, calls) = needs(&server.post("/v1/execute", &body));
    assert_eq!(calls.len(), 3);
    // Unanswered calls are returned again.
    let (same, calls) = needs(&resume(&server, &execution, &json!([{"id": 1, "value": {"n": [1, null]}}])));
    assert_eq!((&same, calls.len()), (&execution, 2));
    let denied = json!({"type": "ToolDenied", "message": "ask me tomorrow"});
    let answers = json!([{"id": 0, "error": "no such person"}, {"id": 2, "error": denied}, {"id": 1, "value": "late"}]);
    let done = resume(&server, &execution, &answers).ok();
    assert_eq!(done["stdout"], "[ToolError('no such person'), {'n': [1, None]}, ToolDenied('ask me tomorrow')]\n");
}

#[test]
fn invalid_answer_is_rejected_and_the_execution_continues() {
    let server = Server::start(Setup::default());
    let (execution, _) = needs(&server.post("/v1/execute", &asking("python")));
    for answers in [
        json!([{"id": 7, "value": 1}]),
        json!([{"id": 0}]),
        json!([{"id": 0, "value": 1, "error": "x"}]),
        json!([{"id": -1, "value": 1}]),
        json!({}),
        json!([{"id": 0, "value": 1}, {"id": 7, "value": 1}]),
    ] {
        assert_eq!(resume(&server, &execution, &answers).problem(), (400, "invalid-argument".into()), "{answers}");
    }
    assert_eq!(resume(&server, &execution, &json!([{"id": 0, "value": "Ada"}])).ok()["stdout"], "before\nAda\n");
    for tools in [
        json!([{"name": "a b"}]),
        json!([{"name": "ask", "schema": {"type": 7}}]),
        json!([{"name": "ask"}, {"name": "ask"}]),
        json!([{"name": "ask", "callback": "https://example.com/"}]),
        json!([{"nothing": 1}]),
        json!({}),
        Value::from_iter((0..65).map(|n| json!({"name": format!("t{n}")}))),
    ] {
        let answer = server.post("/v1/execute", &json!({"language": "python", "source": "1", "tools": tools}));
        assert_eq!(answer.problem(), (400, "invalid-argument".into()), "{tools}");
    }
    let many = Value::from_iter((0..64).map(|n| json!({"name": format!("t{n}")})));
    let answer =
        server.post("/v1/execute", &json!({"language": "python", "source": "print(len(list(tools)))", "tools": many}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let with_key =
        server.ask("POST", "/v1/execute", &[("idempotency-key", "k")], asking("python").to_string().as_bytes());
    assert_eq!(with_key.problem(), (400, "invalid-argument".into()));
}

#[test]
fn suspended_session_is_busy_until_saved_at_the_end() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let etag = server.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    let body = json!({"source": "x = tools.ask('x')", "tools": tools()}).to_string();
    let first = server.ask("POST", "/v1/sessions/s/execute", &[("if-match", &etag)], body.as_bytes());
    let (execution, _) = needs(&first);
    let waiting = server.begin("GET", "/v1/sessions/s/variables/x", &[], b"");
    let done = resume(&server, &execution, &json!([{"id": 0, "value": [1, 2]}]));
    assert_eq!((done.status, done.header("etag").is_some_and(|new| new != etag)), (200, true));
    assert_eq!(Answer::read(waiting).ok()["value"], json!([1, 2]), "the waiting request ran afterwards");
    let again = server.ask("POST", "/v1/sessions/s/execute", &[("if-match", &etag)], body.as_bytes());
    assert_eq!(again.problem(), (412, "generation".into()));
    // Tools only exist for the request that defines them.
    let next = server.post("/v1/sessions/s/execute", &json!({"source": "x, hasattr(tools, 'ask')"})).ok();
    assert_eq!(next["value"]["repr"], "([1, 2], False)");
    let dir = server.stop(Duration::from_secs(5));
    let server = Server::start(Setup { dir: Some(dir), ..Setup::default() });
    assert_eq!(server.get("/v1/sessions/s/variables/x").ok()["value"], json!([1, 2]), "the session was saved");
}

#[test]
fn output_is_streamed_in_each_step() {
    let server = Server::start(Setup::default());
    let lines = |answer: Answer| -> Vec<Value> {
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let accept = [("accept", "application/x-ndjson")];
    let mut body = asking("python");
    body["source"] = json!(
        "print('one', flush=True)\na = tools.ask('a')\nprint('two', a, flush=True)\nb = tools.ask('b')\nprint('three', b)"
    );
    let first = lines(server.ask("POST", "/v1/execute", &accept, body.to_string().as_bytes()));
    assert_eq!((&first[1]["text"], &first[2]["type"]), (&json!("one\n"), &json!("needs-tools")), "{first:?}");
    assert_eq!((&first[0]["type"], &first[0]["execution"]), (&json!("started"), &first[2]["execution"]), "{first:?}");
    let path = format!("/v1/executions/{}/continue", first[2]["execution"].as_str().unwrap());
    let answer = |id: u64| json!({"answers": [{"id": id, "value": id}]}).to_string();
    let second = lines(server.ask("POST", &path, &accept, answer(0).as_bytes()));
    assert_eq!((&second[0]["text"], &second[1]["type"]), (&json!("two 0\n"), &json!("needs-tools")), "{second:?}");
    let events = server.ask("POST", &path, &[("accept", "text/event-stream")], answer(1).as_bytes()).text();
    assert!(events.starts_with("event: stdout\ndata: ") && events.contains("event: result\n"), "{events}");
    assert!(events.contains("one\\ntwo 0\\nthree 1\\n"), "the result must contain all output: {events}");
}

#[test]
fn cancelled_or_unanswered_execution_frees_its_session() {
    let server = Server::start(service(|suspension| suspension.time = Duration::from_secs(8)));
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let body = json!({"source": "print('before')\nx = tools.ask('x')", "tools": tools()});
    let (execution, _) = needs(&server.post("/v1/sessions/s/execute", &body));
    let cancelled = server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").ok();
    assert_eq!((&cancelled["outcome"]["kind"], &cancelled["stdout"]), (&json!("cancelled"), &json!("before\n")));
    assert_eq!(server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").problem().0, 404);
    assert_eq!(server.post("/v1/sessions/s/execute", &json!({"source": "1 + 1"})).ok()["value"]["json"], 2);
    let (execution, _) = needs(&server.post("/v1/sessions/s/execute", &body));
    until("its time is over", || resume(&server, &execution, &json!([{"id": 9, "value": 1}])).status == 404);
    assert_eq!(server.post("/v1/sessions/s/execute", &json!({"source": "1 + 1"})).ok()["value"]["json"], 2);
    let outcomes: Vec<_> = server
        .audited()
        .iter()
        .filter(|line| line["action"] == "execute")
        .map(|line| line["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["cancelled", "completed", "cancelled", "completed"]);
}

#[test]
fn cancelled_execution_keeps_its_session_until_its_end() {
    let change = |tenant: &mut TenantConfig| {
        (tenant.policy.limits.timeout_ms, tenant.policy.limits.timeout_reserve_ms) = (600_000, 60_000);
    };
    let server = Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() });
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let source = "
import time
try:
    tools.ask('x')
except KeyboardInterrupt:
    end = time.monotonic() + 6
    while time.monotonic() < end:
        time.sleep(0.01)
    print('cleaned up')";
    let (execution, _) = needs(&server.post("/v1/sessions/s/execute", &json!({"source": source, "tools": tools()})));
    let cancelled = server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").ok();
    assert_eq!(cancelled["stdout"], "cleaned up\n");
    assert_eq!(server.post("/v1/sessions/s/execute", &json!({"source": "1 + 1"})).ok()["value"]["json"], 2);
    assert_eq!(server.audited().iter().filter(|line| line["action"] == "execute").count(), 2);
}

#[test]
fn suspended_execution_reports_its_limit() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    // On a slow machine, a short deadline can pass before the script calls the tool.
    let ask = |deadline_ms: u64| {
        let body = json!({"source": "x = tools.ask('x')", "tools": tools(), "deadline_ms": deadline_ms});
        server.post("/v1/sessions/s/execute", &body)
    };
    let mut first = ask(300);
    for deadline_ms in [3_000, 30_000] {
        if first.status != 202 {
            first = ask(deadline_ms);
        }
    }
    let (execution, _) = needs(&first);
    // The session is free as soon as the execution has ended, even if no client has fetched the result.
    let next = server.post("/v1/sessions/s/execute", &json!({"source": "1 + 1"}));
    assert_eq!(next.ok()["value"]["json"], 2);
    assert_eq!(resume(&server, &execution, &json!([{"id": 0, "value": 1}])).ok()["outcome"]["kind"], "cancelled");
}

#[test]
fn suspended_executions_are_limited() {
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(|tenant| tenant.suspended = 2);
    let mut setup = service(|suspension| suspension.count = 3);
    (setup.tenant, setup.other) = (Some(change), Some("the other token"));
    let server = Server::start(setup);
    let body = asking("javascript").to_string();
    let ask = |token: &str| {
        let token = format!("Bearer {token}");
        server.ask("POST", "/v1/execute", &[("authorization", &token)], body.as_bytes())
    };
    let own = super::support::TOKEN;
    let (first, _) = needs(&ask(own));
    needs(&ask(own));
    assert_eq!(ask(own).problem(), (429, "quota-exceeded".into()));
    needs(&ask("the other token"));
    assert_eq!(ask("the other token").problem(), (503, "unavailable".into()));
    // A client with a different token cannot answer.
    let path = format!("/v1/executions/{first}/continue");
    let theirs = server.ask("POST", &path, &[("authorization", "Bearer the other token")], b"{}");
    assert_eq!(theirs.problem().0, 404);
    assert_eq!(resume(&server, &first, &json!([{"id": 0, "value": "x"}])).status, 200);
    needs(&ask(own));
    let plain = server.post("/v1/execute", &json!({"language": "javascript", "source": "console.log(1)"}));
    assert_eq!(plain.ok()["stdout"], "1\n", "other executions still run");
}

#[test]
fn unread_results_count_as_suspended() {
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(|tenant| tenant.suspended = 2);
    let mut setup = service(|suspension| suspension.count = 2);
    (setup.tenant, setup.other) = (Some(change), Some("the other token"));
    let server = Server::start(setup);
    let body = unanswered(1).to_string();
    let ask = |token: &str| {
        let token = format!("Bearer {token}");
        server.ask("POST", "/v1/execute", &[("authorization", &token)], body.as_bytes())
    };
    let own = super::support::TOKEN;
    let [first, second] = [(); 2].map(|()| needs(&ask(own)).0);
    until("both have ended", || server.audited().len() == 2);
    assert_eq!(ask(own).problem(), (429, "quota-exceeded".into()));
    assert_eq!(ask("the other token").problem(), (503, "unavailable".into()));
    assert_eq!(result(&server, &first).ok()["outcome"]["kind"], "raised");
    let (third, _) = needs(&ask(own));
    assert_eq!(ask(own).problem(), (429, "quota-exceeded".into()), "the second result is unread");
    let unread = server.ask("DELETE", &format!("/v1/executions/{second}"), &[], b"").ok();
    assert_eq!(unread["outcome"]["kind"], "raised");
    until("its place is free", || ask("the other token").status == 202);
    until("all have ended", || server.audited().len() == 4);
    assert_eq!(result(&server, &third).ok()["outcome"]["kind"], "raised");
}

#[test]
fn total_size_of_unread_results_is_limited() {
    let http = HttpConfig { bodies_bytes: 2 << 20, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..Setup::default() });
    let ended = |bytes: usize| {
        let before = server.audited().len();
        let (execution, _) = needs(&server.post("/v1/execute", &unanswered(bytes)));
        until("it has ended", || server.audited().len() > before);
        execution
    };
    // Results can use seven eighths of the memory: 1,835,008 bytes.
    let [first, over, under] = [1_000_000, 1_000_000, 700_000].map(&ended);
    assert_eq!(result(&server, &over).problem(), (404, "not-found".into()), "there is no room for a second result");
    let printed = |execution: &str| result(&server, execution).ok()["stdout"].as_str().unwrap().len();
    assert_eq!((printed(&under), printed(&first)), (700_001, 1_000_001));
    assert_eq!(printed(&ended(1_000_000)), 1_000_001, "the memory is free again");
}

#[test]
fn result_without_room_for_its_answer_stays_unread() {
    let http = HttpConfig { bodies_bytes: 2 << 20, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..Setup::default() });
    let ended = |body: &Value| {
        let before = server.audited().len();
        let (execution, _) = needs(&server.post("/v1/execute", body));
        until("it has ended", || server.audited().len() > before);
        execution
    };
    // The other result leaves 330 kB for the file.
    let large = ended(&unanswered(1_500_000));
    let mut writes = unanswered(1);
    writes["source"] = json!("open('a', 'w').write('x' * 300_000)\ntools.ask('name?')");
    writes["return_files"] = json!(["a"]);
    let execution = ended(&writes);
    let cancel = || server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"");
    for _ in 0..2 {
        assert_eq!(result(&server, &execution).problem(), (503, "unavailable".into()));
        assert_eq!(cancel().problem(), (503, "unavailable".into()), "a cancelled result stays, too");
    }
    assert_eq!(result(&server, &large).ok()["stdout"].as_str().unwrap().len(), 1_500_001);
    let mut answer = cancel();
    until("the first answer is sent", || {
        let is_refused = answer.status == 503;
        if is_refused {
            answer = cancel();
        }
        !is_refused
    });
    assert_eq!(answer.ok()["files"]["a"].as_str().unwrap().len(), 400_000);
    assert_eq!(resume(&server, &execution, &json!([])).problem().0, 404, "a result is read once");
}

#[test]
fn result_that_never_fits_is_rejected_once() {
    let http = HttpConfig { bodies_bytes: 2 << 20, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..Setup::default() });
    let mut writes = unanswered(1);
    // In base64, the file exceeds the 1,835,008 bytes for responses.
    writes["source"] = json!("open('a', 'w').write('x' * 1_400_000)\ntools.ask('name?')");
    writes["return_files"] = json!(["a"]);
    let (execution, _) = needs(&server.post("/v1/execute", &writes));
    until("it has ended", || server.audited().len() == 1);
    let answer = result(&server, &execution);
    assert_eq!(answer.problem(), (413, "too-large".into()));
    assert!(answer.text().contains("the maximum for this token is 1835008 (`http.bodies_bytes`)"), "{answer:?}");
    assert_eq!(resume(&server, &execution, &json!([])).problem().0, 404, "the result no longer occupies memory");
}

#[test]
fn disconnecting_ends_a_resumed_execution() {
    let server = Server::start(Setup::default());
    let mut body = asking("python");
    body["source"] = json!("tools.ask('x')\nwhile True: pass");
    let (execution, _) = needs(&server.post("/v1/execute", &body));
    let answers = json!({"answers": [{"id": 0, "value": 1}]}).to_string();
    let stream = server.begin("POST", &format!("/v1/executions/{execution}/continue"), &[], answers.as_bytes());
    until("it runs", || metric(&server, "glovebox_running") == 1);
    let second = resume(&server, &execution, &json!([]));
    assert_eq!(second.problem(), (409, "execution-busy".into()));
    drop(stream);
    until("it has ended", || metric(&server, "glovebox_running") == 0);
    until("it is written down", || server.audited().len() == 1);
    assert_eq!(server.audited()[0]["outcome"], "cancelled");
}

#[test]
fn stopping_server_ends_suspended_executions() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    server.post("/v1/sessions/s/execute", &json!({"source": "x = 1"})).ok();
    let body = json!({"source": "x = tools.ask('x')", "tools": tools()});
    let (execution, _) = needs(&server.post("/v1/sessions/s/execute", &body));
    // The client of a request in progress also receives the reason. The server's `100 Continue` shows that it waits for
    // the body.
    let path = format!("/v1/executions/{execution}/continue");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
        server.address,
        super::support::TOKEN
    );
    let mut late = server.send(head.as_bytes());
    let mut goes_on = Vec::new();
    while !goes_on.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut late, &mut byte).unwrap();
        goes_on.push(byte[0]);
    }
    assert!(goes_on.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&goes_on));
    let service = server.service.clone();
    let ending = std::thread::spawn(move || server.stop(Duration::from_secs(5)));
    until("it drains", || service.is_draining());
    std::io::Write::write_all(&mut late, b"{}").unwrap();
    let response = Answer::read(late);
    assert!(matches!(response.problem().0, 503 | 404), "{response:?}");
    let dir: Arc<_> = ending.join().unwrap();
    let server = Server::start(Setup { dir: Some(dir), ..Setup::default() });
    assert_eq!(server.get("/v1/sessions/s/variables/x").ok()["value"], 1);
    assert_eq!(resume(&server, &execution, &json!([])).problem().0, 404);
}

#[test]
fn request_adds_to_the_policys_restrictions_of_a_tool() {
    let policy = Policy::from_toml("[tools.ask.schema.properties]\nquestion = { maxLength = 5 }").unwrap();
    let change = move |tenant: &mut TenantConfig| tenant.policy = policy;
    let server = Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() });
    let source = "
for question in ['why', 'name?', 'longer']:
    try:
        print(tools.ask(question))
    except tools.ToolError as error:
        print(type(error).__name__)";
    let restricted = |restrictions: Value| {
        let policy = json!({"tools": {"ask": restrictions}});
        server.post("/v1/execute", &json!({"language": "python", "source": source, "tools": tools(), "policy": policy}))
    };
    assert_eq!(restricted(json!({"max_calls": 0})).ok()["stdout"], "ToolLimit\nToolLimit\nToolLimit\n");
    let longer = json!({"schema": {"properties": {"question": {"minLength": 4, "maxLength": 9}}}});
    let (execution, calls) = needs(&restricted(longer));
    assert_eq!(calls, [json!({"id": 1, "name": "ask", "arguments": {"question": "name?"}})]);
    let done = resume(&server, &execution, &json!([{"id": 1, "value": "Ada"}])).ok();
    assert_eq!(done["stdout"], "InvalidArguments\nAda\nInvalidArguments\n");
    let remote = json!({"schema": {"$ref": "http://127.0.0.1:1/schema.json"}});
    assert_eq!(restricted(remote).problem(), (400, "invalid-policy".into()));
}
