//! Tests sessions over HTTP.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use glovebox_server::http::HttpConfig;
use serde_json::{Value, json};

use super::support::{Answer, Server, Setup, until};

fn execute(server: &Server, id: &str, source: &str) -> Value {
    server.post(&format!("/v1/sessions/{id}/execute"), &json!({ "source": source })).ok()
}

#[test]
fn session_supports_every_operation() {
    for language in ["python", "javascript"] {
        let server = Server::start(Setup::default());
        let opened =
            server.post("/v1/sessions", &json!({"id": "s", "language": language, "context": [1, {"a": null}]}));
        assert_eq!((opened.status, &opened.json()["executions"]), (201, &json!(0)));
        assert_eq!(execute(&server, "s", "context[0] + 1")["value"]["json"], 2);
        execute(&server, "s", "x = 40");
        assert_eq!(server.get("/v1/sessions/s/variables/x").ok(), json!({"repr": "40", "value": 40}));
        assert_eq!(server.ask("PUT", "/v1/sessions/s/variables/x", &[], b" [41] ").status, 204);
        assert_eq!(execute(&server, "s", "x[0]")["value"]["json"], 41);
        assert_eq!(server.get("/v1/sessions/s/variables/nothing").problem(), (404, "no-variable".into()));
        // File paths may contain arbitrary characters.
        assert_eq!(server.ask("PUT", "/v1/sessions/s/files/d/%C3%A9%20a.txt", &[], b"bytes \xff").status, 204);
        assert_eq!(server.get("/v1/sessions/s/files/d/%C3%A9%20a.txt").body, b"bytes \xff");
        let paths = |pattern: &str| -> Vec<String> {
            let listed = server.get(&format!("/v1/sessions/s/files{pattern}")).ok();
            listed["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((paths(""), paths("?pattern=*.txt")), (vec!["d".to_owned(), "d/é a.txt".to_owned()], vec![]));
        assert_eq!(server.ask("DELETE", "/v1/sessions/s/files/d", &[], b"").problem(), (422, "file".into()));
        assert_eq!(server.ask("DELETE", "/v1/sessions/s/files/d?recursive=true", &[], b"").status, 204);
        assert_eq!(paths(""), Vec::<String>::new());
        let checkpoint = server.ask("POST", "/v1/sessions/s/checkpoint", &[], b"").ok()["checkpoint"].clone();
        execute(&server, "s", "x = 'changed'");
        let fork = server.post("/v1/sessions/s/fork", &json!({"id": "t"}));
        assert_eq!((fork.status, &fork.json()["id"]), (201, &json!("t")));
        let ids: Vec<u64> = server.get("/v1/sessions/s/checkpoints").ok()["checkpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|checkpoint| checkpoint["id"].as_u64().unwrap())
            .collect();
        assert!(ids.contains(&checkpoint.as_u64().unwrap()), "{ids:?}");
        server.post("/v1/sessions/s/undo", &json!({ "checkpoint": checkpoint })).ok();
        assert_eq!(execute(&server, "s", "x[0]")["value"]["json"], 41);
        assert_eq!(execute(&server, "t", "x")["value"]["json"], "changed");
        assert_eq!(
            server.post("/v1/sessions/s/undo", &json!({"checkpoint": 999})).problem(),
            (409, "no-checkpoint".into())
        );
        // Exports the session and imports it under another name.
        assert_eq!(server.ask("POST", "/v1/sessions/s/hibernate", &[], b"").ok(), json!({"was_live": true}));
        let state = server.get("/v1/sessions/s/state");
        assert_eq!(state.header("content-type"), Some("application/octet-stream"));
        assert_eq!(server.ask("PUT", "/v1/sessions/u", &[], &state.body).status, 201);
        assert_eq!(execute(&server, "u", "x[0] + 1")["value"]["json"], 42);
        let sessions = server.get("/v1/sessions").ok();
        let ids: Vec<_> =
            sessions["sessions"].as_array().unwrap().iter().map(|session| session["id"].clone()).collect();
        assert_eq!(ids, ["s", "t", "u"]);
        assert_eq!(server.ask("DELETE", "/v1/sessions/u", &[], b"").status, 204);
        assert_eq!(server.get("/v1/sessions/u").problem(), (404, "not-found".into()));
        assert_eq!(server.post("/v1/sessions/u/execute", &json!({"source": "1"})).problem(), (404, "not-found".into()));
    }
}

#[test]
fn sessions_survive_a_restart() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    execute(&server, "s", "x = 7");
    let dir = server.stop(Duration::from_secs(5));
    let server = Server::start(Setup { dir: Some(dir), ..Setup::default() });
    assert_eq!(execute(&server, "s", "x")["value"]["json"], 7);
}

#[test]
fn acknowledged_state_is_stored_without_shutdown() {
    // Simulates `kill -9`: a second server reads the store while the first one still runs.
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    for n in 0..3 {
        execute(&server, "s", &format!("x = {n}"));
        let copy = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(copy.path().join("one")).unwrap();
        let name = "s.session";
        std::fs::copy(server.dir.path().join("one").join(name), copy.path().join("one").join(name)).unwrap();
        let other = Server::start(Setup { dir: Some(copy), ..Setup::default() });
        assert_eq!(execute(&other, "s", "x")["value"]["json"], n);
    }
}

#[test]
fn changed_session_fails_the_precondition() {
    let server = Server::start(Setup::default());
    let opened = server.post("/v1/sessions", &json!({"id": "s", "language": "python"}));
    let first = opened.header("etag").unwrap().to_owned();
    assert_eq!(server.get("/v1/sessions/s").header("etag"), Some(&*first));
    let ask = |expected: &str| {
        let body = json!({"source": "n = globals().get('n', 0) + 1; n"}).to_string();
        server.ask("POST", "/v1/sessions/s/execute", &[("if-match", expected)], body.as_bytes())
    };
    let done = ask(&first);
    let second = done.header("etag").unwrap().to_owned();
    assert!(done.ok()["value"]["json"] == 1 && second != first);
    assert_eq!(ask(&first).problem(), (412, "generation".into()), "a refused request must not run");
    assert_eq!(ask(&second).ok()["value"]["json"], 2);
    assert_eq!(ask("*").ok()["value"]["json"], 3);
    // Routes that do not support preconditions reject them without doing anything.
    let elsewhere = [("PUT", "/v1/sessions/t"), ("POST", "/v1/sessions"), ("POST", "/v1/execute")];
    for (method, path) in elsewhere {
        assert_eq!(server.ask(method, path, &[("if-match", "*")], b"").problem(), (400, "invalid-argument".into()));
    }
    assert_eq!(server.get("/v1/sessions/s/files").ok()["files"], json!([]));
    // Every change creates a new generation, and so does creating a session with the same name.
    let before = server.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    server.ask("PUT", "/v1/sessions/s/files/a", &[], b"x");
    let after = server.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    server.ask("DELETE", "/v1/sessions/s", &[], b"");
    let anew =
        server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).header("etag").unwrap().to_owned();
    assert!(before != after && anew != first, "{before} {after} {first} {anew}");
}

#[test]
fn one_of_two_requests_with_equal_generation_runs() {
    let server = Server::start(Setup::default());
    let opened = server.post("/v1/sessions", &json!({"id": "s", "language": "python"}));
    let mut expected = opened.header("etag").unwrap().to_owned();
    for round in 1..=5 {
        let body = json!({"source": "n = globals().get('n', 0) + 1; n"}).to_string();
        let streams: Vec<_> = (0..4)
            .map(|_| server.begin("POST", "/v1/sessions/s/execute", &[("if-match", &expected)], body.as_bytes()))
            .collect();
        let answers: Vec<Answer> = streams.into_iter().map(Answer::read).collect();
        let run: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!((run.len(), answers.iter().filter(|answer| answer.status == 412).count()), (1, 3));
        assert_eq!(run[0].json()["value"]["json"], round);
        expected = run[0].header("etag").unwrap().to_owned();
    }
}

#[test]
fn concurrent_requests_of_a_session_run_in_sequence() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    execute(&server, "s", "n = 0");
    let body = json!({"source": "import time; m = n; time.sleep(0.01); n = m + 1"}).to_string();
    let streams: Vec<_> =
        (0..10).map(|_| server.begin("POST", "/v1/sessions/s/execute", &[], body.as_bytes())).collect();
    for stream in streams {
        Answer::read(stream).ok();
    }
    assert_eq!(execute(&server, "s", "n")["value"]["json"], 10);
}

#[test]
fn session_requests_reject_fields_of_the_session() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s"})).ok();
    for (name, value) in
        [("language", json!("python")), ("runtime", json!("python")), ("files", json!({})), ("policy", json!({}))]
    {
        let answer = server.post("/v1/sessions/s/execute", &json!({"source": "1", name: value}));
        assert_eq!(answer.problem().0, 400);
        assert!(answer.text().contains(&format!("`{name}` is not supported in a session")), "{}", answer.text());
    }
    assert_eq!(server.post("/v1/sessions", &json!({"id": "s"})).problem(), (409, "exists".into()));
    assert_eq!(server.post("/v1/sessions", &json!({"id": "../s"})).problem(), (400, "invalid-argument".into()));
}

#[test]
fn sessions_are_listed_by_pages() {
    let server = Server::start(Setup::default());
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        server.post("/v1/sessions", &json!({"id": id, "language": "javascript"})).ok();
    }
    let list = |query: &str| {
        let answer = server.get(&format!("/v1/sessions{query}")).ok();
        let ids = answer["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap());
        (ids.collect::<Vec<_>>().join(" "), answer.get("next").and_then(Value::as_str).map(str::to_owned))
    };
    let next = |id: &str| Some(id.to_owned());
    assert_eq!(list(""), ("a b c d".into(), None));
    assert_eq!(list("?limit=1"), ("a".into(), next("a")));
    assert_eq!(list("?limit=3"), ("a b c".into(), next("c")), "under");
    assert_eq!(list("?limit=4"), ("a b c d".into(), None), "exactly");
    assert_eq!(list("?limit=1000"), ("a b c d".into(), None));
    assert_eq!(list("?limit=2&after=b"), ("c d".into(), None));
    assert_eq!(list("?after=bb"), ("c d".into(), None), "the cursor may name a missing session");
    assert_eq!(list("?after=d"), (String::new(), None));
    for query in ["limit=0", "limit=1001", "limit=x", "limit=-1", "after=..", "after=", "unknown=1"] {
        let problem = server.get(&format!("/v1/sessions?{query}")).problem();
        assert_eq!(problem, (400, "invalid-argument".into()), "{query}");
    }
}

#[test]
fn executions_in_a_lost_session_are_not_counted() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let count = json!({"source": "n = globals().get('n', 0) + 1; n"});
    let ask = |server: &Server, key: &str| {
        server.ask("POST", "/v1/sessions/s/execute", &[("idempotency-key", key)], count.to_string().as_bytes())
    };
    assert_eq!(ask(&server, "first").ok()["value"]["json"], 1);
    std::fs::remove_file(server.dir.path().join("one/.lock-s")).unwrap();
    let other = Server::start(Setup { dir: Some(Arc::clone(&server.dir)), ..Setup::default() });
    assert_eq!(ask(&other, "other").ok()["value"]["json"], 2);
    let stored = other.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    let late = ask(&server, "late");
    assert_eq!(late.problem(), (409, "session-fenced".into()));
    assert!(late.text().contains("run the script again"), "{}", late.text());
    assert_eq!(server.get("/v1/sessions/s").header("etag"), Some(&*stored));
    let audited = server.audited();
    assert!(audited.iter().any(|line| line["outcome"] == "session-fenced"), "{audited:?}");
    assert_eq!(ask(&server, "late").problem(), (409, "session-busy".into()), "the session belongs to the other server");
    other.ask("POST", "/v1/sessions/s/hibernate", &[], b"").ok();
    // The rejected request did not consume its key.
    assert_eq!(ask(&server, "late").ok()["value"]["json"], 3);
    assert_eq!(ask(&server, "first").ok()["value"]["json"], 1, "an acknowledged request must not run again");
}

#[test]
fn session_starts_with_files_or_an_exported_state() {
    let server = Server::start(Setup::default());
    let files = json!({"in/a.txt": "text", "b": {"base64": "AP8="}});
    let opened = server.post("/v1/sessions", &json!({"id": "s", "language": "python", "files": files}));
    assert_eq!((opened.status, opened.json()["id"].clone()), (201, json!("s")));
    assert_eq!(opened.header("etag"), server.get("/v1/sessions/s").header("etag"), "the files are saved");
    let read = "x = open('in/a.txt').read(), list(open('b', 'rb').read())\nx";
    assert_eq!(execute(&server, "s", read)["value"]["repr"], "('text', [0, 255])");
    assert_eq!(server.get("/v1/sessions/s").ok()["live"]["executions"], 1, "the session is in memory");
    // A session whose files cannot be written does not exist.
    for (files, problem) in [
        (json!({"../a": "x"}), (400, "invalid-argument".into())),
        (json!({"a": "x", "a/b": "x"}), (422, "file".into())),
    ] {
        let refused = server.post("/v1/sessions", &json!({"id": "t", "language": "python", "files": files}));
        assert_eq!(refused.problem(), problem);
        assert_eq!(server.get("/v1/sessions/t").problem().0, 404);
    }
    let state = STANDARD.encode(&server.get("/v1/sessions/s/state").body);
    let resumed = server.post("/v1/sessions", &json!({"id": "t", "state": {"base64": state}}));
    assert_eq!((resumed.status, resumed.json()["executions"].clone()), (201, json!(1)));
    assert_eq!(execute(&server, "t", "x[0]")["value"]["json"], "text");
    for more in ["language", "runtime", "context"] {
        let body = json!({"state": {"base64": state}, more: "python"});
        assert_eq!(server.post("/v1/sessions", &body).problem(), (400, "invalid-argument".into()), "{more}");
    }
    let refused = server.post("/v1/sessions", &json!({"policy": {"limits": {"timeout_ms": 300}}}));
    assert_eq!(refused.problem(), (422, "unsupported".into()), "a stored session has the token's policy");
}

#[test]
fn range_reserves_only_the_bytes_that_are_read() {
    // Requests and responses can use 1.75 MiB.
    let http = HttpConfig { bodies_bytes: 2 << 20, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..Setup::default() });
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    execute(&server, "s", "open('small', 'wb').write(bytes(1_000_000)); open('big', 'wb').write(bytes(4_000_000))");
    let get = |path: &str, range: &str| {
        let answer = server.ask("GET", &format!("/v1/sessions/s/files/{path}"), &[("range", range)], b"");
        (answer.status, answer.body.len())
    };
    assert_eq!(get("small", "bytes=0-"), (206, 1_000_000));
    assert_eq!(get("big", "bytes=1000000-1499999"), (206, 500_000));
    until("earlier responses are no longer charged", || get("big", "bytes=0-1835007") == (206, 1_835_008));
    assert_eq!(get("big", "bytes=0-1835008").0, 413);
    assert_eq!(get("big", "bytes=3999999-"), (206, 1));
}

#[test]
fn range_of_a_file_is_read() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    execute(&server, "s", "open('big', 'wb').write(bytes(range(250)) * 40_000); open('empty', 'w').close()");
    let get =
        |path: &str, range: &str| server.ask("GET", &format!("/v1/sessions/s/files/{path}"), &[("range", range)], b"");
    let piece = get("big", "bytes=251-253");
    assert_eq!((piece.status, piece.body.as_slice()), (206, [1, 2, 3].as_slice()));
    assert_eq!(piece.header("content-range"), Some("bytes 251-253/10000000"));
    let mut whole = Vec::new();
    while whole.len() < 10_000_000 {
        let piece = get("big", &format!("bytes={}-", whole.len()));
        assert!(piece.status == 206 && piece.body.len() <= 8 << 20, "{}", piece.status);
        whole.extend_from_slice(&piece.body);
    }
    assert!(whole.chunks(250).all(|chunk| chunk.iter().copied().eq(0..250)) && whole.len() == 10_000_000);
    for (path, range) in [("big", "bytes=10000000-"), ("empty", "bytes=0-")] {
        assert_eq!(get(path, range).problem(), (416, "range".into()), "{path}");
    }
    assert_eq!(get("empty", "bytes=-1").status, 200, "other ranges are ignored");
    assert_eq!(get("nothing", "bytes=0-").problem(), (422, "file".into()));
}

#[test]
fn every_session_change_checks_the_generation() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "javascript"})).ok();
    server.post("/v1/sessions/s/execute", &json!({"source": "x = 1"})).ok();
    server.ask("PUT", "/v1/sessions/s/files/a", &[], b"1");
    let etag = || server.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    let changes: [(&str, &str, &[u8]); 9] = [
        ("POST", "execute", br#"{"source": "y = 2"}"#),
        ("POST", "fork", b""),
        ("POST", "undo", b""),
        ("POST", "checkpoint", b""),
        ("POST", "hibernate", b""),
        ("PUT", "variables/x", b"5"),
        ("PUT", "files/a", b"2"),
        ("DELETE", "files/a", b""),
        ("DELETE", "", b""),
    ];
    for (method, what, body) in changes {
        let path = format!("/v1/sessions/s/{what}");
        let path = path.trim_end_matches('/');
        let before = etag();
        let stale = server.ask(method, path, &[("if-match", "\"1-1\"")], body);
        assert_eq!(stale.problem(), (412, "generation".into()), "{method} {what}");
        assert_eq!(etag(), before, "a refused request must not change anything: {method} {what}");
        let done = server.ask(method, path, &[("if-match", &before)], body);
        assert!(matches!(done.status, 200 | 201 | 204), "{method} {what}: {done:?}");
        if !matches!(what, "" | "fork") {
            assert_eq!(done.header("etag"), Some(etag().as_str()), "{method} {what}");
        }
    }
    assert_eq!(server.get("/v1/sessions/s").status, 404);
    // A precondition never holds for a session that does not exist yet.
    for (method, path) in [("POST", "/v1/execute"), ("POST", "/v1/sessions"), ("PUT", "/v1/sessions/t")] {
        let answer = server.ask(method, path, &[("if-match", "\"1-1\"")], b"{}");
        assert_eq!(answer.problem(), (400, "invalid-argument".into()), "{method} {path}");
    }
}
