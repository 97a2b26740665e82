//! Traces: their contents, and a collector that is down.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    server::{Answer, Server},
    support,
};

/// Starts a collector that accepts everything.
fn collector() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let take = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).unwrap() > 2 {
                let line = head.lines().last().unwrap().to_ascii_lowercase();
                if let Some(bytes) = line.strip_prefix("content-length: ") {
                    length = bytes.parse().unwrap();
                }
            }
            assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            take.lock().unwrap().extend(body);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, taken)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_request_its_wait_its_execution_and_the_store_are_spans_without_secrets() {
    for workers in ["0", "1"] {
        let (address, taken) = collector();
        let mut server = Server::start(&["--otlp", &format!("http://{address}"), "--workers", workers]);
        let parent = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
        let source = json!({ "language": "python", "source": "print('a secret source')" }).to_string();
        assert_eq!(Answer::read(server.begin("POST", "/v1/execute", &parent, &source)).status, 200);
        server.post("/v1/sessions", &json!({ "id": "a-secret-session", "language": "python" })).ok();
        let executed = server
            .post("/v1/sessions/a-secret-session/execute", &json!({ "source": "raise ValueError('a secret error')" }));
        assert_eq!(executed.status, 200);
        support::interrupt(&server.child);
        assert_eq!(support::wait(&mut server.child), 0);
        let taken = taken.lock().unwrap().clone();
        // IDs of the client's trace and span.
        for id in [
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes().as_slice(),
            &0xb7ad_6b71_6920_3331_u64.to_be_bytes(),
        ] {
            assert!(has(&taken, id), "workers: {workers}");
        }
        let spans = ["POST /v1/execute", "POST /v1/sessions/{id}/execute", "queue", "execution", "completed", "raised"];
        for name in spans.into_iter().chain((workers == "0").then_some("store")) {
            assert!(has(&taken, name.as_bytes()), "no `{name}`, workers: {workers}");
        }
        for secret in ["a secret source", "a-secret-session", "a secret error", "a token of the tests"] {
            assert!(!has(&taken, secret.as_bytes()), "`{secret}`, workers: {workers}");
        }
    }
}

#[test]
fn a_collector_that_is_down_or_never_answers_holds_nobody_up() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let down = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for address in [silent.local_addr().unwrap(), down] {
        let mut server = Server::start(&["--otlp", &format!("http://{address}")]);
        for _ in 0..100 {
            let answer = server.post("/v1/execute", &json!({ "language": "python", "source": "print(1)" }));
            assert_eq!(answer.ok()["stdout"], "1\n");
        }
        let begun = Instant::now();
        support::interrupt(&server.child);
        assert_eq!(support::wait(&mut server.child), 0);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
