//! Tests scripts that call tools of upstream servers over HTTP. Some of the servers are hostile.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glovebox_server::{
    http::HttpConfig,
    mcp::{Approve, EndpointConfig, UpstreamConfig, UpstreamTransport},
};
use glovebox_tests::process::{in_child, peak_resident_bytes};
use serde_json::{Value, json};

use super::{
    http::{Server, TOKEN},
    support::{UpstreamScript, runtime, start, text, until},
    upstreams::{tool, with},
};

/// A request to an [`Endpoint`]: the request line and headers in lower case, and the body as JSON.
#[derive(Clone, Debug)]
pub(super) struct RequestRecord {
    pub(super) head: String,
    pub(super) body: Value,
}

/// An HTTP server that acts as an upstream server. Each connection carries one request.
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    received: Arc<Mutex<Vec<RequestRecord>>>,
}

impl Endpoint {
    /// Starts a server. `respond` returns the whole response, or `None` to leave the request unanswered.
    pub(super) fn new(respond: impl Fn(&RequestRecord) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<RequestRecord>>>::default();
        let (log, respond) = (Arc::clone(&received), Arc::new(respond));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, respond) = (Arc::clone(&log), Arc::clone(&respond));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let Some(request) = read(&mut stream) else { return };
                    log.lock().unwrap().push(request.clone());
                    if let Some(response) = respond(&request) {
                        let _ = stream.write_all(response.as_bytes());
                    } else {
                        // Blocks until the client closes the connection.
                        let _ = stream.read_to_end(&mut Vec::new());
                    }
                });
            }
        });
        Self { address, received }
    }

    /// Starts an MCP server with these tools. `call` returns the response to a call with this name and ID.
    fn mcp(tools: &[&str], call: impl Fn(&str, &Value) -> Option<String> + Send + Sync + 'static) -> Self {
        let tools: Vec<String> = tools.iter().map(|name| (*name).to_owned()).collect();
        Self::new(move |request| answer(request, "one", &tools, &call))
    }

    pub(super) fn received(&self) -> Vec<RequestRecord> {
        self.received.lock().unwrap().clone()
    }

    fn has_received(&self, method: &str) -> bool {
        self.received().iter().any(|request| request.body["method"] == method)
    }

    fn config(&self, path: &str) -> UpstreamConfig {
        config(format!("http://{}{path}", self.address), &[("X-Key", "secret")])
    }
}

fn config(url: String, headers: &[(&str, &str)]) -> UpstreamConfig {
    let headers: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    UpstreamConfig {
        name: "s".into(),
        transport: UpstreamTransport::Http(EndpointConfig { url, headers }),
        tools: None,
        approve: Approve::Never,
    }
}

/// Reads one request. Returns `None` if the client closed the connection first.
fn read(stream: &mut TcpStream) -> Option<RequestRecord> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8 << 10];
    loop {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if bytes.len() >= end + 4 + length {
            return Some(RequestRecord { head, body: serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default() });
        }
    }
}

/// Answers a request as an MCP server that has opened the session `session`.
fn answer(
    request: &RequestRecord,
    session: &str,
    tools: &[String],
    call: &impl Fn(&str, &Value) -> Option<String>,
) -> Option<String> {
    let id = &request.body["id"];
    match request.body["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "i", "version": "1" } });
            Some(response(&format!("200 OK\r\nmcp-session-id: {session}"), &result_of(id, &result)))
        }
        "tools/list" => {
            let tools: Vec<Value> = tools.iter().map(|name| tool(name, json!({}))).collect();
            Some(response("200 OK", &result_of(id, &json!({ "tools": tools }))))
        }
        "tools/call" => call(request.body["params"]["name"].as_str().unwrap(), id),
        _ => Some(response("202 Accepted", "")),
    }
}

pub(super) fn response(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns a response with an event stream.
fn stream(events: &[&str]) -> String {
    let events: String = events.iter().map(|data| format!("id: 1\ndata: {data}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

fn result_of(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

fn text_result(id: &Value, text: &str) -> String {
    result_of(id, &json!({ "content": [{ "type": "text", "text": text }] }))
}

#[test]
fn scripts_call_the_tools_of_a_server_with_a_url() {
    let endpoint = Endpoint::mcp(&["plain", "streamed", "fail", "reject", "gone"], |name, id| {
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
        Some(match name {
            "plain" => response("200 OK", &result_of(id, &json!({ "content": [], "structuredContent": { "n": 1 } }))),
            "streamed" => stream(&["", progress, &text_result(id, "later")]),
            "fail" => {
                let failed = json!({ "content": [{ "type": "text", "text": "because" }], "isError": true });
                response("200 OK", &result_of(id, &failed))
            }
            // The error does not contain the ID of the request.
            "reject" => {
                response("400 Bad Request", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}"#)
            }
            _ => response("500 Internal Server Error", "secret page"),
        })
    });
    let runtime = runtime();
    let upstreams = start(&runtime, vec![endpoint.config("/mcp")], 1 << 20).unwrap();
    assert!(!format!("{upstreams:?}").contains("secret"));
    let mcp = with(&upstreams, |_| {});
    let result = mcp.python(
        "print(tools.s_plain()['n'], tools.s_streamed())\n\
         for call in (tools.s_fail, tools.s_reject, tools.s_gone):\n\
         \x20   try: call()\n\x20   except tools.ToolError as error: print(error)",
    );
    assert_eq!(text(&result), "1 later\nbecause\nno\nMCP server `s` answered with HTTP 500\n", "{result:?}");
    runtime.block_on(upstreams.close());
    let received = endpoint.received();
    assert!(received.iter().all(|request| request.head.contains("\r\nx-key: secret")), "{received:?}");
    let mut calls = received.iter().filter(|request| request.body["method"] == "tools/call");
    assert!(calls.all(|call| call.head.contains("\r\nmcp-session-id: one")), "{received:?}");
    assert!(received.iter().any(|request| request.head.starts_with("delete /mcp ")), "{received:?}");
    assert!(received.iter().all(|request| !request.head.starts_with("get ")), "{received:?}");
}

#[test]
fn scripts_call_the_tools_of_another_glovebox() {
    let server = Server::start(HttpConfig::default());
    let runtime = runtime();
    let token = format!("Bearer {TOKEN}");
    let config = config(format!("http://{}/mcp", server.address), &[("Authorization", &token)]);
    let upstreams = start(&runtime, vec![config], 1 << 20).unwrap();
    let mcp = with(&upstreams, |config| config.policy.limits.timeout_ms = 60_000);
    let result = mcp.python("print(tools.s_run_code(language='javascript', code='console.log(6 * 7)')['stdout'])");
    assert_eq!(text(&result), "42\n\n", "{result:?}");
    runtime.block_on(upstreams.close());
}

#[test]
fn call_to_a_hanging_server_times_out() {
    let endpoint = Endpoint::mcp(&["wait", "now"], |name, id| {
        (name == "now").then(|| response("200 OK", &text_result(id, "now")))
    });
    let runtime = runtime();
    let upstreams = start(&runtime, vec![endpoint.config("/mcp")], 1 << 20).unwrap();
    let mcp = with(&upstreams, |config| {
        config.policy.limits.timeout_ms = 60_000;
        config.policy.limits.tool_timeout_ms = 2_000;
    });
    let result = mcp.python(
        "try: tools.s_wait()\nexcept tools.ToolError as error: print(type(error).__name__)\nprint(tools.s_now())",
    );
    assert_eq!(text(&result), "ToolTimeout\nnow\n", "{result:?}");
    until("the server is told", || endpoint.has_received("notifications/cancelled"));
    runtime.block_on(upstreams.close());
}

#[test]
fn message_over_a_limit_fails_its_call() {
    // The maximum message size is four times the maximum result size plus 4 MiB.
    let endpoint = Endpoint::mcp(&["large", "many", "stream", "event"], |name, id| {
        let many = json!({ "content": [], "structuredContent": { "v": vec![0; 300_000] } });
        Some(match name {
            "large" => response("200 OK", &text_result(id, &"x".repeat(5_000_000))),
            "many" => response("200 OK", &result_of(id, &many)),
            "stream" => stream(&[&text_result(id, &"x".repeat(5_000_000))]),
            _ => stream(&[&result_of(id, &many), &text_result(id, "last")]),
        })
    });
    let runtime = runtime();
    let upstreams = start(&runtime, vec![endpoint.config("/mcp")], 1_000).unwrap();
    let mcp = with(&upstreams, |config| config.policy.limits.tool_bytes = 1_000);
    let result = mcp.python(
        "for call in (tools.s_large, tools.s_many, tools.s_stream, tools.s_event):\n\
         \x20   try: print(call())\n\x20   except tools.ToolError as error: print(error)",
    );
    let line = "MCP server `s` sent a message that was too long or had too many values\n";
    assert_eq!(text(&result), line.repeat(4), "{result:?}");
    runtime.block_on(upstreams.close());
}

#[test]
fn values_of_a_message_take_bounded_memory() {
    if !in_child("mcp::endpoints::values_of_a_message_take_bounded_memory", Duration::from_secs(200)) {
        return;
    }
    // The text has 8 MiB, and its values need 40 times as much memory.
    const COUNT: usize = (8 << 20) / 3;
    let inner = UpstreamScript::new(
        &json!([tool("many", json!({}))]),
        &format!(
            "start = '{{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{{\"content\":[],\"structuredContent\":{{\"v\":[' % m['id']\n\
             with lock: sys.stdout.write(start + '[],' * {COUNT} + '0]}}}}}}\\n'); sys.stdout.flush()"
        ),
    );
    let endpoint = Endpoint::mcp(&["many"], |_, id| {
        let values = "[],".repeat(COUNT);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"v":[{values}0]}}}}}}"#
        );
        Some(response("200 OK", &body))
    });
    let runtime = runtime();
    let configs = vec![inner.config("p"), endpoint.config("/mcp")];
    let upstreams = start(&runtime, configs, 4 << 20).unwrap();
    let mcp = with(&upstreams, |config| {
        let limits = &mut config.policy.limits;
        (limits.tool_bytes, limits.tool_timeout_ms, limits.timeout_ms) = (4 << 20, 100_000, 100_000);
    });
    assert_eq!(text(&mcp.python("print(1)")), "1\n");
    let before = peak_resident_bytes();
    let result = mcp.python(
        "for call in (tools.p_many, tools.s_many):\n\
         \x20   try: print(len(call()))\n\x20   except tools.ToolError as error: print(error)",
    );
    let grown = peak_resident_bytes() - before;
    // The upstream program is killed while it writes, so the error may also contain the program's own message.
    let text = text(&result);
    let is_first = text.starts_with("MCP server `p` has ended: a message was too long or had too many values");
    let is_second = text.ends_with("\nMCP server `s` sent a message that was too long or had too many values\n");
    assert!(is_first && is_second, "{result:?}");
    // The endpoint runs in this process and builds its answer from several copies.
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    runtime.block_on(upstreams.close());
}

#[test]
fn redirect_is_followed_only_to_the_same_origin() {
    let runtime = runtime();
    let other = Endpoint::mcp(&["x"], |_, _| None);
    let elsewhere = format!("http://{}/mcp", other.address);
    let tools = ["x".to_owned()];
    let endpoint = Endpoint::new(move |request| {
        let redirect = |status: &str, to: &str| Some(response(&format!("{status}\r\nlocation: {to}"), ""));
        match request.head.split(' ').nth(1).unwrap() {
            "/old" => redirect("307 Temporary Redirect", "/mcp"),
            "/found" => redirect("302 Found", "/mcp"),
            "/other" => redirect("307 Temporary Redirect", &elsewhere),
            "/loop" => redirect("308 Permanent Redirect", "/loop"),
            _ => answer(request, "one", &tools, &|_, id| Some(response("200 OK", &text_result(id, "moved")))),
        }
    });
    let upstreams = start(&runtime, vec![endpoint.config("/old")], 1 << 20).unwrap();
    let mcp = with(&upstreams, |_| {});
    assert_eq!(text(&mcp.python("print(tools.s_x())")), "moved\n");
    runtime.block_on(upstreams.close());
    for (path, status) in [("/found", 302), ("/other", 307), ("/loop", 308)] {
        let error = start(&runtime, vec![endpoint.config(path)], 1 << 20).unwrap_err();
        assert_eq!(
            error,
            format!(
                "MCP server `s` answered with a redirect (HTTP {status}), which is not followed; set its `url` to the \
                 final address"
            )
        );
    }
    assert!(other.received().is_empty());
}

#[test]
fn session_is_opened_again_after_a_restart() {
    let lost = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"unknown session"}}"#;
    for unknown in [response("404 Not Found", ""), response("400 Bad Request", lost)] {
        let starts = Arc::new(AtomicUsize::new(0));
        let current = Arc::clone(&starts);
        let tools = ["who".to_owned(), "die".to_owned()];
        let endpoint = Endpoint::new(move |request| {
            let session = format!("session{}", current.load(Ordering::SeqCst));
            let is_known = request.head.contains(&format!("mcp-session-id: {session}"));
            if request.body["method"] != "initialize" && !is_known {
                return Some(unknown.clone());
            }
            answer(request, &session, &tools, &|name, id| match name {
                "who" => Some(response("200 OK", &text_result(id, &session))),
                // Closes the connection.
                _ => Some(String::new()),
            })
        });
        let runtime = runtime();
        let upstreams = start(&runtime, vec![endpoint.config("/mcp")], 1 << 20).unwrap();
        let mcp = with(&upstreams, |_| {});
        assert_eq!(text(&mcp.python("print(tools.s_who())")), "session0\n");
        starts.store(1, Ordering::SeqCst);
        let printed = text(
            &mcp.python("try: tools.s_die()\nexcept tools.ToolError as error: print(error)\nprint(tools.s_who())"),
        );
        assert!(printed.starts_with("MCP server `s` cannot be reached: "), "{printed}");
        assert!(printed.ends_with("\nsession1\n"), "{printed}");
        runtime.block_on(upstreams.close());
        assert!(text(&mcp.python("tools.s_who()")).contains("MCP server `s` is closed"));
    }
}

#[test]
fn failed_call_is_not_repeated() {
    let failed = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no paper"}}"#;
    let endpoint = Endpoint::mcp(&["print"], move |_, _| Some(response("500 Internal Server Error", failed)));
    let runtime = runtime();
    let upstreams = start(&runtime, vec![endpoint.config("/mcp")], 1 << 20).unwrap();
    let mcp = with(&upstreams, |_| {});
    let printed = text(&mcp.python("try: tools.s_print()\nexcept tools.ToolError as error: print(error)"));
    assert_eq!(printed, "no paper\n");
    let calls = endpoint.received().iter().filter(|request| request.body["method"] == "tools/call").count();
    assert_eq!(calls, 1);
    runtime.block_on(upstreams.close());
}

#[test]
fn list_of_tools_is_no_answer_to_a_call() {
    let endpoint = Endpoint::mcp(&["more"], |_, id| {
        Some(response("200 OK", &result_of(id, &json!({ "tools": [tool("new", json!({}))] }))))
    });
    let runtime = runtime();
    let upstreams = start(&runtime, vec![endpoint.config("/mcp")], 1 << 20).unwrap();
    let mcp = with(&upstreams, |_| {});
    let printed = text(&mcp.python("try: tools.s_more()\nexcept tools.ToolError as error: print(error)"));
    assert_eq!(printed, "MCP server `s` did not answer as an MCP server: the response contains no result\n");
    runtime.block_on(upstreams.close());
}

#[test]
fn url_without_a_server_is_named() {
    let runtime = runtime();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let page = Endpoint::new(|_| {
        let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx";
        Some(page.to_owned())
    });
    let denied = Endpoint::new(|_| Some(response("401 Unauthorized\r\nwww-authenticate: Bearer", "")));
    for (url, expected) in [
        (format!("http://{closed}/secret"), "cannot be reached: "),
        (format!("http://{}/secret", page.address), "did not answer as an MCP server: the response contains no result"),
        (format!("http://{}/secret", denied.address), "answered with HTTP 401"),
        ("ftp://secret".to_owned(), "has a `url` that does not begin with `http://` or `https://`"),
    ] {
        let error = start(&runtime, vec![config(url, &[("X-Key", "secret")])], 1 << 20).unwrap_err();
        assert!(error.starts_with(&format!("MCP server `s` {expected}")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
