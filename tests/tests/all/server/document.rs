//! Tests that the OpenAPI document matches the actual responses.

use std::collections::BTreeSet;

use glovebox_server::http::document;
use glovebox_tests::hold_file;
use serde_json::{Value, json};

use super::support::{Server, Setup};

/// Collects the property names of a schema, including the schemas that it is composed of.
fn properties(document: &Value, schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Some(reference) = schema["$ref"].as_str() {
        let target =
            document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference} does not exist"));
        names.extend(properties(document, target));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        names.extend(properties(document, part));
    }
    names.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    names
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn responses_match_the_openapi_document() {
    let server = Server::start(Setup::default());
    let document = document();
    assert_eq!(server.get("/v1/openapi.json").ok(), document);
    let schema = |path: &str, method: &str, status: &str| -> BTreeSet<String> {
        let response = &document["paths"][path][method]["responses"][status];
        let content = response["content"].as_object().unwrap_or_else(|| panic!("{method} {path} {status}: {response}"));
        properties(&document, &content.values().next().unwrap()["schema"])
    };
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let waits = json!({"source": "tools.ask()", "tools": [{"name": "ask"}], "suspend": true});
    let suspended = server.post("/v1/execute", &waits).json();
    let id = suspended["id"].as_str().unwrap();
    for (answer, path, method, status) in [
        (server.get("/v1/suspended").ok(), "/v1/suspended", "get", "200"),
        (server.get(&format!("/v1/suspended/{id}")).ok(), "/v1/suspended/{id}", "get", "200"),
        (suspended.clone(), "/v1/suspended/{id}", "post", "202"),
        (server.get("/v1/info").ok(), "/v1/info", "get", "200"),
        (server.post("/v1/execute", &json!({"source": "1"})).ok(), "/v1/execute", "post", "200"),
        (server.post("/v1/validate", &json!({"source": "1"})).ok(), "/v1/validate", "post", "200"),
        (server.get("/v1/sessions").ok(), "/v1/sessions", "get", "200"),
        (server.get("/v1/sessions/s").ok(), "/v1/sessions/{id}", "get", "200"),
        (server.get("/v1/sessions/s/files").ok(), "/v1/sessions/{id}/files", "get", "200"),
        (server.post("/v1/sessions/s/checkpoint", &json!({})).ok(), "/v1/sessions/{id}/checkpoint", "post", "200"),
        (server.get("/v1/sessions/s/checkpoints").ok(), "/v1/sessions/{id}/checkpoints", "get", "200"),
        (
            server.post("/v1/sessions/s/execute", &json!({"source": "x = 1"})).ok(),
            "/v1/sessions/{id}/execute",
            "post",
            "200",
        ),
        (
            server.post("/v1/sessions/s/validate", &json!({"source": "x"})).ok(),
            "/v1/sessions/{id}/validate",
            "post",
            "200",
        ),
        (server.get("/v1/sessions/s/variables/x").ok(), "/v1/sessions/{id}/variables/{name}", "get", "200"),
        (server.post("/v1/sessions/s/undo", &json!({})).ok(), "/v1/sessions/{id}/undo", "post", "200"),
        (server.post("/v1/sessions/s/hibernate", &json!({})).ok(), "/v1/sessions/{id}/hibernate", "post", "200"),
    ] {
        assert_eq!(names(&answer), schema(path, method, status), "{method} {path}");
    }
    // Each path and method in the document is a route.
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let path = path.replace("{id}", "none").replace("{name}", "x").replace("{path}", "x");
            let answer = server.ask(&method.to_uppercase(), &path, &[], b"");
            let kind =
                serde_json::from_slice::<Value>(&answer.body).map(|body| body["type"].clone()).unwrap_or_default();
            assert!(kind != "no-route" && kind != "no-method", "{method} {path}: {kind}");
            assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{method} {path}");
        }
    }
}

#[test]
fn openapi_document_matches_the_published_one() {
    hold_file("docs/openapi.json", &(serde_json::to_string_pretty(&document()).unwrap() + "\n"));
}
