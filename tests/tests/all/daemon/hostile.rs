//! A hostile client receives typed errors, uses bounded memory, and does not disturb other clients.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use glovebox_tests::process::{anonymous_bytes, in_child};
use serde_json::json;

use super::support::{Running, config};

#[test]
fn resources_of_hostile_clients_are_bounded() {
    if !in_child("daemon::hostile::resources_of_hostile_clients_are_bounded", Duration::from_secs(200)) {
        return;
    }
    const ROOM: usize = 16 << 20;
    let daemon = Running::with(config(|config| {
        (config.message_bytes, config.messages_bytes) = (8 << 20, ROOM);
        (config.message_time, config.write_time) = (Duration::from_secs(1), Duration::from_secs(1));
        (config.connections, config.connection_sessions) = (32, 8);
    }));
    let mut honest = daemon.opened();
    honest.prints("print('x' * 1_000_000)");
    let before = anonymous_bytes();
    let clients: Vec<_> = (0..24)
        .map(|number| {
            let socket = daemon.socket.clone();
            std::thread::spawn(move || {
                for _ in 0..3 {
                    let Ok(mut stream) = UnixStream::connect(&socket) else { continue };
                    let _ = stream.set_write_timeout(Some(Duration::from_secs(3)));
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
                    hostile(number, &mut stream);
                }
            })
        })
        .collect();
    let mut most = 0_u64;
    while clients.iter().any(|client| !client.is_finished()) {
        most = most.max(anonymous_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    let grown = most.saturating_sub(before);
    // Twice the budgets of both directions, because a message is also parsed into values. The remaining 128 MiB are for
    // running scripts, sessions and allocator overhead.
    assert!(grown < 4 * ROOM as u64 + (128 << 20), "{} MiB", grown >> 20);
    assert_eq!(honest.prints("print(2)"), "2\n");
    assert_eq!(daemon.opened().prints("print(3)"), "3\n");
}

/// Acts as a hostile client of the given kind. It allocates little memory itself, because the measurement includes this
/// process.
fn hostile(kind: usize, stream: &mut UnixStream) {
    let mut send = |before: &str, piece: &[u8], bytes: usize, after: &str| {
        let many = piece.repeat((1 << 16) / piece.len());
        stream.write_all(before.as_bytes()).is_ok()
            && (0..bytes.div_ceil(many.len())).all(|_| stream.write_all(&many).is_ok())
            && stream.write_all(after.as_bytes()).is_ok()
    };
    match kind % 8 {
        // A line without an end.
        0 => drop(send("", b"x", 1 << 30, "")),
        // Half a line, then silence.
        1 => {
            send("", b" ", 7 << 20, "");
            std::thread::sleep(Duration::from_secs(2));
        }
        // Values that need many times the memory of their text.
        2 => {
            let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":";
            send(&format!("{request}{{\"policy\":["), b"0,", 6 << 20, "0]}}\n");
            send(&format!("{request}{{\"tools\":["), b"0,", 6 << 20, "0]}}\n");
            send(&format!("{request}{{\"context\":["), b"[],", 6 << 20, "0]}}\n");
            send("[", b"0,", 6 << 20, "0]\n");
        }
        // Deep nesting.
        3 => {
            send("", b"[", 7 << 20, "\n");
            send("{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":", b"{\"a\":", 6 << 20, "\n");
        }
        // A flood of requests whose answers the client never reads.
        4 => drop(send("", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", 4 << 20, "")),
        // Large answers that the client never reads.
        5 => {
            send("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}\n", b"x", 0, "");
            for id in 1..40 {
                let code = "{\"code\":\"print('x' * 2_000_000)\"}";
                send(
                    &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"execute\",\"params\":{code}}}\n"),
                    b"x",
                    0,
                    "",
                );
            }
            std::thread::sleep(Duration::from_secs(2));
        }
        // More sessions than the limit.
        6 => {
            for id in 0..200 {
                send(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"initialize\"}}\n"), b"x", 0, "");
            }
        }
        // Random bytes.
        _ => {
            let mut state = 88_172_645_463_325_252_u64 + kind as u64;
            let noise: Vec<u8> = (0..1 << 20)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) as u8
                })
                .collect();
            send("", &noise[..1 << 16], 1 << 20, "\n");
        }
    }
    let mut some = [0; 1 << 12];
    let _ = stream.read(&mut some);
}

#[test]
fn session_answers_arbitrary_requests() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!({ "base64": "?" }),
        json!([[1], {}]),
    ];
    let names = [
        "session",
        "code",
        "name",
        "value",
        "path",
        "contents",
        "pattern",
        "checkpoint",
        "context",
        "stdin",
        "kind",
        "timeout_ms",
        "policy",
        "tools",
        "files",
        "id",
    ];
    let methods = [
        "initialize",
        "execute",
        "validate",
        "cancel",
        "getVariable",
        "setVariable",
        "listFiles",
        "readFile",
        "writeFile",
        "deleteFile",
        "checkpoint",
        "checkpoints",
        "undo",
        "hibernate",
        "info",
        "fork",
        "ping",
    ];
    let mut state = 7_usize;
    let mut below = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..600 {
        let mut params = serde_json::Map::new();
        for _ in 0..below(4) {
            params.insert(names[below(names.len())].to_owned(), values[below(values.len())].clone());
        }
        let method = methods[below(methods.len())];
        let answer = client.call(method, params.clone().into());
        let code = answer["error"]["code"].as_i64();
        assert!(
            answer.get("result").is_some() || code.is_some_and(|code| (-32_800..=-32_000).contains(&code)),
            "{method} {params:?}: {answer}"
        );
        assert_ne!(code, Some(-32_603), "{method} {params:?}: {answer}");
        if answer["error"]["data"]["code"] == "quota-exceeded" {
            client.ok("destroy", json!({}));
        }
    }
    client.ok("initialize", json!({ "context": 1 }));
    assert_eq!(client.prints("print(context)"), "1\n");
}

#[test]
fn unread_answers_do_not_block_other_clients() {
    let daemon = Running::with(config(|config| (config.messages_bytes, config.connections) = (32 << 20, 4)));
    let mut honest = daemon.opened();
    // The file is larger than a connection's share of the answer budget.
    honest.prints("print(open('large', 'w').write('x' * (4 << 20)))");
    let mut stuck = daemon.opened();
    stuck.ok("writeFile", json!({ "path": "large", "contents": "x".repeat(1 << 20) }));
    // The answers total 160 MiB.
    const ANSWERS: usize = 120;
    for _ in 0..ANSWERS {
        stuck.begin("readFile", json!({ "path": "large" }));
    }
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    assert_eq!(honest.prints("print(1)"), "1\n");
    assert_eq!(honest.ok("readFile", json!({ "path": "large" }))["size_bytes"], 4 << 20);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // When the client reads again, each of its requests has an answer or an error.
    let refused = (0..ANSWERS).filter(|_| stuck.receive().expect("an answer").get("error").is_some()).count();
    assert!((1..ANSWERS).contains(&refused), "{refused}");
    assert_eq!(stuck.prints("print(2)"), "2\n");
}
