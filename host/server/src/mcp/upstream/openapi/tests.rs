//! Tests of whole documents, some of which are hostile.

use serde_json::{Map, json};
use tempfile::TempDir;

use super::*;
use crate::mcp::upstream::{Approve, UpstreamTransport};

/// Starts an API named `api` whose document is in a file.
async fn started(document: &Value, change: impl FnOnce(&mut UpstreamConfig)) -> Result<StartedUpstream<Api>, String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("api.json");
    std::fs::write(&path, document.to_string()).unwrap();
    let api = OpenApiConfig {
        document: DocumentSource::File(path),
        server: Some("http://127.0.0.1:1".to_owned()),
        headers: BTreeMap::new(),
    };
    let mut config = UpstreamConfig {
        name: "api".to_owned(),
        transport: UpstreamTransport::OpenApi(api.clone()),
        tools: None,
        approve: Approve::Never,
    };
    change(&mut config);
    Api::start(&config, &api).await
}

fn document(paths: Value) -> Value {
    json!({ "openapi": "3.1.0", "paths": paths })
}

fn tool<'a>(started: &'a StartedUpstream<Api>, name: &str) -> &'a Tool {
    started.tools.iter().find(|tool| tool.name == name).unwrap()
}

#[tokio::test]
async fn operation_becomes_a_typed_tool() {
    let pet = json!({ "type": "object", "properties": {
        "id": { "type": "integer", "readOnly": true }, "name": { "type": "string" },
        "parent": { "$ref": "#/components/schemas/Pet" },
    }, "required": ["id", "name"] });
    let mut document = document(json!({ "/pets/{petId}": {
        "parameters": [{ "$ref": "#/components/parameters/Id" }],
        "put": {
            "operationId": "pets/replace",
            "summary": "Replaces a pet.",
            "description": "All\nof it. \u{1b}[2J",
            "parameters": [{ "name": "dry-run", "in": "query", "description": "d", "schema": { "type": "boolean" } }],
            "requestBody": { "required": true, "content": { "application/merge-patch+json": {
                "schema": { "$ref": "#/components/schemas/Pet" } } } },
            "responses": { "200": { "content": { "application/json": {
                "schema": { "type": "array", "items": { "$ref": "#/components/schemas/Pet" } } } } }, "404": {} },
        },
        "delete": { "responses": { "204": { "description": "none" } } },
    } }));
    document["components"] = json!({
        "schemas": { "Pet": pet },
        "parameters": { "Id": { "name": "petId", "in": "path", "required": true, "schema": { "type": "integer" } } },
    });
    let started = started(&document, |_| {}).await.unwrap();
    let replace = tool(&started, "pets/replace");
    assert_eq!(replace.description.as_deref(), Some("Replaces a pet. All of it. [2J"));
    assert_eq!(
        Value::Object((*replace.input_schema).clone()),
        json!({
            "type": "object",
            "properties": {
                "petId": { "type": "integer" },
                "dry-run": { "type": "boolean", "description": "d" },
                "body": { "$ref": "#/$defs/Pet" },
            },
            "required": ["petId", "body"],
            "additionalProperties": false,
            "$defs": { "Pet": { "type": "object", "properties": {
                "name": { "type": "string" }, "parent": { "$ref": "#/$defs/Pet" } }, "required": ["name"] } },
        })
    );
    let output = Value::Object((**replace.output_schema.as_ref().unwrap()).clone());
    assert_eq!(output["items"], json!({ "$ref": "#/$defs/Pet" }));
    assert_eq!(output["$defs"]["Pet"]["required"], json!(["id", "name"]));
    let delete = tool(&started, "delete_pets_petId");
    assert_eq!(Value::Object((**delete.output_schema.as_ref().unwrap()).clone()), json!({ "type": "null" }));
    assert_eq!(script_name("api", "pets/replace"), "api_pets_replace");
    assert!(started.notices.is_empty());
}

#[tokio::test]
async fn unsupported_operation_is_left_out_with_a_reason() {
    let content = |kind: &str| json!({ "content": { kind: { "schema": {} } } });
    let with = |operation: Value| json!({ "post": operation });
    let cookie = json!([{ "name": "c", "in": "cookie", "required": true }]);
    for (path, item, expected) in [
        (
            "/x",
            with(json!({ "requestBody": content("multipart/form-data") })),
            "has a body of type `multipart/form-data`",
        ),
        ("/x", with(json!({ "requestBody": { "content": { "\u{1b}[2J": {} } } })), r"of type `\u{1b}[2J`"),
        ("/x", with(json!({ "requestBody": { "$ref": "#/x" } })), "a body with an unresolved `$ref`"),
        ("/x", with(json!({ "responses": { "200": content("image/png") } })), "answers with type `image/png`"),
        ("/x", with(json!({ "servers": [{ "url": "http://evil.test" }] })), "has its own `servers`"),
        ("/x", with(json!({ "parameters": cookie })), "has the parameter `c` in a cookie"),
        ("/x", with(json!({ "parameters": [{ "$ref": "#/paths/~1x/post/parameters/0" }] })), "an unresolved `$ref`"),
        ("/x", with(json!({ "parameters": vec![json!({}); 101] })), "has more than 100 parameters"),
        ("/{id}", with(json!({})), "has no parameter for `{id}` in its path"),
        ("/{id", with(json!({})), "has an invalid path"),
        ("/a\n", with(json!({})), "has an invalid path"),
        ("x", with(json!({})), "has an invalid path"),
        ("/x", json!({ "trace": {} }), "uses the method `trace`"),
    ] {
        let paths = json!({ path: item, "/ok": { "get": {} } });
        let left = started(&document(paths.clone()), |_| {}).await.unwrap();
        assert_eq!(left.tools.len(), 1, "{expected}");
        let [notice] = &*left.notices else { panic!("{:?}", left.notices) };
        assert!(notice.starts_with("API `api` leaves out the operation `") && notice.contains(expected), "{notice}");
        assert!(!notice.contains(is_hidden), "{notice}");
        // An operation that is left out is an error if the configuration names it.
        let named = |config: &mut UpstreamConfig| {
            config.approve = Approve::Tools(["post_x", "post_id", "post_a", "trace_x"].map(str::to_owned).into());
        };
        assert!(started(&document(paths), named).await.err().unwrap().contains(expected), "{expected}");
    }
}

#[tokio::test]
async fn names_are_unique_and_short() {
    let [longest, too_long] = [256, 257].map(|length| "x".repeat(length));
    let paths = json!({
        "/a": { "get": { "operationId": "get-it" }, "put": { "operationId": "get-it" } },
        "/b": { "get": { "operationId": "get.it" }, "put": { "operationId": "\u{202e}\n" } },
        "/c": { "get": { "operationId": longest }, "put": {} },
        "/c/": { "put": {} },
        "/d": { "get": { "operationId": too_long } },
    });
    let started = started(&document(paths), |_| {}).await.unwrap();
    let names: Vec<String> = started.tools.iter().map(|tool| script_name("api", &tool.name)).collect();
    assert_eq!(names, ["api_get_it", "api___", &*format!("api_{}", "x".repeat(60)), "api_put_c", "api_get_d"]);
    assert_eq!(started.notices.len(), 3, "{:?}", started.notices);
    for notice in &started.notices {
        assert!(notice.contains("has the same name in scripts as another operation"), "{notice}");
    }
}

#[tokio::test]
async fn number_and_size_of_operations_are_limited() {
    let many = |count: usize| {
        let paths: Map<String, Value> = (0..count).map(|index| (format!("/p{index}"), json!({ "get": {} }))).collect();
        document(json!(paths))
    };
    assert_eq!(started(&many(1_000), |_| {}).await.unwrap().tools.len(), 1_000);
    let error = started(&many(1_001), |_| {}).await.err().unwrap();
    assert!(error.contains("has more than 1000 operations; list the operations to use in its `tools`"), "{error}");
    let selected = |config: &mut UpstreamConfig| config.tools = Some(vec!["get_p7".to_owned()]);
    assert_eq!(started(&many(1_001), selected).await.unwrap().tools.len(), 1);

    // Every operation refers to the same schema of 40 KiB, which fits into the limits of one tool.
    let body = json!({ "content": { "application/json": { "schema": { "$ref": "#/components/schemas/S" } } } });
    let paths: Map<String, Value> =
        (0..100).map(|index| (format!("/p{index}"), json!({ "post": { "requestBody": body } }))).collect();
    let mut large = document(json!(paths));
    large["components"] = json!({ "schemas": { "S": { "enum": vec!["x".repeat(1 << 10); 40] } } });
    let error = started(&large, |_| {}).await.err().unwrap();
    assert!(error.contains("describes its operations in more than 1048576 bytes"), "{error}");

    let left_out: Map<String, Value> = (0..50).map(|index| (format!("/p{index}"), json!({ "head": {} }))).collect();
    let notices = started(&document(json!(left_out)), |_| {}).await.unwrap().notices;
    assert_eq!((notices.len(), &*notices[20]), (21, "API `api` leaves out 30 more operations"));
    let left_out: Map<String, Value> = (0..1_001).map(|index| (format!("/p{index}"), json!({ "head": {} }))).collect();
    let error = started(&document(json!(left_out)), |_| {}).await.err().unwrap();
    assert!(error.contains("has more than 1000 operations"), "{error}");
}

#[test]
fn text_is_shortened_to_one_line() {
    for (text, expected) in [
        ("", ""),
        ("  a \n b\t", "a b"),
        ("abcd  ", "abcd"),
        ("abcde", "abcd…"),
        ("abcd e", "abcd…"),
        ("abc de", "abc …"),
        ("\u{202e}a\u{1b}", "a"),
    ] {
        assert_eq!(summary(text, 4), expected, "{text:?}");
    }
    assert_eq!(summary(&format!("{}a", " ".repeat(32)), 4), "");
}

#[tokio::test]
async fn hostile_schemas_do_not_prevent_a_call() {
    let deep = (0..80).fold(json!({ "type": "string" }), |schema, _| json!({ "items": schema }));
    for schema in [
        json!({ "enum": (0..100_000).collect::<Vec<_>>() }),
        json!({ "required": vec!["x"; 200_000] }),
        json!({ "properties": (0..5_000).map(|index| (format!("p{index}"), json!({}))).collect::<Map<_, _>>() }),
        json!({ "$ref": "#/components/schemas/S" }),
        json!({ "anyOf": [{ "$ref": "#/components/schemas/S" }, { "$ref": "#/components/schemas/S" }] }),
        json!({ "description": " ".repeat(1 << 20), "default": "x".repeat(1 << 20) }),
        json!({ "$ref": "#" }),
        json!([]),
        deep,
    ] {
        let parameters = json!([{ "name": "a", "in": "query", "schema": { "$ref": "#/components/schemas/S" } }]);
        let mut document = document(json!({ "/x": { "get": { "parameters": parameters } } }));
        document["components"] = json!({ "schemas": { "S": schema } });
        let started = started(&document, |_| {}).await.unwrap();
        let input = &started.tools[0].input_schema;
        assert!(input["properties"]["a"].is_object() && json_len(&**input).unwrap() <= 64 << 10);
        let request = started.backend.operations["get_x"].request("http://x", r#"{"a": 1}"#).unwrap();
        assert_eq!(request.url.as_str(), "http://x/x?a=1");
    }
}

#[test]
fn secrets_include_decoded_basic_credentials() {
    // Two of the `Basic` values decode to `user:password with:spaces` and `user:short`. The third is not base64.
    for (value, expected) in [
        ("Bearer abcdefgh", &["abcdefgh"][..]),
        ("Bearer abcdefg", &[]),
        (
            "basic  dXNlcjpwYXNzd29yZCB3aXRoOnNwYWNlcw==",
            &["dXNlcjpwYXNzd29yZCB3aXRoOnNwYWNlcw==", "password with:spaces", "user:password with:spaces"],
        ),
        ("Basic dXNlcjpzaG9ydA", &["dXNlcjpzaG9ydA", "user:short"]),
        ("Basic not-base64", &["not-base64"]),
        ("Bearer dXNlcjpzaG9ydA==", &["dXNlcjpzaG9ydA=="]),
    ] {
        assert_eq!(secrets(value), expected, "{value}");
    }
}

#[test]
fn body_of_an_answer_becomes_json() {
    let kind = "application/json";
    for (kind, body, expected) in [
        (kind, &b"{\"b\": 1.50,\n\"a\": []}"[..], "{\"b\": 1.50,\n\"a\": []}"),
        (kind, b"", "null"),
        ("text/plain", b"a\"b", r#""a\"b""#),
        ("", b"[1]", r#""[1]""#),
    ] {
        assert_eq!(result(kind, body).unwrap(), expected);
    }
    let many = format!("[{}0]", "0,".repeat(300_000));
    for (kind, body, part) in [
        (kind, &b"{"[..], "answered with invalid JSON"),
        (kind, many.as_bytes(), "too many values"),
        ("image/png\u{1b}", b"\xff", "binary data of type `image/png\\u{1b}`"),
    ] {
        let reason = result(kind, body).unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn document_chooses_only_servers_of_its_own_origin() {
    let base = |document: DocumentSource, url: &str| {
        let text = json!({ "openapi": "3.1.0", "servers": [{ "url": url }] }).to_string();
        let config = OpenApiConfig { document, server: None, headers: BTreeMap::new() };
        config.base(&OpenApiDocument::parse(text.as_bytes()).unwrap()).map(|base| base.to_string())
    };
    let at = |url: &str| base(DocumentSource::Url("https://x.test/docs/api.json".to_owned()), url);
    for (server, expected) in [
        ("/v1", "https://x.test/v1"),
        ("v1", "https://x.test/docs/v1"),
        ("https://x.test:443/v2/", "https://x.test/v2/"),
    ] {
        assert_eq!(at(server).unwrap(), expected);
    }
    for server in ["http://x.test", "https://x.test:444", "https://evil.test", "//evil.test", "http://127.0.0.1"] {
        assert!(
            at(server).unwrap_err().contains("of another origin than its `openapi` URL; set its `server`"),
            "{server}"
        );
    }
    let file = |url: &str| base(DocumentSource::File("api.json".into()), url);
    assert_eq!(file("http://127.0.0.1:1/v1").unwrap(), "http://127.0.0.1:1/v1");
    for server in ["/v1", "ftp://x.test", "http://u:p@x.test", "http://x.test/?a"] {
        assert!(file(server).unwrap_err().contains("`servers`"), "{server}");
    }
}
