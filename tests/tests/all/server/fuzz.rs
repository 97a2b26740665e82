//! Tests that any request to any route returns a result or a typed problem, and that the server survives.
//!
//! Routes, parameters and bodies come from the OpenAPI document, so new routes are covered automatically.
//! `GLOVEBOX_FUZZ_SEED` repeats a run, `GLOVEBOX_FUZZ_REQUESTS` sets its length.

use std::{
    collections::BTreeMap,
    env,
    time::{SystemTime, UNIX_EPOCH},
};

use glovebox_server::{
    TenantConfig,
    http::{HttpConfig, document},
};
use glovebox_tests::fuzz::Numbers;
use serde_json::{Map, Value, json};

use super::support::{Answer, Server, Setup, metric, until};

/// The documented problem types.
const KNOWN: [&str; 32] = [
    "cancelled",
    "diverged",
    "execution-busy",
    "exists",
    "file",
    "generation",
    "host",
    "idempotency-key",
    "invalid-argument",
    "invalid-policy",
    "no-checkpoint",
    "no-method",
    "no-route",
    "no-variable",
    "not-found",
    "not-resumable",
    "not-running",
    "not-suspendable",
    "origin",
    "paused",
    "quota-exceeded",
    "range",
    "rate-exceeded",
    "session-busy",
    "session-ended",
    "timeout",
    "too-large",
    "unauthorized",
    "unavailable",
    "unknown-runtime",
    "unsupported",
    "variable",
];

const METHODS: [&str; 10] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "get"];

/// Path segments to choose from.
const SEGMENTS: [&str; 18] = [
    "s",
    "s",
    "s",
    "x",
    "none",
    "%00",
    "%ff",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%2fs",
    ".hidden",
    "a%2fb",
    "%C3%A9",
    "%",
    "%zz",
    "-1",
    "%F0%9F%98%80",
    "*",
];

/// Generates a random value for a property.
fn value(numbers: &mut Numbers, depth: usize) -> Value {
    match numbers.below(if depth > 3 { 18 } else { 22 }) {
        0 => json!(null),
        1 => json!(true),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(1e300),
        5 => json!(u64::MAX),
        6 => json!(""),
        7 => json!("x"),
        8 => json!("python"),
        9 => json!("javascript"),
        10 => json!("console.log(1)"),
        11 => json!("while (true) {}"),
        12 => json!("\u{0}\u{202e}\u{feff}"),
        13 => json!("../../etc/passwd"),
        14 => json!("a".repeat(numbers.below(70_000))),
        15 => json!([]),
        16 => json!({}),
        17 => json!({"base64": "!"}),
        18 => Value::from_iter((0..numbers.below(70)).map(|_| value(numbers, depth + 1))),
        19 => json!({"limits": {"fuel": value(numbers, depth + 1), "timeout_ms": 100}}),
        20 => json!([{"name": "t", "callback": value(numbers, depth + 1)}]),
        _ => json!({"a": value(numbers, depth + 1), "id": value(numbers, depth + 1)}),
    }
}

/// Returns the names of a body's properties from its schema.
fn names(document: &Value, schema: &Value) -> Vec<String> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

fn body(numbers: &mut Numbers, names: &[String]) -> Vec<u8> {
    let mut object = Map::new();
    for _ in 0..numbers.below(5) {
        let name = match names.len() {
            0 => "nothing".to_owned(),
            len if numbers.below(8) > 0 => names[numbers.below(len)].clone(),
            _ => "nothing".to_owned(),
        };
        object.insert(name, value(numbers, 0));
    }
    for required in ["source", "code"] {
        if numbers.below(3) > 0 && names.iter().any(|name| name == required) {
            object.insert(required.to_owned(), json!("1"));
        }
    }
    let mut bytes = match numbers.below(12) {
        0 => value(numbers, 0).to_string().into_bytes(),
        1 => Vec::new(),
        2 => numbers.bytes(512),
        3 => {
            let depth = numbers.below(20_000);
            format!("{}1{}", r#"{"source":["#.repeat(depth), "]}".repeat(depth)).into_bytes()
        }
        // UTF-16 is not valid JSON.
        4 => Value::Object(object).to_string().encode_utf16().flat_map(u16::to_le_bytes).collect(),
        _ => Value::Object(object).to_string().into_bytes(),
    };
    if numbers.below(4) == 0 {
        bytes = numbers.mutate(&bytes);
    }
    bytes
}

/// Generates headers, which are valid often enough that requests also reach the code behind the header checks.
fn headers(numbers: &mut Numbers) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    let odd = [
        "",
        "\"",
        "*",
        "\"1-1\"",
        "a, b",
        "text/event-stream",
        "application/x-ndjson",
        "gzip",
        "multipart/form-data; boundary=x",
        "\u{e9}",
    ];
    for name in [
        "accept",
        "if-match",
        "idempotency-key",
        "content-type",
        "content-encoding",
        "range",
        "expect",
        "x-forwarded-for",
    ] {
        if numbers.below(8) == 0 {
            headers.push((name, odd[numbers.below(odd.len())].to_owned()));
        }
    }
    match numbers.below(40) {
        0 => headers.push(("authorization", "Bearer wrong".into())),
        1 => headers.push(("authorization", "Basic \u{e9}".into())),
        2 => headers.push(("host", "evil.example".into())),
        3 => headers.push(("origin", "https://evil.example".into())),
        _ => {}
    }
    headers
}

/// A route and the property names of its body.
struct Route {
    method: String,
    path: String,
    names: Vec<String>,
}

fn routes() -> Vec<Route> {
    let document = document();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let (method, names) = (method.to_uppercase(), names(&document, schema));
            routes.push(Route { method, path: path.clone(), names });
        }
    }
    assert!(routes.len() > 25, "the document must list every route");
    routes
}

/// Returns the routes for E2B clients, which the document does not include.
fn routes_of_e2b() -> Vec<Route> {
    let route = |method: &str, path: &str, names: &str| Route {
        method: method.to_owned(),
        path: path.to_owned(),
        names: names.split_whitespace().map(str::to_owned).collect(),
    };
    vec![
        route("POST", "/v2/sandboxes", "templateID timeout autoPause metadata envVars mcp volumeMounts"),
        route("GET", "/v2/sandboxes?state={id}&metadata={id}", ""),
        route("POST", "/v2/sandboxes/{id}/connect", "timeout"),
        route("GET", "/sandboxes/{id}", ""),
        route("DELETE", "/sandboxes/{name}", ""),
        route("POST", "/sandboxes/{name}/pause", "memory"),
        route("POST", "/sandboxes/{id}/timeout", "timeout"),
        route("POST", "/sandboxes/{id}/{name}", ""),
        route("GET", "/health", ""),
        route("POST", "/execute", "code context_id language env_vars"),
        route("POST", "/contexts", "language cwd"),
        route("GET", "/contexts", ""),
        route("DELETE", "/contexts/{name}", ""),
        route("POST", "/contexts/{id}/restart", ""),
        route("GET", "/files?path={path}", ""),
        route("POST", "/files?path={path}", ""),
        route("POST", "/filesystem.Filesystem/ListDir", "path depth"),
        route("POST", "/filesystem.Filesystem/Stat", "path"),
        route("POST", "/filesystem.Filesystem/Remove", "path"),
        route("POST", "/filesystem.Filesystem/Move", "source destination"),
        route("POST", "/filesystem.Filesystem/MakeDir", "path"),
        route("POST", "/filesystem.Filesystem/{name}", "path"),
        route("POST", "/process.Process/{name}", "process"),
    ]
}

/// Replaces the parameters in a path with random values.
fn filled(numbers: &mut Numbers, path: &str) -> String {
    let mut filled = path.to_owned();
    for name in ["{id}", "{name}", "{path}"] {
        if filled.contains(name) {
            let mut segment = SEGMENTS[numbers.below(SEGMENTS.len())].to_owned();
            if name == "{path}" && numbers.below(3) == 0 {
                segment = format!("{segment}/{}//x", SEGMENTS[numbers.below(SEGMENTS.len())]);
            }
            if numbers.below(40) == 0 {
                segment = "a".repeat(3_000);
            }
            filled = filled.replacen(name, &segment, 1);
        }
    }
    match numbers.below(12) {
        0 => filled + "?pattern=%5B&recursive=maybe&%ff=%00",
        1 => filled + "/",
        2 => filled + "/../..",
        _ => filled,
    }
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("`{name}` is a number")))
}

/// Sends random requests to the routes, and checks every answer against the documented properties.
fn fuzz(server: &Server, routes: &[Route], more: &[(&'static str, String)], mut renew: impl FnMut(&Server)) {
    let seed = setting("GLOVEBOX_FUZZ_SEED").unwrap_or_else(|| {
        u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() & u128::from(u64::MAX)).unwrap()
    });
    let requests = setting("GLOVEBOX_FUZZ_REQUESTS").unwrap_or(1_500);
    println!("GLOVEBOX_FUZZ_SEED={seed} GLOVEBOX_FUZZ_REQUESTS={requests}");
    let mut numbers = Numbers::new(seed);
    let mut statuses = BTreeMap::<u16, usize>::new();
    for request in 0..requests {
        if request % 50 == 0 {
            renew(server);
        }
        let numbers = &mut numbers;
        let route = &routes[numbers.below(routes.len())];
        let method = if numbers.below(10) == 0 { METHODS[numbers.below(METHODS.len())] } else { &route.method };
        let path = filled(numbers, &route.path);
        let mut headers = headers(numbers);
        headers.extend(more.iter().filter(|_| numbers.below(30) > 0).cloned());
        let bytes = body(numbers, &route.names);
        let given: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = server.ask(method, &path, &given, &bytes);
        let describe = || {
            let bytes = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned();
            format!("request {request} of seed {seed}: {method} {path} {headers:?} {bytes}: {answer:?}")
        };
        check(&answer, method, &describe);
        assert!(!String::from_utf8_lossy(&answer.body).contains(server.dir.path().to_str().unwrap()), "{}", describe());
        *statuses.entry(answer.status).or_default() += 1;
    }
    println!("{statuses:?}");
    assert!(
        statuses.len() > 5 && statuses.get(&200).is_some_and(|count| *count > 10),
        "expected many different statuses: {statuses:?}"
    );
    until("nothing is left", || metric(server, "glovebox_running") == 0 && metric(server, "glovebox_waiting") == 0);
    let fresh = server.post("/v1/execute", &json!({"language": "javascript", "source": "console.log(1)"}));
    assert_eq!(fresh.ok()["stdout"], "1\n", "seed {seed}");
}

fn check(answer: &Answer, method: &str, describe: &dyn Fn() -> String) {
    // These are not server faults: an unimplemented feature (501), and a sandbox that is not running (502).
    assert!(answer.status < 500 || matches!(answer.status, 501 | 502), "{}", describe());
    if answer.status < 300 || method == "HEAD" {
        return;
    }
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", describe()));
    let media_type = answer.header("content-type").unwrap_or_default();
    // Procedure calls report errors in the format of their protocol.
    assert!(matches!(media_type, "application/problem+json" | "application/json"), "{}", describe());
    assert_eq!(problem["status"], answer.status, "{}", describe());
    assert!(KNOWN.contains(&problem["type"].as_str().unwrap_or_default()), "{}", describe());
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", describe());
}

fn setup() -> Setup {
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(|tenant| {
        tenant.policy.limits.timeout_ms = 300;
        tenant.policy.limits.timeout_reserve_ms = 0;
        tenant.suspended = 64;
    });
    let http = HttpConfig { e2b: true, ..HttpConfig::default() };
    Setup { tenant: Some(change), http, ..Setup::default() }
}

#[test]
fn openapi_routes_survive_fuzzing() {
    let server = Server::start(setup());
    fuzz(&server, &routes(), &[], |server| {
        server.post("/v1/sessions", &json!({"id": "s", "language": "javascript"}));
        server.post("/v1/sessions/s/execute", &json!({"source": "x = 1"}));
    });
}

#[test]
fn e2b_routes_survive_fuzzing() {
    let server = Server::start(setup());
    let made = server.post("/v2/sandboxes", &json!({"templateID": "t", "timeout": 3_600})).ok();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let more = [("e2b-sandbox-id", text("sandboxID")), ("x-access-token", text("envdAccessToken"))];
    let id = text("sandboxID");
    fuzz(&server, &routes_of_e2b(), &more, |server| {
        let connected = server.post(&format!("/v2/sandboxes/{id}/connect"), &json!({"timeout": 3_600}));
        assert!(matches!(connected.status, 200 | 201), "{connected:?}");
        // Removes sandboxes that earlier requests created.
        for listed in server.get("/v2/sandboxes").ok().as_array().unwrap() {
            let other = listed["sandboxID"].as_str().unwrap();
            if other != id {
                server.ask("DELETE", &format!("/sandboxes/{other}"), &[], b"");
            }
        }
    });
}
