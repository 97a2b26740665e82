//! Each limit below, at and above its value; the next request still works.

use super::*;
use crate::network::message::{
    MAX_REQUEST_HEADER_BYTES, MAX_REQUEST_HEADERS, MAX_RESPONSE_HEADER_BYTES, MAX_RESPONSE_HEADERS,
};

#[test]
fn a_requests_body_has_a_maximum() {
    let server = Server::with_body("");
    let mut policy = policy(&[&server]);
    policy.request_bytes = 10;
    let client = client(&policy);
    for (length, fits) in [(9, true), (10, true), (11, false), (1, true)] {
        let asked = json!({ "url": server.url("/"), "method": "POST", "text": "x".repeat(length) });
        let answer = ask(&client, &asked);
        assert_eq!(answer.is_ok(), fits, "{length}: {answer:?}");
        assert!(fits || answer.unwrap_err().contains("`network.request_bytes` is 10"));
    }
    assert_eq!(server.heard().len(), 3);
}

#[test]
fn a_responses_body_has_a_maximum_however_it_is_sent() {
    for (length, fits) in [(9, true), (10, true), (11, false)] {
        let body = "x".repeat(length);
        let chunked: String = body.chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
        for server in [
            Server::with_body(&body),
            Server::saying(format!("HTTP/1.1 200 OK\r\n\r\n{body}")),
            Server::saying(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}0\r\n\r\n")),
        ] {
            let mut policy = policy(&[&server]);
            policy.response_bytes = 10;
            let answer = get(&client(&policy), &server.url("/"));
            assert_eq!(answer.is_ok(), fits, "{length}: {answer:?}");
            assert!(fits || answer.unwrap_err().contains("more than 10 bytes (`network.response_bytes`)"));
        }
    }
}

/// The body decompresses to a thousand times its size.
#[test]
fn what_is_compressed_counts_as_what_it_becomes() {
    let mut whole = zeros_compressed(64 << 20);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", whole.len());
    assert!(whole.len() < 1 << 20);
    let server = Server::saying([head.into_bytes(), std::mem::take(&mut whole)].concat());
    let client = client(&policy(&[&server]));
    let call = call();
    let answer = message::fetch(&client, &call, &json!({ "url": server.url("/") }).to_string());
    assert!(answer.unwrap_err().message.contains("more than 4194304 bytes"));
    assert_eq!(call.account.held_bytes(), 0, "and nothing of it is held");

    let small = zeros_compressed(100);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", small.len());
    let server = Server::saying([head.into_bytes(), small].concat());
    let client = super::client(&policy(&[&server]));
    assert_eq!(get(&client, &server.url("/")).unwrap()["bytes"], 100);
}

/// Zeros, which deflate compresses best.
fn zeros_compressed(length: usize) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 16];
    let mut left = length;
    while left > 0 {
        let part = left.min(zeros.len());
        encoder.write_all(&zeros[..part]).unwrap();
        left -= part;
    }
    encoder.finish().unwrap()
}

#[test]
fn what_the_host_holds_of_a_body_is_under_the_memory_limit() {
    let server = Server::with_body("x".repeat(30_000));
    let client = client(&policy(&[&server]));
    let asked = json!({ "url": server.url("/") }).to_string();
    for (room, fits) in [(89_999, false), (90_000, true), (90_001, true)] {
        let call = call();
        call.account.set_room(room);
        let answer = message::fetch(&client, &call, &asked);
        assert_eq!(answer.is_ok(), fits, "{room}");
        assert!(fits || answer.unwrap_err().message.contains("`limits.memory_bytes`"));
    }
}

#[test]
fn headers_have_a_maximum_both_ways() {
    let server = Server::with_body("");
    let client = client(&policy(&[&server]));
    let with = |headers: Vec<(String, String)>| ask(&client, &json!({ "url": server.url("/"), "headers": headers }));
    for (count, fits) in
        [(MAX_REQUEST_HEADERS - 1, true), (MAX_REQUEST_HEADERS, true), (MAX_REQUEST_HEADERS + 1, false)]
    {
        let headers = (0..count).map(|number| (format!("x-{number}"), "a".to_owned())).collect();
        assert_eq!(with(headers).is_ok(), fits, "{count}");
    }
    for (bytes, fits) in [(MAX_REQUEST_HEADER_BYTES, true), (MAX_REQUEST_HEADER_BYTES + 1, false)] {
        assert_eq!(with(vec![("a".into(), "b".repeat(bytes - 1))]).is_ok(), fits, "{bytes}");
    }
    // `content-length` and its value.
    const OWN_BYTES: usize = 15;
    let answering = |headers: String| {
        let server = Server::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{headers}\r\n"));
        get(&super::client(&policy(&[&server])), &server.url("/"))
    };
    for (count, fits) in [(MAX_RESPONSE_HEADERS - 1, true), (MAX_RESPONSE_HEADERS, false), (5_000, false)] {
        let answer = answering((0..count).map(|number| format!("x-{number}: a\r\n")).collect());
        assert_eq!(answer.is_ok(), fits, "{count}: {answer:?}");
    }
    let most = MAX_RESPONSE_HEADER_BYTES - OWN_BYTES;
    for (bytes, fits) in [(most, true), (most + 1, false), (10 << 20, false)] {
        let answer = answering(format!("a: {}\r\n", "b".repeat(bytes - 1)));
        assert_eq!(answer.is_ok(), fits, "{bytes}");
    }
}

#[test]
fn a_request_has_a_time_for_all_of_it() {
    let slow = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        // Send single bytes slowly, so that no single read takes long.
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let silent = Server::new(|_, _| thread::sleep(Duration::from_secs(5)));
    for (server, asked_ms, policy_ms) in [(&slow, None, 300), (&silent, None, 300), (&slow, Some(200), 5_000)] {
        let mut policy = policy(&[server]);
        policy.timeout_ms = policy_ms;
        let begun = Instant::now();
        let answer = ask(&client(&policy), &json!({ "url": server.url("/"), "timeout_ms": asked_ms }));
        assert!(answer.unwrap_err().starts_with("timeout: there was no whole response within"), "{asked_ms:?}");
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(190) && took < Duration::from_secs(4), "{took:?}");
    }
}

#[test]
fn the_time_of_the_call_holds_as_well_and_cancelling_ends_a_wait() {
    let silent = Server::new(|_, _| thread::sleep(Duration::from_secs(5)));
    let client = client(&policy(&[&silent]));
    let asked = json!({ "url": silent.url("/") }).to_string();
    let begun = Instant::now();
    let call = ToolCall { deadline: begun + Duration::from_millis(300), ..call() };
    assert!(message::fetch(&client, &call, &asked).is_err());
    assert!(begun.elapsed() < Duration::from_secs(3));

    let call = super::call();
    let cancel = call.cancel.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    let begun = Instant::now();
    assert!(message::fetch(&client, &call, &asked).unwrap_err().message.contains("was cancelled"));
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(message::fetch(&client, &call, &asked).is_err(), "a call that was cancelled before does nothing");
}

#[test]
fn methods_are_those_of_the_policy() {
    let server = Server::with_body("");
    let mut policy = policy(&[&server]);
    policy.methods = vec!["GET".into()];
    let client = client(&policy);
    for (method, fits) in
        [("GET", true), ("get", true), ("POST", false), ("CONNECT", false), ("TRACE", false), ("G\r\nET", false)]
    {
        let answer = ask(&client, &json!({ "url": server.url("/"), "method": method }));
        assert_eq!(answer.is_ok(), fits, "{method}: {answer:?}");
    }
}
