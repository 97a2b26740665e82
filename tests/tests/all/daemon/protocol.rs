//! Tests conformance to the JSON-RPC 2.0 specification.

use std::{io::Write, net::Shutdown};

use serde_json::{Value, json};

use super::support::{Running, refusal};

#[test]
fn invalid_requests_get_the_specified_error_code() {
    let daemon = Running::new();
    let mut client = daemon.client();
    for (line, code, id) in [
        ("{\"jsonrpc\": \"2.0\", \"method\": \"ping\", \"params\": \"bar\", \"baz]", -32_700, Value::Null),
        ("[1,", -32_700, Value::Null),
        ("[]", -32_600, Value::Null),
        ("1", -32_600, Value::Null),
        ("{\"jsonrpc\": \"2.0\", \"method\": 1, \"params\": \"bar\"}", -32_600, Value::Null),
        ("{\"jsonrpc\": \"1.0\", \"method\": \"ping\", \"id\": 7}", -32_600, json!(7)),
        ("{\"jsonrpc\": \"2.0\", \"method\": \"foobar\", \"id\": \"1\"}", -32_601, json!("1")),
        ("{\"jsonrpc\": \"2.0\", \"method\": \"ping\", \"id\": [1]}", -32_600, Value::Null),
        ("{\"jsonrpc\": \"2.0\", \"method\": \"cancel\", \"id\": 1, \"params\": [1]}", -32_602, json!(1)),
        ("{\"jsonrpc\": \"2.0\", \"method\": \"cancel\", \"id\": 1, \"params\": {\"nothing\": 1}}", -32_602, json!(1)),
        (
            "{\"jsonrpc\": \"2.0\", \"method\": \"initialize\", \"id\": 1, \"params\": {\"language\": \"cobol\"}}",
            -32_602,
            json!(1),
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"method\": \"execute\", \"id\": 1, \"params\": {\"code\": \"1\"}}",
            -32_002,
            json!(1),
        ),
    ] {
        let answer = client.answer(line);
        assert_eq!((answer["error"]["code"].as_i64(), &answer["id"]), (Some(code), &id), "{line}: {answer}");
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(answer.get("result").is_none() && answer["error"]["message"].is_string(), "{answer}");
    }
    client.stream.write_all(b"\"\xff\xfe\"\n").unwrap();
    assert_eq!(client.receive().unwrap()["error"]["code"], -32_700);
    assert_eq!(client.ok("ping", json!({}))["pong"], true, "the connection stays usable");
}

#[test]
fn response_ids_match_request_ids() {
    let daemon = Running::new();
    let mut client = daemon.client();
    for id in ["1", "-3", "0.5", "18446744073709551616", "\"a\\u0062\"", "\"\"", "null"] {
        client.send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}"));
        let answer = client.receive().unwrap();
        assert_eq!(answer["id"], serde_json::from_str::<Value>(id).unwrap(), "{id}");
        assert_eq!(answer["result"]["pong"], true);
    }
}

#[test]
fn notifications_get_no_response() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    for line in [
        json!({ "jsonrpc": "2.0", "method": "ping" }),
        json!({ "jsonrpc": "2.0", "method": "nothing" }),
        json!({ "jsonrpc": "2.0", "method": "getVariable", "params": { "wrong": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "execute", "params": { "code": "x = 5" } }),
        json!([{ "jsonrpc": "2.0", "method": "ping" }, { "jsonrpc": "2.0", "method": "ping" }]),
        json!({ "jsonrpc": "2.0", "id": 99, "result": "to nobody" }),
    ] {
        client.send(&line.to_string());
    }
    let x = client.ok("getVariable", json!({ "name": "x" }));
    assert_eq!((&x["found"], &x["value"]), (&json!(true), &json!(5)), "requests must run in order");
    assert!(client.others.is_empty(), "{:?}", client.others);
}

#[test]
fn batch_gets_one_response() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    let answer = client.answer(
        &json!([
            { "jsonrpc": "2.0", "id": 1, "method": "execute", "params": { "code": "print(1)" } },
            { "jsonrpc": "2.0", "method": "execute", "params": { "code": "y = 2" } },
            { "jsonrpc": "2.0", "id": "two", "method": "getVariable", "params": { "name": "y" } },
            { "jsonrpc": "2.0", "id": 3, "method": "nothing" },
            { "foo": "boo" },
            4,
        ])
        .to_string(),
    );
    let by = |id: &Value| {
        let mut all = answer.as_array().unwrap().iter().filter(|one| one["id"] == *id);
        (all.next().cloned().unwrap_or_default(), all.count())
    };
    assert_eq!(by(&json!(1)).0["result"]["stdout"], "1\n");
    assert_eq!(by(&json!("two")).0["result"]["value"], 2);
    assert_eq!(by(&json!(3)).0["error"]["code"], -32_601);
    assert_eq!((by(&Value::Null).0["error"]["code"].as_i64(), by(&Value::Null).1), (Some(-32_600), 1));
    assert_eq!(answer.as_array().unwrap().len(), 5);
}

#[test]
fn an_id_that_is_in_use_is_refused() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    let request = |code: &str| {
        json!({ "jsonrpc": "2.0", "id": "x", "method": "execute", "params": { "code": code } }).to_string()
    };
    client.send(&request("import time; time.sleep(5)"));
    assert_eq!(refusal(&client.answer(&request("1"))).0, -32_600);
    assert!(client.receive().unwrap()["result"].is_object());
    assert_eq!(client.answer(&request("print(1)"))["result"]["stdout"], "1\n", "a finished request frees its place");
}

#[test]
fn half_closed_client_still_gets_responses() {
    let daemon = Running::new();
    let mut client = daemon.client();
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" }).to_string());
    let code =
        "import time\ntime.sleep(0.3)\nprint('late')\ntry:\n  llm_query('who')\nexcept Exception as e:\n  print(e)";
    // The last line is a request even without a trailing newline.
    let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "execute", "params": { "code": code } }).to_string();
    client.stream.write_all(request.as_bytes()).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.end(2)["result"]["stdout"], "late\nthe client has disconnected\n");
    assert!(client.receive().is_none(), "the connection closes after the answer");
}
