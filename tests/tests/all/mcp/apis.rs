//! Tests scripts that call the operations of an HTTP API with an OpenAPI document.

use std::collections::BTreeMap;

use glovebox_server::mcp::{Approve, DocumentSource, OpenApiConfig, UpstreamConfig, UpstreamTransport, Upstreams};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use super::{
    endpoints::{Endpoint, RequestRecord, response},
    support::{Mcp, runtime, start, text},
    upstreams::with,
};

const SECRET: &str = "secret/of-16-letters";

fn document() -> Value {
    let id = json!({ "name": "petId", "in": "path", "required": true, "schema": { "type": "string" } });
    let fields =
        json!({ "name": "fields", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } });
    let pet = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } });
    json!({
        "openapi": "3.0.3",
        "servers": [{ "url": "/v1" }],
        "paths": {
            "/pets": { "post": { "operationId": "createPet", "summary": "Adds a pet.",
                "requestBody": { "required": true, "content": pet } } },
            "/pets/{petId}": {
                "parameters": [id],
                "get": { "operationId": "getPet", "parameters": [fields], "responses": { "200": { "content": pet } } },
                "delete": { "responses": { "204": { "description": "Deleted." } } },
            },
            "/pets/{petId}/photo": { "parameters": [id], "put": { "operationId": "upload",
                "requestBody": { "content": { "image/png": {} } } } },
        },
        "components": { "schemas": { "Pet": { "type": "object", "properties": { "name": { "type": "string" } } } } },
    })
}

/// The path and the query of a request, in lower case.
fn target(request: &RequestRecord) -> &str {
    request.head.split(' ').nth(1).unwrap()
}

/// Starts an API with its document at `/api.json`. `call` returns the response to a request for another path.
fn api(call: impl Fn(&RequestRecord) -> Option<String> + Send + Sync + 'static) -> Endpoint {
    Endpoint::new(move |request| match target(request) {
        "/api.json" => Some(response("200 OK", &document().to_string())),
        _ => call(request),
    })
}

fn config(document: String, server: Option<String>) -> UpstreamConfig {
    let headers = BTreeMap::from([("Authorization".to_owned(), format!("Bearer {SECRET}"))]);
    let api = OpenApiConfig { document: DocumentSource::Url(document), server, headers };
    UpstreamConfig {
        name: "pets".into(),
        transport: UpstreamTransport::OpenApi(api),
        tools: None,
        approve: Approve::Never,
    }
}

fn started(runtime: &Runtime, endpoint: &Endpoint, result_bytes: u64) -> Upstreams {
    start(runtime, vec![config(format!("http://{}/api.json", endpoint.address), None)], result_bytes).unwrap()
}

/// Returns a script that prints the error of each call.
fn errors_of(calls: &[&str]) -> String {
    let calls: String = calls.iter().map(|call| format!("lambda: tools.{call}, ")).collect();
    format!(
        "for call in ({calls}):\n\
         \x20   try: print(call())\n\x20   except tools.ToolError as error: print(type(error).__name__, error)"
    )
}

#[test]
fn scripts_call_the_operations_of_an_api() {
    let endpoint = api(|request| {
        let answer = json!({ "target": target(request), "body": request.body });
        Some(match request.head.split(' ').next().unwrap() {
            "delete" => response("204 No Content", ""),
            _ => response("200 OK", &answer.to_string()),
        })
    });
    let runtime = runtime();
    let upstreams = started(&runtime, &endpoint, 1 << 20);
    assert!(!format!("{upstreams:?}").contains("secret"));
    assert_eq!(
        upstreams.notices(),
        ["API `pets` leaves out the operation `upload`: it has a body of type `image/png`; only JSON is supported"]
    );
    let stub = glovebox::tool_stubs(&upstreams.tools(), glovebox::Language::Python).unwrap();
    assert!(stub.contains("class _pets_getPet") && stub.contains("petId: str"), "{stub}");
    let mcp = with(&upstreams, |_| {});
    let run = mcp.runtime.block_on(mcp.client().list_all_tools()).unwrap().remove(0);
    let description = run.description.unwrap();
    assert!(description.contains("\ntools.pets_createPet(body: {name: str})  # Adds a pet.\n"), "{description}");
    let result = mcp.python(
        "print(tools.pets_getPet('a/b', fields=['x&y', 'z'])['target'])\n\
         print(tools.pets_createPet(body={'name': 'Rex'}))\n\
         print(tools.pets_delete_pets_petId(petId='1'))\n\
         print(tools.search('create')[0]['name'], tools.describe('pets_createPet')['schema']['required'])",
    );
    assert_eq!(
        text(&result),
        "/v1/pets/a%2fb?fields=x%26y&fields=z\n{'body': {'name': 'Rex'}, 'target': '/v1/pets'}\nNone\n\
         pets_createPet ['body']\n",
        "{result:?}"
    );
    runtime.block_on(upstreams.close());
    assert!(text(&mcp.python("tools.pets_getPet('1')")).contains("API `pets` is closed"));
    let received = endpoint.received();
    assert!(received.iter().all(|request| request.head.contains(&format!("\r\nauthorization: bearer {SECRET}"))));
    let post = received.iter().find(|request| request.head.starts_with("post ")).unwrap();
    assert!(post.head.contains("\r\ncontent-type: application/json"), "{post:?}");
}

#[test]
fn unsuccessful_answers_are_errors_without_secrets() {
    let other = Endpoint::new(|_| Some(response("200 OK", "{}")));
    let elsewhere = format!("http://{}/", other.address);
    let endpoint = api(move |request| {
        let redirect = |status: &str, to: &str| response(&format!("{status}\r\nlocation: {to}"), "");
        Some(match target(request) {
            "/v1/pets/long" => response("404 Not Found", &format!("no\u{1b}[2J\n{}", "x".repeat(100_000))),
            "/v1/pets/empty" => response("500 Internal Server Error", ""),
            "/v1/pets/echo" => response("400 Bad Request", &format!("{{\"authorization\": \"Bearer {SECRET}\"}}")),
            "/v1/pets/escaped" => response("400 Bad Request", &format!("\"{}\"", SECRET.replace('/', "\\/"))),
            "/v1/pets/other" => redirect("307 Temporary Redirect", &elsewhere),
            "/v1/pets/found" => redirect("302 Found", "/v1/pets/x"),
            "/v1/pets/moved" => redirect("308 Permanent Redirect", "/v1/pets/x"),
            "/v1/pets/json" => response("200 OK", "{"),
            _ => response("200 OK", "\"end\""),
        })
    });
    let runtime = runtime();
    let upstreams = started(&runtime, &endpoint, 1 << 20);
    let mcp = with(&upstreams, |_| {});
    let ids = ["long", "empty", "echo", "escaped", "other", "found", "moved", "json", "..", ""];
    let calls: Vec<String> = ids.iter().map(|id| format!("pets_getPet('{id}')")).collect();
    let printed = text(&mcp.python(&errors_of(&calls.iter().map(String::as_str).collect::<Vec<_>>())));
    let lines: Vec<&str> = printed.lines().collect();
    let long = format!("ToolError API `pets` answered with HTTP 404: no\\u{{1b}}[2J\\n{}", "x".repeat(193));
    assert_eq!(
        lines,
        [
            &*long,
            "ToolError API `pets` answered with HTTP 500",
            "ToolError API `pets` answered with HTTP 400; the body is not shown, because it repeats a configured header",
            "ToolError API `pets` answered with HTTP 400; the body is not shown, because it repeats a configured header",
            "ToolError API `pets` answered with a redirect (HTTP 307), which is not followed",
            "ToolError API `pets` answered with a redirect (HTTP 302), which is not followed",
            "end",
            "ToolError API `pets` answered with invalid JSON",
            "InvalidArguments the arguments result in a path with the segment `.` or `..`",
            "InvalidArguments the argument `petId` is empty",
        ]
    );
    runtime.block_on(upstreams.close());
    assert!(other.received().is_empty());
}

#[test]
fn large_and_slow_answers_fail_their_call() {
    let endpoint = api(|request| match target(request) {
        "/v1/pets/at" => Some(response("200 OK", &format!("\"{}\"", "x".repeat(998)))),
        "/v1/pets/over" => Some(response("200 OK", &format!("\"{}\"", "x".repeat(999)))),
        "/v1/pets/many" => Some(response("200 OK", &"[".repeat(120))),
        _ => None,
    });
    let runtime = runtime();
    let upstreams = started(&runtime, &endpoint, 1_000);
    let mcp = with(&upstreams, |config| {
        config.policy.limits.tool_bytes = 1_000;
        config.policy.limits.timeout_ms = 60_000;
        config.policy.limits.tool_timeout_ms = 60_000;
    });
    let script =
        format!("print(len(tools.pets_getPet('at')))\n{}", errors_of(&["pets_getPet('over')", "pets_getPet('many')"]));
    let printed = text(&mcp.python(&script));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "998", "{printed}");
    assert!(lines[1].starts_with("ToolLimit the result is more than 1000 bytes of JSON"), "{printed}");
    assert_eq!(lines[2], "ToolError API `pets` sent a message that was too long or had too many values");
    let impatient = with(&upstreams, |config| {
        config.policy.limits.timeout_ms = 60_000;
        config.policy.limits.tool_timeout_ms = 2_000;
    });
    let printed = text(&impatient.python(&errors_of(&["pets_getPet('hang')"])));
    assert!(printed.starts_with("ToolTimeout "), "{printed}");
    runtime.block_on(upstreams.close());
}

#[test]
fn headers_are_sent_only_to_the_server_of_the_api() {
    let runtime = runtime();
    let documents = api(|_| None);
    let server = Endpoint::new(|_| Some(response("200 OK", "\"moved\"")));
    let url = format!("http://{}/api.json", documents.address);
    let upstreams =
        start(&runtime, vec![config(url, Some(format!("http://{}/v2/", server.address)))], 1 << 20).unwrap();
    let mcp = with(&upstreams, |_| {});
    assert_eq!(text(&mcp.python("print(tools.pets_getPet('1'))")), "moved\n");
    runtime.block_on(upstreams.close());
    assert!(documents.received().iter().all(|request| !request.head.contains("authorization")));
    let received = server.received();
    assert!(received.len() == 1 && received[0].head.contains(SECRET), "{received:?}");
    assert_eq!(target(&received[0]), "/v2/pets/1");
}

#[test]
fn unusable_document_is_named() {
    let runtime = runtime();
    let page = |status: &'static str, body: &'static str| Endpoint::new(move |_| Some(response(status, body)));
    for (endpoint, expected) in [
        (page("200 OK", "openapi: 3.0.0"), "is not JSON; convert it to JSON, because YAML is not supported"),
        (page("401 Unauthorized", SECRET), "cannot be fetched: the response is HTTP 401"),
        (page("302 Found\r\nlocation: http://127.0.0.1:1/", ""), "cannot be fetched: the response is HTTP 302"),
        (
            page("200 OK", r#"{"openapi": "3.0.0", "servers": [{"url": "http://127.0.0.1:1"}]}"#),
            "has a document with `servers` of another origin than its `openapi` URL; set its `server`",
        ),
        (
            Endpoint::new(|_| Some(response("200 OK", &format!("{{{}", " ".repeat(4 << 20))))),
            "has a document of more than 4194304 bytes",
        ),
    ] {
        let url = format!("http://{}/secret", endpoint.address);
        let error = start(&runtime, vec![config(url, None)], 1 << 20).unwrap_err();
        assert!(error.starts_with("API `pets` ") && error.contains(expected), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let endpoint = api(|_| None);
    let mut missing = config(format!("http://{}/api.json", endpoint.address), None);
    missing.tools = Some(vec!["getPet".into(), "getCat".into()]);
    let error = start(&runtime, vec![missing.clone()], 1 << 20).unwrap_err();
    assert_eq!(error, "API `pets` has no tool `getCat`; remove it from its `tools`");
    missing.tools = Some(vec!["getPet".into(), "upload".into()]);
    let error = start(&runtime, vec![missing.clone()], 1 << 20).unwrap_err();
    assert!(error.starts_with("API `pets` has the operation `upload`, which has a body of type"), "{error}");
    missing.tools = None;
    missing.approve = Approve::Tools(vec!["createPet".into()]);
    let upstreams = start(&runtime, vec![missing], 1 << 20).unwrap();
    assert_eq!((upstreams.tools().len(), upstreams.approved_tools().len()), (2, 1));
}

/// A thousand tools cost a model at most 1,000 tokens before its first call: 3,500 bytes, if a token is 3.5 bytes long on
/// average. A token of `o200k_base` is 4 bytes long in the text before the names, and 6 bytes in names that consist of
/// words. Each of these names with numbers takes four tokens of 3 bytes, so their number is also limited.
#[test]
fn thousand_tools_cost_at_most_a_thousand_tokens() {
    const MAX_BYTES: usize = 3_500;
    const MAX_NAMES: usize = 200;
    let operation = |index: u32| {
        let parameter = json!({ "name": "fields", "in": "query", "schema": { "type": "string" } });
        let summary = format!("Returns entry {index} of the register with its fields.");
        let get = json!({ "operationId": format!("do_{index}"), "summary": summary, "parameters": [parameter] });
        (format!("/entries/{index}"), json!({ "get": get }))
    };
    let paths: Map<String, Value> = (0..1_000).map(operation).collect();
    let document = json!({ "openapi": "3.0.3", "servers": [{ "url": "/v1" }], "paths": paths }).to_string();
    let endpoint =
        Endpoint::new(move |request| (target(request) == "/api.json").then(|| response("200 OK", &document)));
    let runtime = runtime();
    let upstreams = started(&runtime, &endpoint, 1 << 20);
    assert_eq!(upstreams.tools().len(), 1_000);
    let [mut with_tools, mut without] = [&with(&upstreams, |_| {}), &Mcp::new()]
        .map(|mcp| mcp.runtime.block_on(mcp.client().list_all_tools()).unwrap());
    let (run, plain) = (with_tools.remove(0), without.remove(0));
    // Only the description of `run_code` contains the tools.
    assert_eq!(with_tools, without);
    assert_eq!((&run.input_schema, &run.output_schema), (&plain.input_schema, &plain.output_schema));
    let [description, plain] = [run, plain].map(|tool| tool.description.unwrap());
    let listing = description.strip_prefix(&*plain).unwrap_or_else(|| panic!("{description}"));
    assert!(listing.len() <= MAX_BYTES, "{}: {listing}", listing.len());
    let (introduction, names) = listing.split_once("\nNames: ").unwrap_or_else(|| panic!("{listing}"));
    assert!(introduction.contains("tools.search("), "{listing}");
    assert!(names.split(' ').filter(|name| name.starts_with("pets_do_")).count() <= MAX_NAMES, "{listing}");
    runtime.block_on(upstreams.close());
}
