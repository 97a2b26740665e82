//! Tests that any malformed request receives a typed answer, and that the server survives.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use glovebox_server::http::HttpConfig;
use serde_json::json;

use super::support::{Server, Setup};

#[test]
fn expanding_json_is_not_parsed_into_values() {
    let server = Server::start(Setup::default());
    // A million nulls, and objects nested to a depth of a hundred thousand. Parsing them into values would use
    // gigabytes or overflow the stack.
    let nulls = format!("[{}null]", "null,".repeat(1_000_000));
    let request = format!(r#"{{"language": "python", "source": "print(len(context))", "context": {nulls}}}"#);
    assert_eq!(server.ask("POST", "/v1/execute", &[], request.as_bytes()).ok()["stdout"], "1000001\n");
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    for name in ["context", "policy", "files", "stdin", "source", "nothing"] {
        let request = format!(r#"{{"language": "python", "source": "1", "{name}": {deep}}}"#);
        assert_eq!(server.ask("POST", "/v1/execute", &[], request.as_bytes()).problem().0, 400, "{name}");
    }
    assert_eq!(server.ask("PUT", "/v1/sessions/s/variables/x", &[], deep.as_bytes()).problem().0, 400);
}

#[test]
fn invalid_session_bytes_are_rejected() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let state = server.get("/v1/sessions/s/state").body;
    let mut damaged = state.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for (what, bytes) in
        [("nothing", &[][..]), ("noise", &[7; 5_000]), ("half", &state[..middle]), ("damaged", &damaged)]
    {
        assert_eq!(server.ask("PUT", "/v1/sessions/t", &[], bytes).problem(), (409, "not-resumable".into()), "{what}");
    }
    assert_eq!(server.get("/v1/sessions/t").status, 404);
    assert_eq!(server.ask("PUT", "/v1/sessions/t", &[], &state).status, 201);
}

#[test]
fn request_with_two_host_names_is_rejected() {
    let server = Server::start(Setup::default());
    let ask = |hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
        let head = format!("GET /v1/openapi.json HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        super::support::Answer::read(server.send(head.as_bytes()))
    };
    let own = server.address.to_string();
    assert_eq!(ask(&[&own]).status, 200);
    for hosts in [vec![&*own, "evil.example"], vec!["evil.example", &*own], vec![&*own, &*own], vec![]] {
        let answer = ask(&hosts);
        assert!(matches!(answer.status, 400 | 421), "{hosts:?}: {answer:?}");
    }
}

#[test]
fn response_arrives_although_the_handler_reads_no_body() {
    let server = Server::start(Setup::default());
    let own = server.address;
    for length in [2, 64 << 10] {
        let head = format!(
            "POST /v1/executions/none/suspend HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut stream = server.send(head.as_bytes());
        // Without a reader for the body, the server closes the connection before the body arrives.
        std::thread::sleep(Duration::from_millis(200));
        stream.write_all(&vec![b' '; length]).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 401 "), "{length}: {response}");
    }
}

#[test]
fn body_that_never_arrives_does_not_hold_the_connection() {
    let http = HttpConfig { body_time: Duration::from_millis(100), ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..Setup::default() });
    let own = server.address;
    for framing in ["content-length: 9", "transfer-encoding: chunked"] {
        let head = format!(
            "POST /v1/executions/none/suspend HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\n{framing}\r\n\r\n"
        );
        assert_eq!(super::support::Answer::read(server.send(head.as_bytes())).status, 401, "{framing}");
    }
}
