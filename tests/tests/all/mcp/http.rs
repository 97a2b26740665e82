//! Tests the protocol over HTTP.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::Tool;
use glovebox_server::{
    Service, ServiceConfig, Tenant, TenantConfig,
    http::{self, BoundServer, HttpConfig, Tenants, TokenHash},
    mcp,
};
use glovebox_sessions::DirectoryStore;
use glovebox_tests::engine;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::support::{runtime, until};

pub(super) const TOKEN: &str = "a token of the tests";

pub(super) struct Server {
    runtime: Runtime,
    pub(super) address: SocketAddr,
    service: Service,
    stop: CancellationToken,
    serving: Option<tokio::task::JoinHandle<()>>,
    _dir: TempDir,
}

impl Server {
    pub(super) fn start(config: HttpConfig) -> Self {
        Self::with(config, |_| {})
    }

    /// Starts a server. `change` changes each tenant's configuration.
    fn with(config: HttpConfig, change: impl Fn(&mut TenantConfig)) -> Self {
        let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
        let service = Service::new(engine().clone(), ServiceConfig::default()).unwrap();
        let mut tenants = Tenants::default();
        for (name, token) in [("one", TOKEN), ("two", "another token of the tests")] {
            let store = DirectoryStore::open(dir.path().join(name)).unwrap();
            let mut tenant = TenantConfig::new(name, Arc::new(store));
            tenant.policy.limits.timeout_ms = 600_000;
            change(&mut tenant);
            tenants.add(TokenHash::of(token), Tenant::new(&service, tenant));
        }
        let bound = runtime.block_on(BoundServer::new(([127, 0, 0, 1], 0).into())).unwrap();
        let (address, stop) = (bound.address, CancellationToken::new());
        let routes = mcp::router(tenants, "", &config, address, stop.clone());
        let serves = service.clone();
        let serving = runtime.spawn(async move { http::serve(bound, &serves, routes, &config).await });
        Self { runtime, address, service, stop, serving: Some(serving), _dir: dir }
    }

    /// Sends a request as specified in version 2026-07-28, and returns the stream of the response.
    pub(super) fn begin(&self, headers: &[(&str, &str)], method: &str, params: Value) -> TcpStream {
        self.begin_with(&json!({}), headers, method, params)
    }

    /// Like `begin`, for a client with these capabilities.
    pub(super) fn begin_with(
        &self,
        capabilities: &Value,
        headers: &[(&str, &str)],
        method: &str,
        params: Value,
    ) -> TcpStream {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut all = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = &name {
            all.push(("mcp-name", name));
        }
        all.extend_from_slice(headers);
        self.send(&all, body.as_bytes())
    }

    pub(super) fn send(&self, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        self.send_with("POST", headers, body)
    }

    fn send_with(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let own = [
            ("host", &*self.address.to_string()),
            ("authorization", &format!("Bearer {TOKEN}")),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        let mut head = format!("{method} /mcp HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in &own {
            if headers.iter().all(|(given, _)| given != name) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = stream.write_all(&[head.as_bytes(), b"\r\n", body].concat());
        stream
    }

    pub(super) fn ask(&self, headers: &[(&str, &str)], method: &str, params: Value) -> (u16, String) {
        answer(self.begin(headers, method, params))
    }

    pub(super) fn run(&self, headers: &[(&str, &str)], code: &str) -> (u16, String) {
        self.ask(
            headers,
            "tools/call",
            json!({ "name": "run_code", "arguments": { "language": "javascript", "code": code } }),
        )
    }

    fn running(&self) -> i64 {
        let text = self.service.metrics_text();
        let line = text.lines().find(|line| line.starts_with("glovebox_running ")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        let serving = self.serving.take().unwrap();
        self.runtime.block_on(async {
            self.service.drain(Duration::ZERO).await;
            serving.await.unwrap();
        });
    }
}

/// Reads a response to its end. Returns the status and the whole text, including the headers.
pub(super) fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {text:?}")).parse().unwrap();
    (status, text)
}

#[test]
fn a_request_is_answered_without_a_handshake() {
    let server = Server::start(HttpConfig::default());
    let (status, body) = server.run(&[], "console.log(6 * 7)");
    assert!(status == 200 && body.contains(r#""stdout":"42\n""#), "{body}");
    let (_, body) = server.ask(&[], "server/discover", json!({}));
    assert!(body.contains("\"2026-07-28\"") && body.contains("\"2025-06-18\""), "{body}");
    // Output that one request retained can be read by another request with the same token.
    let (_, body) = server.run(&[], "console.log('x'.repeat(9000))");
    let uri = &body[body.find("glovebox://output/").unwrap()..];
    let uri = &uri[..uri.find([' ', '"', '\\']).unwrap()];
    let (_, body) = server.ask(&[], "resources/read", json!({ "uri": uri }));
    assert!(body.contains(&"x".repeat(9_000)), "{body}");
    // With a different token, the output cannot be read.
    let other = [("authorization", "Bearer another token of the tests")];
    let (_, body) = server.ask(&other, "resources/read", json!({ "uri": uri }));
    assert!(body.contains("is no longer stored"), "{body}");
}

/// Returns the message in a response, which is either JSON or an event stream.
fn message(text: &str) -> Value {
    let json = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line)).find(|line| line.starts_with('{'));
    serde_json::from_str(json.unwrap_or_else(|| panic!("no message: {text}"))).unwrap()
}

#[test]
fn call_that_needs_an_approval_is_resumed_with_the_answer() {
    let server = Server::with(HttpConfig::default(), |tenant| {
        tenant.approved_tools = vec![Tool::new("pay", "Pays.").handler(|_, arguments| Ok(arguments))];
    });
    let code = "console.log('before'); console.log(JSON.stringify(await tools.pay({euros: 20})))";
    let call = |headers: &[(&str, &str)], capabilities: Value, extra: Value| {
        let mut params = json!({ "name": "run_code", "arguments": { "language": "javascript", "code": code } });
        params.as_object_mut().unwrap().append(&mut extra.as_object().unwrap().clone());
        let (status, text) = answer(server.begin_with(&capabilities, headers, "tools/call", params));
        assert_eq!(status, 200, "{text}");
        message(&text)["result"].clone()
    };
    let elicitation = || json!({ "elicitation": {} });
    let answer = call(&[], elicitation(), json!({}));
    assert_eq!(answer["resultType"], "input_required", "{answer}");
    let question = &answer["inputRequests"]["call-0"];
    assert_eq!(question["method"], "elicitation/create", "{answer}");
    let expected = "A script wants to call the tool `pay` with these arguments: {\"euros\":20}";
    assert_eq!(question["params"]["message"], expected, "{answer}");

    let state = &answer["requestState"];
    let approve = json!({ "action": "accept", "content": { "approve": true } });
    let retry = json!({ "requestState": state, "inputResponses": { "call-0": approve } });
    let other = [("authorization", "Bearer another token of the tests")];
    let refused = call(&other, elicitation(), retry.clone());
    assert!(refused.to_string().contains("`requestState` is not valid"), "{refused}");
    let result = call(&[], elicitation(), retry.clone());
    assert_eq!(result["structuredContent"]["stdout"], "before\n{\"euros\":20}\n", "{result}");
    let again = call(&[], elicitation(), retry);
    assert!(again.to_string().contains("were already approved"), "{again}");
    assert_eq!(server.running(), 0);

    // A client that cannot ask a person denies all calls.
    let result = call(&[], json!({}), json!({}));
    assert!(result.to_string().contains("does not support elicitation"), "{result}");
}

#[test]
fn script_is_cancelled_without_memory_for_the_questions() {
    let config = HttpConfig { bodies_bytes: 2 << 20, ..HttpConfig::default() };
    let server = Server::with(config, |tenant| {
        tenant.approved_tools = vec![Tool::new("pay", "Pays.").handler(|_, arguments| Ok(arguments))];
    });
    let arguments = json!({ "language": "javascript", "code": "await tools.pay({})" });
    let params = json!({ "name": "run_code", "arguments": arguments });
    let (status, text) = answer(server.begin_with(&json!({ "elicitation": {} }), &[], "tools/call", params));
    assert_eq!(status, 200, "{text}");
    let result = message(&text)["result"].clone();
    let message = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    assert!(message.starts_with("unavailable: the script was cancelled at calls that need an approval"), "{message}");
    assert!(message.contains("`http.bodies_bytes`") && !message.contains("was executed"), "{message}");
    until("the script ends", || server.running() == 0);
    assert!(server.run(&[], "console.log(6 * 7)").1.contains(r#""stdout":"42\n""#));
}

#[test]
fn missing_token_and_foreign_origin_are_rejected() {
    let server = Server::start(HttpConfig::default());
    for (headers, expected) in [
        (&[("authorization", "Bearer another token")][..], 401),
        (&[("authorization", "Basic YTpi")], 401),
        (&[("authorization", "")], 401),
        (&[("host", "evil.example")], 421),
        (&[("host", "localhost.evil.example")], 421),
        (&[("host", "user@127.0.0.1")], 421),
        (&[("origin", "https://evil.example")], 403),
        (&[("origin", "null")], 403),
        (&[("origin", "http://localhost:1")], 403),
        (&[("host", "localhost")], 200),
        (&[("x-other", "y")], 200),
    ] {
        let (status, body) = server.run(headers, "1");
        assert_eq!(status, expected, "{headers:?}: {body}");
    }
    let named = HttpConfig {
        hosts: vec!["box.example".into()],
        origins: vec!["https://app.example:443".into()],
        ..HttpConfig::default()
    };
    let server = Server::start(named);
    let host = ("host", "box.example");
    assert_eq!(server.run(&[host, ("origin", "https://app.example")], "1").0, 200);
    assert_eq!(server.run(&[host, ("origin", "https://app.example:444")], "1").0, 403);
    assert_eq!(server.run(&[("host", "localhost")], "1").0, 200, "configured names are added to the default ones");
    assert_eq!(server.run(&[("host", "evil.example")], "1").0, 421);
}

#[test]
fn body_at_the_limit_is_accepted_and_over_it_rejected() {
    let server = Server::start(HttpConfig { body_bytes: 4_096, ..HttpConfig::default() });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "nothing")];
    let body = |size: usize| {
        let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "nothing", "params": { "pad": "" } }).to_string();
        frame.replace("\"\"", &format!("\"{}\"", "x".repeat(size - frame.len())))
    };
    for (size, refused) in [(4_095, false), (4_096, false), (4_097, true)] {
        let (status, text) = answer(server.send(&headers, body(size).as_bytes()));
        assert_eq!(status == 413, refused, "{size}: {text}");
    }
    assert_eq!(server.run(&[], "1").0, 200);
}

#[test]
fn a_request_id_is_limited_in_length() {
    let server = Server::start(HttpConfig::default());
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    for (bytes, is_refused) in [(999, false), (1_000, false), (1_001, true)] {
        let id = "x".repeat(bytes - 2);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {} }).to_string();
        // The protocol library rejects the request for another reason, and repeats its ID.
        let (_, text) = answer(server.send(&headers, body.as_bytes()));
        assert_eq!((text.contains("`id` is 1001 bytes"), text.contains(&id)), (is_refused, !is_refused), "{text}");
    }
}

fn initialize(version: &str, name: &str, capabilities: &Value) -> String {
    let client = json!({ "name": name, "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
}

#[test]
fn memory_of_an_initialize_request_is_limited() {
    let server = Server::start(HttpConfig::default());
    let named = |length: usize| {
        let body = initialize("2025-06-18", &"x".repeat(length), &json!({}));
        answer(server.send(&[], body.as_bytes()))
    };
    // The error states the memory that the request needs: the name and a constant.
    let (status, text) = named(100_000);
    let needed = text.split_once("needs ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<usize>().ok());
    let constant = needed.unwrap_or_else(|| panic!("{status}: {text}")) - 100_000;
    for (bytes, is_refused) in [(65_535, false), (65_536, false), (65_537, true)] {
        let (status, text) = named(bytes - constant);
        assert_eq!((status == 413, text.contains("serverInfo")), (is_refused, !is_refused), "{bytes}: {text}");
    }

    // Values also need memory. Neither the headers nor the spelling of the method lift the limit.
    let experimental = |count: usize| {
        let entries: serde_json::Map<String, Value> = (0..count).map(|at| (at.to_string(), json!({}))).collect();
        json!({ "experimental": entries })
    };
    let (few, many) =
        (initialize("2025-06-18", "x", &experimental(10)), initialize("2026-07-28", "x", &experimental(60)));
    assert_eq!(answer(server.send(&[], few.as_bytes())).0, 200);
    let spelled = many.replace("\"initialize\"", "\"\\u0069nitialize\"");
    let repeated = many.replace("\"method\":", "\"method\":\"ping\",\"method\":");
    assert!(spelled != many && repeated != many);
    for (headers, body, expected) in [
        (&[("x-other", "y")][..], &many, 413),
        (&[("mcp-session-id", "x")][..], &many, 413),
        (&[("mcp-protocol-version", "2026-07-28")][..], &many, 413),
        (&[("x-other", "y")][..], &spelled, 413),
        (&[("x-other", "y")][..], &repeated, 400),
    ] {
        let (status, text) = answer(server.send(headers, body.as_bytes()));
        assert_eq!(status, expected, "{headers:?} {body}: {text}");
    }
    // Other requests can be longer.
    assert_eq!(server.run(&[], &format!("/*{}*/ 1", "x".repeat(100_000))).0, 200);
}

#[test]
fn number_of_connected_clients_is_limited() {
    let server = Server::start(HttpConfig::default());
    let connect = |version: &str| {
        let body = initialize(version, "x", &json!({}));
        answer(server.send(&[("mcp-protocol-version", version)], body.as_bytes()))
    };
    // `initialize` connects a client even if the client requests a version that has no `initialize`.
    let versions = ["2025-06-18", "2026-07-28"];
    for (version, _) in versions.into_iter().cycle().zip(0..1_024) {
        let (status, text) = connect(version);
        assert_eq!(status, 200, "{version}: {text}");
    }
    for version in versions {
        let (status, text) = connect(version);
        assert!(status == 503 && text.contains("too many connected clients: the limit is 1024"), "{version}: {text}");
    }
    assert_eq!(server.run(&[], "1").0, 200);
}

#[test]
fn id_of_a_running_request_is_rejected() {
    let server = Server::start(HttpConfig::default());
    let version = ("mcp-protocol-version", "2025-06-18");
    let (_, head) = answer(server.send(&[version], initialize("2025-06-18", "x", &json!({})).as_bytes()));
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let headers = [version, ("mcp-session-id", &*session)];
    let begin = |message: Value| server.send(&headers, message.to_string().as_bytes());
    let ping = |id: Value| answer(begin(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })));

    let arguments = json!({ "language": "python", "code": "import time; time.sleep(300)" });
    let params = json!({ "name": "run_code", "arguments": arguments });
    let call = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params });
    let first = begin(call.clone());
    until("it runs", || server.running() == 1);
    let (status, text) = answer(begin(call));
    assert_eq!(
        (status, text.contains("-32600"), text.contains("already uses the ID `a`")),
        (200, true, true),
        "{text}"
    );
    assert!(ping(json!("b")).1.contains(r#""result":{"#), "other IDs are free");

    // A cancelled request frees its ID, and the server does not keep its stream.
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "a" } });
    assert_eq!(answer(begin(cancelled)).0, 202);
    let (_, text) = answer(first);
    assert!(text.contains("id: 0/0"), "the name of the first event of the first stream: {text}");
    let (status, text) = answer(server.send_with("GET", &[&headers[..], &[("last-event-id", "0/0")]].concat(), b""));
    assert_eq!((status, text.contains("id: 0/0")), (200, false), "{text}");
    until("the ID is free", || ping(json!("a")).1.contains(r#""result":{"#));
}

#[test]
fn malformed_requests_are_rejected_and_serving_continues() {
    let server = Server::start(HttpConfig::default());
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{\"jsonrpc\":\"2.0\"}",
        "[".repeat(100_000).as_bytes(),
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":1}",
    ] {
        let (status, text) = answer(server.send(&[("mcp-protocol-version", "2026-07-28")], body));
        assert!((400..500).contains(&status), "{body:?}: {text}");
    }
    assert_eq!(server.run(&[], "1").0, 200);
}

#[test]
fn disconnecting_client_cancels_its_script() {
    let server = Server::start(HttpConfig::default());
    let params =
        json!({ "name": "run_code", "arguments": { "language": "python", "code": "import time; time.sleep(300)" } });
    let stream = server.begin(&[], "tools/call", params);
    until("it runs", || server.running() == 1);
    let begun = Instant::now();
    drop(stream);
    until("it has ended", || server.running() == 0);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
