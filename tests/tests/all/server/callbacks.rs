//! Tests tools that HTTP services implement.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use glovebox::UrlPatterns;
use glovebox_server::{
    TenantConfig,
    tools::{Callbacks, CallbacksConfig},
};
use serde_json::{Value, json};

use super::support::{Server, Setup};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request that the service received.
#[derive(Clone, Debug)]
struct ReceivedRequest {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl ReceivedRequest {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// An HTTP service that answers each request with the result of a function.
struct Service {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Service {
    fn start(answer: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (requests, answer) = (Arc::clone(&service.requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (requests, answer, stream) = (Arc::clone(&requests), Arc::clone(&answer), stream.unwrap());
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(&stream);
                    let mut lines = Vec::new();
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                            break;
                        }
                        lines.push(line.trim_end().to_owned());
                    }
                    if lines.is_empty() {
                        return;
                    }
                    let headers: Vec<(String, String)> = lines[1..]
                        .iter()
                        .filter_map(|line| line.split_once(": "))
                        .map(|(a, b)| (a.into(), b.into()))
                        .collect();
                    let request = ReceivedRequest { line: lines[0].clone(), headers, body: Vec::new() };
                    let mut body = vec![0; request.header("content-length").parse().unwrap_or(0)];
                    reader.read_exact(&mut body).unwrap();
                    let request = ReceivedRequest { body, ..request };
                    let bytes = answer(&request);
                    requests.lock().unwrap().push(request);
                    let _ = (&stream).write_all(&bytes);
                });
            }
        });
        service
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn response(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

fn allowing(patterns: Vec<String>) -> Setup {
    allowing_within(patterns, 30_000)
}

/// Like `allowing`, with a timeout for each call.
fn allowing_within(patterns: Vec<String>, tool_timeout_ms: u64) -> Setup {
    let change = move |tenant: &mut TenantConfig| {
        let config = CallbacksConfig { allowed: UrlPatterns::new(&patterns).unwrap(), secret: SECRET.into() };
        tenant.callbacks = Some(Callbacks::new(&config).unwrap());
        tenant.policy.limits.timeout_ms = 60_000;
        tenant.policy.limits.tool_timeout_ms = tool_timeout_ms;
    };
    Setup { tenant: Some(Box::new(change)), ..Setup::default() }
}

fn run(server: &Server, url: &str, source: &str) -> super::support::Answer {
    let tools = json!([{"name": "add", "callback": url, "schema": {"properties": {"a": {"type": "number"}}}}]);
    server.post("/v1/execute", &json!({"language": "python", "source": source, "tools": tools}))
}

#[test]
fn callback_service_answers_signed_calls() {
    let service = Service::start(|request| {
        let a = request.json()["arguments"]["a"].as_f64().unwrap();
        response("200 OK", &json!(a + 1.0).to_string())
    });
    let server = Server::start(allowing(vec![service.url("/tools/*")]));
    let done = run(&server, &service.url("/tools/add?x=1"), "print(tools.add(a=1), tools.add(a=2))").ok();
    assert_eq!(done["stdout"], "2.0 3.0\n");
    let requests = service.requests();
    assert_eq!((requests.len(), requests[0].line.as_str()), (2, "POST /tools/add?x=1 HTTP/1.1"));
    assert_eq!(requests[0].json(), json!({"tool": "add", "arguments": {"a": 1}, "call": 0, "session": null}));
    let (id, key) = (requests[0].header("webhook-id"), requests[0].header("idempotency-key"));
    assert!(
        id == key && id.ends_with("-0") && requests[1].header("webhook-id") == id.replace("-0", "-1"),
        "{requests:?}"
    );
    assert!(
        requests[0].header("webhook-signature").starts_with("v1,")
            && !requests[0].header("webhook-timestamp").is_empty()
    );
    assert_eq!(requests[0].header("authorization"), "", "the token must not be sent");
    // Tools also work in a session, and with a streamed answer.
    server.post("/v1/sessions", &json!({"id": "s", "language": "javascript"})).ok();
    let tools = json!([{"name": "add", "callback": service.url("/tools/add")}]);
    let body = json!({"source": "console.log(await tools.add({a: 3}))", "tools": tools}).to_string();
    let lines = server.ask("POST", "/v1/sessions/s/execute", &[("accept", "application/x-ndjson")], body.as_bytes());
    assert!(lines.text().contains("\"4\\n\""), "{lines:?}");
    assert_eq!(service.requests()[2].json()["session"], "s");
    // A call with an idempotency key only runs once.
    let ask = || server.ask("POST", "/v1/sessions/s/execute", &[("idempotency-key", "k")], body.as_bytes()).ok();
    assert_eq!((ask()["stdout"].clone(), ask()["stdout"].clone()), (json!("4\n"), json!("4\n")));
    assert_eq!(service.requests().len(), 4);
}

#[test]
fn disallowed_callback_addresses_are_not_called() {
    let service = Service::start(|_| response("200 OK", "1"));
    let server = Server::start(allowing(vec![
        service.url("/tools/*"),
        "https://*.localtest.example/*".into(),
        "http://127.0.0.1:1/*".into(),
    ]));
    for url in [
        service.url("/other"),
        service.url("/tools/../other"),
        service.url("/tools/%2e%2e/other"),
        service.url("/tools/x").replace("127.0.0.1", "localhost"),
        service.url("/tools/x").replace("http:", "https:"),
        "http://169.254.169.254/latest/".into(),
        "file:///etc/passwd".into(),
        String::new(),
    ] {
        let answer = run(&server, &url, "print(tools.add(a=1))");
        assert_eq!(answer.problem(), (400, "invalid-argument".into()), "{url}");
    }
    assert!(service.requests().is_empty());
    // A host name that only a wildcard pattern allows must resolve to a public address.
    let done = run(&server, "https://a.localtest.example/x", "tools.add(a=1)").ok();
    assert_eq!(done["outcome"]["type"], "ToolError");
    // Only another token may use this host.
    let other = Server::start(Setup::default());
    assert_eq!(run(&other, &service.url("/tools/x"), "1").problem().0, 400);
}

#[test]
fn callback_answers_are_bounded_and_untrusted() {
    let service = Service::start(|request| {
        let path = request.line.split(' ').nth(1).unwrap();
        match path {
            "/redirect" => {
                b"HTTP/1.1 302 Found\r\nlocation: /ok\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
            }
            "/error" => response("500 Oops", r#"{"error": "the database is away"}"#),
            "/denied" => response("403 Forbidden", r#"{"error": {"type": "ToolDenied", "message": "not today"}}"#),
            "/bare" => response("404 Not Found", "secret page"),
            "/text" => response("200 OK", "no JSON"),
            "/bytes" => {
                [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n".as_slice(), b"\xff\xfe"].concat()
            }
            "/deep" => response("200 OK", &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
            "/long" => response("200 OK", &format!("\"{}\"", "x".repeat(5 << 20))),
            "/slow" => {
                std::thread::sleep(Duration::from_secs(20));
                response("200 OK", "1")
            }
            "/gone" => Vec::new(),
            _ => response("200 OK", r#""ok""#),
        }
    });
    let server = Server::start(allowing(vec![service.url("/*")]));
    let stdout_by = |server: &Server, path: &str| {
        let source =
            "try:\n    print(tools.add(a=1))\nexcept tools.ToolError as error:\n    print(type(error).__name__, error)";
        run(server, &service.url(path), source).ok()["stdout"].as_str().unwrap().to_owned()
    };
    let stdout = |path: &str| stdout_by(&server, path);
    assert_eq!(stdout("/ok"), "ok\n");
    assert_eq!(stdout("/redirect"), "ToolError the callback of `add` answered with status 302\n");
    assert_eq!(stdout("/error"), "ToolError the database is away\n");
    assert_eq!(stdout("/denied"), "ToolDenied not today\n");
    assert_eq!(stdout("/bare"), "ToolError the callback of `add` answered with status 404\n");
    for path in ["/text", "/bytes", "/deep", "/long", "/gone"] {
        assert!(stdout(path).starts_with("Tool"), "{path}: {}", stdout(path));
    }
    let impatient = Server::start(allowing_within(vec![service.url("/*")], 1_000));
    let slow = stdout_by(&impatient, "/slow");
    assert!(slow.starts_with("ToolTimeout"), "{slow}");
    assert_eq!(stdout("/ok"), "ok\n");
    assert!(service.requests().iter().filter(|request| request.line.contains("/redirect")).count() == 1);
}
