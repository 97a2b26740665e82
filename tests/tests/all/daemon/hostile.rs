//! A hostile client receives errors, uses bounded memory, and does not disturb other clients.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use glovebox_tests::process::{anonymous_bytes, child_task, in_child, run_child};
use serde_json::json;

use super::support::{Answer, LINES, TestDaemon, http, request, until};

#[test]
fn resources_of_hostile_clients_are_bounded() {
    if !in_child("daemon::hostile::resources_of_hostile_clients_are_bounded", Duration::from_secs(200)) {
        return;
    }
    const ROOM: usize = 32 << 20;
    let mut setup = http(|http| {
        (http.body_bytes, http.bodies_bytes, http.connections) = (8 << 20, ROOM, 32);
        (http.header_time, http.body_time) = (Duration::from_secs(1), Duration::from_secs(1));
    });
    setup.tenant = Some(Box::new(|tenant| tenant.sessions = 16));
    // Scripts run in this process. The number of interpreters must not depend on the number of processors.
    (setup.service.admission.running, setup.service.admission.wait_ms) = (2, 60_000);
    let daemon = TestDaemon::with(setup);
    daemon.open("honest");
    daemon.prints("honest", "print('x' * 1_000_000)");
    let before = anonymous_bytes();
    let clients: Vec<_> = (0..24)
        .map(|number| {
            let socket = daemon.socket.clone();
            std::thread::spawn(move || {
                for round in 0..3 {
                    let Ok(mut stream) = UnixStream::connect(&socket) else { continue };
                    let _ = stream.set_write_timeout(Some(Duration::from_secs(3)));
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
                    match number % 8 {
                        2 => drop(send_costly(number / 8 + round, stream)),
                        _ => hostile(number, &mut stream),
                    }
                }
            })
        })
        .collect();
    let mut highest = 0_u64;
    while clients.iter().any(|client| !client.is_finished()) {
        highest = highest.max(anonymous_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    let grown = highest.saturating_sub(before);
    // The budget, and the memory of running scripts and 16 sessions.
    assert!(grown < ROOM as u64 + (64 << 20), "{} MiB", grown >> 20);
    assert_eq!(daemon.prints("honest", "print(2)"), "2\n");
    for case in 0..COSTLY {
        let (_, status) = costly(case);
        until("the server has memory and time for a costly request", || {
            send_costly(case, daemon.connect()) == Some(status)
        });
    }
}

/// The number of kinds of costly requests.
const COSTLY: usize = 4;

/// Returns the body of a request whose values need many times the memory of their text, and the status of the answer.
fn costly(case: usize) -> (String, u16) {
    let list = |value: &str, count: usize| vec![value; count].join(",");
    match case % COSTLY {
        // 237 kB of text and 12.6 MB of values, less than the limits of 256 KiB and 14 MiB.
        0 => (format!(r#"{{"source": "1", "policy": {{"args": [{}]}}}}"#, list("\"\"", 79_000)), 200),
        // 300 kB of text.
        1 => (format!(r#"{{"source": "1", "policy": {{"args": [{}]}}}}"#, list("\"\"", 100_000)), 400),
        // 90 kB of text and 43 MB of values, more than the limit of 40 MiB.
        2 => (format!(r#"{{"source": "1", "tools": [{}]}}"#, list("{}", 30_000)), 400),
        // 10,001 files; the limit is 10,000.
        _ => {
            let files: Vec<String> = (0..=10_000).map(|number| format!("\"{number}\":\"\"")).collect();
            (format!(r#"{{"source": "1", "files": {{{}}}}}"#, files.join(",")), 400)
        }
    }
}

/// Sends a costly request and returns the status of the answer. While other clients use the server, it may be out of
/// memory or too slow to receive the request. Returns `None` if it closes the connection without an answer.
fn send_costly(case: usize, mut stream: UnixStream) -> Option<u16> {
    let (body, status) = costly(case);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = stream.write_all(&request("POST", "/v1/execute", &[], body.as_bytes()));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = (!answer.is_empty()).then(|| Answer::read(&*answer))?;
    assert!([status, 408, 503].contains(&answer.status), "case {case}: {answer:?}");
    if answer.status == 400 {
        assert_eq!(answer.problem().1, "invalid-argument", "case {case}");
    }
    Some(answer.status)
}

/// Acts as a hostile client of the given kind. Allocates little memory itself, because the measurement includes this
/// process.
fn hostile(kind: usize, stream: &mut UnixStream) {
    let mut send = |before: &str, piece: &[u8], bytes: usize, after: &str| {
        let many = piece.repeat((1 << 16) / piece.len());
        stream.write_all(before.as_bytes()).is_ok()
            && (0..bytes.div_ceil(many.len())).all(|_| stream.write_all(&many).is_ok())
            && stream.write_all(after.as_bytes()).is_ok()
    };
    let head = |path: &str, bytes: usize| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n")
    };
    match kind % 8 {
        // A header without an end.
        0 => drop(send("GET /v1/info HTTP/1.1\r\nx: ", b"x", 1 << 30, "")),
        // Half a body, then silence.
        1 => {
            send(&head("/v1/execute", 8 << 20), b" ", 7 << 20, "");
            std::thread::sleep(Duration::from_secs(2));
        }
        // Deep nesting.
        3 => {
            send(&(head("/v1/sessions", 7 << 20) + "{\"context\":"), b"[", 7 << 20, "");
        }
        // A flood of requests whose answers the client never reads.
        4 => drop(send("", b"GET /v1/info HTTP/1.1\r\nhost: a\r\n\r\n", 4 << 20, "")),
        // Large answers that the client never reads.
        5 => {
            let body = json!({"source": "print('x' * 2_000_000)"}).to_string();
            for headers in [&[][..], &[LINES][..]] {
                let text = String::from_utf8(request("POST", "/v1/execute", headers, body.as_bytes())).unwrap();
                send(&text.replace("connection: close\r\n", ""), b"x", 0, "");
            }
            std::thread::sleep(Duration::from_secs(2));
        }
        // More sessions than the limit.
        6 => {
            for _ in 0..200 {
                send(&(head("/v1/sessions", 2) + "{}"), b"x", 0, "");
            }
        }
        // Random bytes.
        _ => {
            let mut state = 88_172_645_463_325_252_u64 + kind as u64;
            let noise: Vec<u8> = (0..1 << 16)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) as u8
                })
                .collect();
            send("", &noise, 1 << 20, "\n");
        }
    }
    let mut some = [0; 1 << 12];
    let _ = stream.read(&mut some);
}

#[test]
fn process_that_reads_nothing_leaves_memory_for_others() {
    const FILE: &str = "/v1/sessions/s/files/large";
    if let Some(socket) = child_task() {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(&request("GET", FILE, &[], b"")).unwrap();
        let answer = Answer::read(stream);
        assert_eq!((answer.status, answer.body.len()), (200, 1 << 20), "{}", answer.text());
        return;
    }
    let daemon = TestDaemon::with(http(|http| {
        (http.bodies_bytes, http.body_time, http.connections) = (16 << 20, Duration::from_secs(1), 64);
    }));
    daemon.open("s");
    daemon.prints("s", "print(open('large', 'w').write('x' * (1 << 20)))");
    // Requests and responses can use 14 MiB, and those of one client process 7 MiB.
    let stuck: Vec<_> = (0..20).map(|_| daemon.begin("GET", FILE, &[], b"")).collect();
    until("this process has used its half", || daemon.get(FILE).status == 503);
    let test = "daemon::hostile::process_that_reads_nothing_leaves_memory_for_others";
    let other = run_child(test, daemon.socket.to_str().unwrap(), Duration::from_secs(120));
    let printed = String::from_utf8_lossy(&other.stdout);
    assert!(printed.contains("test result: ok. 1 passed;"), "{printed}{}", String::from_utf8_lossy(&other.stderr));
    drop(stuck);
    until("the memory is free", || daemon.get(FILE).status == 200);
}

#[test]
fn unread_answers_do_not_block_the_next_request() {
    let daemon = TestDaemon::with(http(|http| (http.bodies_bytes, http.connections) = (64 << 20, 64)));
    daemon.open("s");
    daemon.prints("s", "print(open('large', 'w').write('x' * (1 << 20)))");
    // The answers total 16 MiB. A client can hold more than that.
    let stuck: Vec<_> = (0..16).map(|_| daemon.begin("GET", "/v1/sessions/s/files/large", &[], b"")).collect();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(daemon.prints("s", "print(1)"), "1\n");
    assert_eq!(daemon.get("/v1/sessions/s/files/large").body.len(), 1 << 20);
    for stream in stuck {
        let answer = Answer::read(stream);
        assert_eq!((answer.status, answer.body.len()), (200, 1 << 20), "each request has its answer");
    }
}
