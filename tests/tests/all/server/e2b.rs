//! Tests the routes for E2B clients. `tests/e2b/run` uses the real client.

use serde_json::{Value, json};

use super::support::{Answer, Server, Setup};
use glovebox_server::{TenantConfig, http::HttpConfig};

/// A sandbox and its access token.
struct Sandbox<'a> {
    server: &'a Server,
    id: String,
    secret: String,
}

impl<'a> Sandbox<'a> {
    fn create(server: &'a Server, body: &Value) -> Self {
        let made = server.post("/v2/sandboxes", body);
        assert_eq!(made.status, 201, "{made:?}");
        let made = made.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        assert_eq!(text("envdAccessToken"), text("trafficAccessToken"));
        Self { server, id: text("sandboxID"), secret: text("envdAccessToken") }
    }

    fn ask(&self, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut headers = vec![("e2b-sandbox-id", &*self.id), ("x-access-token", &*self.secret), ("x-api-key", "")];
        headers.extend(more);
        self.server.ask(method, path, &headers, body)
    }

    fn lines(&self, body: &Value) -> Vec<Value> {
        let answer = self.ask("POST", "/execute", &[], body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the text of an execution's main result.
    fn text(&self, body: &Value) -> String {
        let lines = self.lines(body);
        let main = lines.iter().find(|line| line["is_main_result"] == true);
        main.unwrap_or_else(|| panic!("{lines:?}"))["text"].as_str().unwrap().to_owned()
    }

    fn call(&self, method: &str, body: &Value) -> Answer {
        self.ask("POST", &format!("/filesystem.Filesystem/{method}"), &[], body.to_string().as_bytes())
    }
}

fn server() -> Server {
    Server::start(Setup { http: HttpConfig { e2b: true, ..HttpConfig::default() }, ..Setup::default() })
}

#[test]
fn e2b_routes_exist_only_if_enabled() {
    let without = Server::start(Setup::default());
    for (method, path) in [("POST", "/v2/sandboxes"), ("GET", "/health"), ("POST", "/execute"), ("GET", "/files")] {
        assert_eq!(without.ask(method, path, &[], b"").problem().1, "no-route", "{path}");
    }
}

#[test]
fn contexts_of_a_sandbox_share_files() {
    let server = server();
    let sandbox = Sandbox::create(&server, &json!({"templateID": "t", "envVars": {"A": "é"}}));
    let lines = sandbox.lines(&json!({"code": "import os\nprint(os.environ['A'])\nx = 1\nx + 1"}));
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["stdout", "result", "number_of_executions", "end_of_execution"], "{lines:?}");
    assert!(lines[0]["text"] == "é\n" && lines[0]["timestamp"].as_u64().unwrap() > 1 << 60, "{lines:?}");
    assert!(lines[1]["text"] == "2" && lines[2]["execution_count"] == 1, "{lines:?}");
    let once = json!({"code": "os.environ['A'], os.environ.get('B')", "env_vars": {"A": "x", "B": "y"}});
    assert_eq!(sandbox.text(&once), "('x', 'y')");
    assert_eq!(sandbox.text(&json!({"code": once["code"]})), "('é', None)");
    sandbox.lines(&json!({"code": "open('f', 'w').write('python')"}));
    let read = json!({"code": "require('fs').readFileSync('f', 'utf8')", "language": "javascript"});
    assert_eq!(sandbox.text(&read), "python");
    let error = sandbox.lines(&json!({"code": "raise ValueError('why')"}));
    let line = error.iter().find(|line| line["type"] == "error").unwrap();
    assert!(line["name"] == "ValueError" && line["value"] == "why", "{error:?}");
    let contexts = sandbox.ask("GET", "/contexts", &[], b"").ok();
    assert_eq!(contexts.as_array().unwrap().len(), 2, "{contexts}");
    // The contexts are sessions that belong to the token, so `close` and `list` include them.
    assert_eq!(server.get("/v1/sessions").ok()["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(server.ask("DELETE", &format!("/sandboxes/{}", sandbox.id), &[], b"").status, 204);
    assert_eq!(server.get("/v1/sessions").ok()["sessions"].as_array().unwrap().len(), 0);
    assert_eq!(sandbox.ask("GET", "/health", &[], b"").status, 502);
}

#[test]
fn removing_and_restarting_contexts_retains_the_files() {
    let server = server();
    let sandbox = Sandbox::create(&server, &json!({}));
    let done = |method: &str, path: &str| assert_eq!(sandbox.ask(method, path, &[], b"").status, 204, "{path}");
    sandbox.lines(&json!({"code": "x = 1\nn = open('f', 'w').write('one')"}));
    // The sandbox has no other context, so a new context replaces the deleted one.
    done("DELETE", "/contexts/python");
    assert_eq!(sandbox.text(&json!({"code": "open('f').read(), 'x' in globals()"})), "('one', False)");
    done("POST", "/contexts/python/restart");
    let read = json!({"code": "require('fs').readFileSync('f', 'utf8')", "language": "javascript"});
    assert_eq!(sandbox.text(&read), "one");
    // The other context receives the files.
    sandbox.lines(&json!({"code": "n = open('f', 'w').write('two')"}));
    done("DELETE", "/contexts/python");
    assert_eq!(sandbox.text(&read), "two");
    let contexts = sandbox.ask("GET", "/contexts", &[], b"").ok();
    assert_eq!(contexts.as_array().unwrap().len(), 1, "{contexts}");
}

#[test]
fn files_are_written_listed_and_moved() {
    let server = server();
    let sandbox = Sandbox::create(&server, &json!({}));
    let form =
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/home/user/d/a.txt\"\r\n\r\none\r\n--b--\r\n";
    let form_type = ("content-type", "multipart/form-data; boundary=b");
    let written = sandbox.ask("POST", "/files", &[form_type], form.as_bytes()).ok();
    assert_eq!(written, json!([{"name": "a.txt", "type": "file", "path": "/app/d/a.txt"}]));
    sandbox.ask("POST", "/files?path=b.bin", &[("content-type", "application/octet-stream")], b"\xff\x00").ok();
    assert_eq!(sandbox.ask("GET", "/files?path=/app/b.bin", &[], b"").body, b"\xff\x00");
    let listed = sandbox.call("ListDir", &json!({"path": "/home/user", "depth": 2})).ok();
    let paths: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(paths, ["/app/b.bin", "/app/d", "/app/d/a.txt"]);
    assert_eq!(sandbox.call("Stat", &json!({"path": "b.bin"})).ok()["entry"]["size"], "2");
    assert_eq!(sandbox.call("MakeDir", &json!({"path": "x/y"})).status, 200);
    let again = sandbox.call("MakeDir", &json!({"path": "x/y"}));
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("already_exists")));
    assert_eq!(
        sandbox.call("Move", &json!({"source": "d/a.txt", "destination": "x/y/z"})).ok()["entry"]["path"],
        "/app/x/y/z"
    );
    assert_eq!(sandbox.call("Remove", &json!({"path": "x"})).status, 200);
    let gone = sandbox.call("Stat", &json!({"path": "x/y/z"}));
    assert_eq!((gone.status, &gone.json()["code"]), (404, &json!("not_found")));
    for path in ["/etc/passwd", "../x", "a/../../b"] {
        let answer = sandbox.call("Stat", &json!({"path": path}));
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_argument")), "{path}");
    }
    let unknown = sandbox.call("WatchDir", &json!({"path": "."}));
    assert_eq!((unknown.status, &unknown.json()["code"]), (501, &json!("unimplemented")));
    let gzip = sandbox.ask("POST", "/files?path=a", &[("content-encoding", "gzip")], b"x");
    assert_eq!(gzip.status, 501);
}

#[test]
fn unsupported_features_are_refused_as_such() {
    let server = server();
    let sandbox = Sandbox::create(&server, &json!({}));
    let id = &sandbox.id;
    for (method, path) in [
        // The URLs of `download_url` and `upload_url`, for which browsers send no headers.
        ("GET", "/files?path=a&username=user&signature=v1_x&signature_expiration=1"),
        ("POST", "/files?path=a&username=user"),
        ("GET", "/volumes"),
        ("POST", "/volumes"),
        ("DELETE", "/volumes/v"),
        ("GET", "/volumecontent/v/dir?path=a"),
        ("GET", "/snapshots"),
        ("POST", "/templates/t/tags"),
        ("GET", &format!("/sandboxes/{id}/metrics")),
        ("POST", "/process.Process/Start"),
    ] {
        assert_eq!(server.ask(method, path, &[], b"").problem(), (501, "unsupported".into()), "{method} {path}");
    }
    assert_eq!(sandbox.ask("GET", "/health", &[], b"").status, 204);
}

#[test]
fn requests_need_the_token_or_the_secret() {
    let server = Server::start(Setup {
        http: HttpConfig { e2b: true, ..HttpConfig::default() },
        other: Some("the other token"),
        ..Setup::default()
    });
    let sandbox = Sandbox::create(&server, &json!({}));
    let path = format!("/sandboxes/{}", sandbox.id);
    assert_eq!(server.ask("GET", &path, &[("x-api-key", "wrong")], b"").problem(), (401, "unauthorized".into()));
    let other = [("x-api-key", "the other token")];
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}/pause")),
        ("POST", format!("/v2{path}/connect")),
    ] {
        assert_eq!(server.ask(method, &path, &other, b"").status, 404, "{method} {path}");
    }
    assert_eq!(server.ask("GET", "/v2/sandboxes", &other, b"").ok(), json!([]));
    for secret in ["", "0", &"0".repeat(32), super::support::TOKEN] {
        let headers = [("e2b-sandbox-id", &*sandbox.id), ("x-access-token", secret)];
        assert_eq!(server.ask("GET", "/contexts", &headers, b"").problem(), (401, "unauthorized".into()), "{secret}");
    }
    assert_eq!(sandbox.ask("GET", "/health", &[], b"").status, 204);
    // A sandbox belongs to the token that created it, whatever its ID.
    let connected = server.ask("POST", "/v2/sandboxes/sb000000000000000000/connect", &[], b"");
    assert_eq!(connected.problem().0, 404);
}

/// Starts a server with two tenants. `sessions` is the first tenant's session limit.
fn server_for_two(sessions: usize) -> Server {
    Server::start(Setup {
        http: HttpConfig { e2b: true, ..HttpConfig::default() },
        other: Some("the other token"),
        tenant: Some(Box::new(move |config: &mut TenantConfig| config.sessions = sessions)),
        ..Setup::default()
    })
}

/// Opens a session for the second tenant, with an ID that looks like the ID of a context in the
/// first tenant's sandbox.
fn impostor(server: &Server, id: &str) {
    let body = json!({"id": format!("{id}.python"), "language": "python"}).to_string();
    let opened = server.ask("POST", "/v1/sessions", &[("x-api-key", "the other token")], body.as_bytes());
    assert!(opened.status < 300, "{opened:?}");
}

#[test]
fn session_named_like_a_foreign_sandbox_grants_no_access() {
    let server = server_for_two(10);
    let sandbox = Sandbox::create(&server, &json!({"metadata": {"a": "b"}}));
    impostor(&server, &sandbox.id);
    let (path, other) = (format!("/sandboxes/{}", sandbox.id), [("x-api-key", "the other token")]);
    assert_eq!(server.ask("POST", &format!("{path}/pause"), &other, b"").status, 409);
    // The session becomes a paused sandbox of the other tenant.
    let theirs = server.ask("POST", &format!("/v2{path}/connect"), &other, b"").ok();
    assert_ne!(theirs["envdAccessToken"], json!(sandbox.secret));
    assert_eq!(sandbox.text(&json!({"code": "6 * 7"})), "42");
    assert_eq!(server.ask("DELETE", &path, &other, b"").status, 204);
    assert_eq!(sandbox.text(&json!({"code": "6 * 7"})), "42");
    assert_eq!(server.get(&path).ok()["metadata"], json!({"a": "b"}));
}

#[test]
fn stored_sandbox_belongs_to_its_owner() {
    let server = server_for_two(10);
    let sandbox = Sandbox::create(&server, &json!({}));
    let (id, secret) = (sandbox.id.clone(), sandbox.secret.clone());
    sandbox.lines(&json!({"code": "x = 7"}));
    let dir = server.stop(std::time::Duration::from_secs(10));
    let server = Server::start(Setup {
        http: HttpConfig { e2b: true, ..HttpConfig::default() },
        other: Some("the other token"),
        dir: Some(dir),
        ..Setup::default()
    });
    impostor(&server, &id);
    let connect = format!("/v2/sandboxes/{id}/connect");
    assert_eq!(server.ask("POST", &connect, &[("x-api-key", "the other token")], b"").status, 201);
    let connected = server.ask("POST", &connect, &[], b"").ok();
    let new = connected["envdAccessToken"].as_str().unwrap().to_owned();
    assert_ne!(new, secret);
    let sandbox = Sandbox { server: &server, id, secret: new };
    assert_eq!(sandbox.text(&json!({"code": "x"})), "7");
}

#[test]
fn files_of_a_stored_sandbox_follow_the_executions() {
    let http = || HttpConfig { e2b: true, ..HttpConfig::default() };
    let server = server();
    let sandbox = Sandbox::create(&server, &json!({}));
    let (id, read) = (sandbox.id.clone(), json!({"code": "open('f').read() + open('g').read()"}));
    sandbox.lines(&json!({"code": "n = open('f', 'w').write('python, ')"}));
    sandbox.lines(&json!({"code": "require('fs').writeFileSync('g', 'javascript')", "language": "javascript"}));
    let dir = server.stop(std::time::Duration::from_secs(10));
    let server = Server::start(Setup { http: http(), dir: Some(dir), ..Setup::default() });
    let connected = server.ask("POST", &format!("/v2/sandboxes/{id}/connect"), &[], b"").ok();
    let secret = connected["envdAccessToken"].as_str().unwrap().to_owned();
    let sandbox = Sandbox { server: &server, id, secret };
    assert_eq!(sandbox.ask("GET", "/files?path=g", &[], b"").body, b"javascript");
    assert_eq!(sandbox.text(&read), "python, javascript");
}

#[test]
fn sandboxes_per_tenant_are_limited() {
    let server = server_for_two(3);
    let count = || server.get("/v2/sandboxes").ok().as_array().unwrap().len();
    for _ in 0..8 {
        let sandbox = Sandbox::create(&server, &json!({}));
        assert!(server.ask("DELETE", &format!("/v1/sessions/{}.python", sandbox.id), &[], b"").status < 300);
        assert!(count() <= 3, "{}", count());
    }
    // Sandboxes that have a session remain.
    let active: Vec<String> = (0..3).map(|_| Sandbox::create(&server, &json!({})).id).collect();
    assert_eq!(server.post("/v2/sandboxes", &json!({})).problem(), (429, "quota-exceeded".into()));
    for id in &active {
        assert_eq!(server.get(&format!("/sandboxes/{id}")).status, 200);
    }
    // Other tenants can still create sandboxes.
    let other = server.ask("POST", "/v2/sandboxes", &[("x-api-key", "the other token")], b"{}");
    assert_eq!(other.status, 201, "{other:?}");
}

#[test]
fn total_sandbox_metadata_is_limited() {
    let server = server_for_two(100);
    let metadata = json!({"metadata": {"a": "x".repeat(60 << 10)}});
    let statuses: Vec<u16> = (0..72).map(|_| server.post("/v2/sandboxes", &metadata).status).collect();
    assert_eq!((statuses[0], statuses[71]), (201, 429), "{statuses:?}");
}

#[test]
fn stored_bytes_of_a_tenant_are_limited() {
    let server = Server::start(Setup {
        http: HttpConfig { e2b: true, ..HttpConfig::default() },
        tenant: Some(Box::new(|config: &mut TenantConfig| config.stored_bytes = 40 << 20)),
        ..Setup::default()
    });
    let sandbox = Sandbox::create(&server, &json!({}));
    sandbox.lines(&json!({"code": "import os; x = os.urandom(12 << 20); None"}));
    let fork = || server.post(&format!("/v1/sessions/{}.python/fork", sandbox.id), &json!({})).status;
    let statuses: Vec<u16> = (0..6).map(|_| fork()).collect();
    assert!(statuses[0] < 300 && statuses[5] == 429, "{statuses:?}");
    let stored: u64 = std::fs::read_dir(server.dir.path().join("one"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(stored <= 41 << 20, "{stored}");
    assert!(server.ask("DELETE", &format!("/v1/sessions/{}.python", sandbox.id), &[], b"").status < 300);
}

#[test]
fn sandbox_pauses_resumes_and_expires() {
    let server = server();
    let sandbox = Sandbox::create(&server, &json!({"metadata": {"a": "b"}, "timeout": 300}));
    sandbox.lines(&json!({"code": "x = 7"}));
    let path = format!("/sandboxes/{}", sandbox.id);
    let pause = || server.ask("POST", &format!("{path}/pause"), &[], b"{}").status;
    assert_eq!((pause(), pause()), (204, 409));
    assert_eq!(sandbox.ask("GET", "/health", &[], b"").status, 502);
    let listed = server.get("/v2/sandboxes?state=paused&metadata=a%3Db").ok();
    assert_eq!((&listed[0]["sandboxID"], &listed[0]["state"]), (&json!(sandbox.id), &json!("paused")));
    assert_eq!(server.get("/v2/sandboxes?state=running").ok(), json!([]));
    assert_eq!(server.post(&format!("/v2{path}/connect"), &json!({"timeout": 60})).status, 201);
    assert_eq!(sandbox.text(&json!({"code": "x"})), "7");
    assert_eq!(server.post(&format!("{path}/timeout"), &json!({"timeout": 0})).status, 204);
    super::support::until("it ends", || server.get(&path).status == 404);
    assert_eq!(server.get("/v1/sessions").ok()["sessions"], json!([]));
    assert_eq!(server.post("/v2/sandboxes", &json!({"timeout": 86_401})).problem().0, 400);
    assert_eq!(server.post("/v2/sandboxes", &json!({"timeout": 86_400})).status, 201);
}
