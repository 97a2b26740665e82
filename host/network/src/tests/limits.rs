//! Tests each limit below, at and above its value, and checks that the next request still works.

use glovebox::is_public_address;

use super::*;
use crate::message::{MAX_REQUEST_HEADER_BYTES, MAX_REQUEST_HEADERS, MAX_RESPONSE_HEADER_BYTES, MAX_RESPONSE_HEADERS};

#[test]
fn request_body_size_is_limited() {
    let server = Server::with_body("");
    let mut policy = policy(&[&server]);
    policy.request_bytes = 10;
    let client = client(&policy);
    for (length, fits) in [(9, true), (10, true), (11, false), (1, true)] {
        let request = json!({ "url": server.url("/"), "method": "POST", "text": "x".repeat(length) });
        let answer = ask(&client, &request);
        assert_eq!(answer.is_ok(), fits, "{length}: {answer:?}");
        assert!(fits || answer.unwrap_err().contains("`network.request_bytes` is 10;"));
    }
    assert_eq!(server.heard().len(), 3);
}

#[test]
fn response_body_size_is_limited_in_every_framing() {
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
            assert!(fits || answer.unwrap_err().contains("exceeds 10 bytes (`network.response_bytes`)"));
        }
    }
}

/// The body is about a thousand times larger after decompression.
#[test]
fn compressed_body_counts_its_decompressed_size() {
    let mut whole = zeros_compressed(64 << 20);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", whole.len());
    assert!(whole.len() < 1 << 20);
    let server = Server::saying([head.into_bytes(), std::mem::take(&mut whole)].concat());
    let client = client(&policy(&[&server]));
    let account = account(1 << 30);
    let answer = message::fetch(&client, &call_within(&account), &json!({ "url": server.url("/") }).to_string());
    assert!(answer.unwrap_err().message.contains("exceeds 4194304 bytes"));
    assert_eq!(account.held_bytes(), 0, "the memory is released");

    let small = zeros_compressed(100);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", small.len());
    let server = Server::saying([head.into_bytes(), small].concat());
    let client = super::client(&policy(&[&server]));
    assert_eq!(get(&client, &server.url("/")).unwrap()["bytes"], 100);
}

/// Returns gzipped zeros, which have the best compression ratio.
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
fn body_counts_against_the_memory_limit() {
    let server = Server::with_body("x".repeat(30_000));
    let client = client(&policy(&[&server]));
    let request = json!({ "url": server.url("/") }).to_string();
    for (room, fits) in [(89_999, false), (90_000, true), (90_001, true)] {
        let answer = message::fetch(&client, &call_within(&account(room)), &request);
        assert_eq!(answer.is_ok(), fits, "{room}");
        assert!(fits || answer.unwrap_err().message.contains("`limits.memory_bytes`"));
    }
}

#[test]
fn request_and_response_headers_are_limited() {
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
    // The size of the header `content-length` and its value, `0`.
    const OWN_BYTES: usize = 15;
    let answering = |headers: String| {
        let server = Server::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{headers}\r\n"));
        get(&super::client(&policy(&[&server])), &server.url("/"))
    };
    for (count, fits) in [(MAX_RESPONSE_HEADERS - 1, true), (MAX_RESPONSE_HEADERS, false), (5_000, false)] {
        let answer = answering((0..count).map(|number| format!("x-{number}: a\r\n")).collect());
        assert_eq!(answer.is_ok(), fits, "{count}: {answer:?}");
    }
    let max = MAX_RESPONSE_HEADER_BYTES - OWN_BYTES;
    for (bytes, fits) in [(max, true), (max + 1, false), (10 << 20, false)] {
        let answer = answering(format!("a: {}\r\n", "b".repeat(bytes - 1)));
        assert_eq!(answer.is_ok(), fits, "{bytes}");
    }
}

#[test]
fn request_timeout_covers_the_whole_request() {
    let slow = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        // Send one byte at a time, so that no single read takes long.
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let silent = Server::new(|_, _| thread::sleep(Duration::from_secs(300)));
    for (server, asked_ms, policy_ms) in [(&slow, None, 300), (&silent, None, 300), (&slow, Some(200), 100_000)] {
        let mut policy = policy(&[server]);
        policy.timeout_ms = policy_ms;
        let begun = Instant::now();
        let answer = ask(&client(&policy), &json!({ "url": server.url("/"), "timeout_ms": asked_ms }));
        assert!(answer.unwrap_err().starts_with("timeout: the response was incomplete after"), "{asked_ms:?}");
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(190) && took < Duration::from_secs(60), "{took:?}");
    }
}

#[test]
fn call_deadline_and_cancellation_end_a_request() {
    let silent = Server::new(|_, _| thread::sleep(Duration::from_secs(300)));
    let client = client(&policy(&[&silent]));
    let request = json!({ "url": silent.url("/") }).to_string();
    let begun = Instant::now();
    let call = CallContext { deadline: begun + Duration::from_millis(300), ..call() };
    assert!(message::fetch(&client, &call, &request).is_err());
    assert!(begun.elapsed() < Duration::from_secs(60));

    let call = super::call();
    let cancel = call.cancel.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    let begun = Instant::now();
    assert!(message::fetch(&client, &call, &request).unwrap_err().message.contains("was cancelled"));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(message::fetch(&client, &call, &request).is_err(), "a cancelled call sends no request");
}

#[test]
fn only_methods_of_the_policy_are_allowed() {
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

#[test]
fn special_purpose_addresses_are_not_public() {
    for (address, public) in [
        ("1.1.1.1", true),
        ("0.0.0.0", false),
        ("0.255.255.255", false),
        ("1.0.0.0", true),
        ("9.255.255.255", true),
        ("10.0.0.0", false),
        ("10.255.255.255", false),
        ("11.0.0.0", true),
        ("100.63.255.255", true),
        ("100.64.0.0", false),
        ("100.127.255.255", false),
        ("100.128.0.0", true),
        ("127.0.0.1", false),
        ("127.255.255.255", false),
        ("128.0.0.0", true),
        ("169.253.255.255", true),
        ("169.254.169.254", false),
        ("172.15.255.255", true),
        ("172.16.0.0", false),
        ("172.31.255.255", false),
        ("172.32.0.0", true),
        ("192.0.0.1", false),
        ("192.0.1.0", true),
        ("192.0.2.1", false),
        ("192.88.99.1", false),
        ("192.167.255.255", true),
        ("192.168.0.1", false),
        ("192.169.0.0", true),
        ("198.17.255.255", true),
        ("198.18.0.0", false),
        ("198.19.255.255", false),
        ("198.20.0.0", true),
        ("198.51.100.7", false),
        ("203.0.113.7", false),
        ("223.255.255.255", true),
        ("224.0.0.1", false),
        ("240.0.0.1", false),
        ("255.255.255.255", false),
        ("::", false),
        ("::1", false),
        ("::7f00:1", false),       // IPv4-compatible
        ("::ffff:1.1.1.1", false), // IPv4-mapped, for any IPv4 address
        ("::ffff:127.0.0.1", false),
        ("64:ff9b::7f00:1", false), // NAT64
        ("64:ff9b::101:101", false),
        ("64:ff9b:1::7f00:1", false),
        ("100::1", false),
        ("1fff::1", false),
        ("2000::1", true),
        ("2001::1", false), // Teredo
        ("2001:1ff::1", false),
        ("2001:200::1", true),
        ("2001:db8::1", false),
        ("2001:4860:4860::8888", true),
        ("2002:7f00:1::", false), // 6to4
        ("2606:4700::1111", true),
        ("2620:4f:8000::1", false),
        ("3fff::1", false),
        ("3fff:1000::1", true),
        ("4000::1", false),
        ("5f00::1", false),
        ("fc00::1", false),
        ("fd12:3456::1", false),
        ("fe80::1", false),
        ("fec0::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_public_address(address.parse().unwrap()), public, "{address}");
    }
}

fn client_of(allow: &str, ranges: &[&str], names: &[(&str, &[&[&str]])]) -> Client {
    let mut policy = NetworkPolicy::allowing([allow]);
    policy.allow_private = ranges.iter().map(|range| (*range).to_owned()).collect();
    Client::with_resolver(&policy, secrets(&policy), resolver(names)).unwrap()
}

#[test]
fn name_resolving_to_a_private_address_is_blocked() {
    let server = Server::with_body("inside");
    let url = format!("http://inside.example:{}/", server.port);
    for address in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "0.0.0.0"]
    {
        let client = client_of(&url, &[], &[("inside.example", &[&[address]])]);
        let refused = get(&client, &url).unwrap_err();
        assert!(refused.starts_with("refused: `inside.example` has no public address"), "{address}: {refused}");
    }
    assert!(server.heard().is_empty());
    // The IPv4-mapped form is not the allowed address.
    let client = client_of(&url, &["127.0.0.0/8"], &[("inside.example", &[&["::ffff:127.0.0.1"]])]);
    assert!(get(&client, &url).unwrap_err().starts_with("refused: "));
    let client = client_of(&url, &["127.0.0.0/8"], &[("inside.example", &[&["127.0.0.1"]])]);
    assert_eq!(get(&client, &url).unwrap()["text"], "inside");
}

#[test]
fn connection_uses_the_checked_address() {
    let server = Server::with_body("inside");
    let url = format!("http://rebinding.example:{}/", server.port);
    // The first lookup returns an allowed address, the second one a forbidden address.
    let client = client_of(&url, &["127.0.0.1"], &[("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    assert!(get(&client, &url).is_ok());
    assert!(
        get(&client, &url).unwrap_err().starts_with("refused: "),
        "each connection resolves and checks the name again"
    );
    // The client tries only the allowed addresses of a name.
    let client = client_of(&url, &["127.0.0.1"], &[("rebinding.example", &[&["127.0.0.2", "127.0.0.1"]])]);
    assert!(get(&client, &url).is_ok());
    assert_eq!(server.heard().len(), 2);
}

#[test]
fn address_in_the_url_is_checked_as_well() {
    let server = Server::with_body("inside");
    let forms = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]"];
    for form in forms {
        let url = format!("http://{form}:{}/", server.port);
        let policy = NetworkPolicy::allowing([format!("http://127.0.0.1:{}", server.port), url.clone()]);
        let refused = get(&client(&policy), &url).unwrap_err();
        assert!(refused.contains("is not a public address"), "{form}: {refused}");
    }
    assert!(server.heard().is_empty());
}

#[test]
fn localhost_ignores_the_resolver() {
    let client = client_of("http://localhost", &[], &[("localhost", &[&["1.1.1.1"]])]);
    assert!(get(&client, "http://localhost/").unwrap_err().starts_with("refused: `localhost`"));
}
