//! Tests of redirects: limits, policy checks, and rewritten methods and headers. Also tests malformed requests and
//! responses.

use super::*;

fn redirecting(status: u16, to: impl Into<String>) -> Server {
    let to = to.into();
    Server::saying(format!("HTTP/1.1 {status} Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"))
}

/// Redirects `/3` to `/2`, and so on down to `/0`.
fn counting_down() -> Server {
    Server::new(|request, stream| {
        let path = request.split(' ').nth(1).unwrap();
        let number: u32 = path.trim_matches('/').parse().unwrap();
        let answer = match number.checked_sub(1) {
            Some(next) => format!("HTTP/1.1 302 Found\r\nLocation: /{next}\r\nContent-Length: 0\r\n\r\n"),
            None => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend".to_owned(),
        };
        let _ = stream.write_all(answer.as_bytes());
    })
}

#[test]
fn redirects_are_followed_up_to_their_maximum() {
    let server = counting_down();
    let client = client(&policy(&[&server]));
    for (number, fits) in [(4, true), (5, true), (6, false), (1, true)] {
        let answer = get(&client, &server.url(&format!("/{number}")));
        assert_eq!(answer.is_ok(), fits, "{number}: {answer:?}");
        match answer {
            Ok(answer) => {
                assert_eq!((&answer["redirects"], &answer["url"]), (&json!(number), &json!(server.url("/0"))))
            }
            Err(error) => assert!(error.contains("the maximum `network.redirects` is 5"), "{error}"),
        }
    }
}

#[test]
fn redirects_are_checked_against_the_patterns() {
    let outside = Server::with_body("outside");
    for to in [
        outside.url("/"),
        format!("//127.0.0.1:{}/", outside.port),
        "https://evil.example/".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let server = redirecting(302, &to);
        let refused = get(&client(&policy(&[&server])), &server.url("/")).unwrap_err();
        assert!(refused.starts_with("refused: requests to `"), "{to}: {refused}");
    }
    for to in ["ftp://x/", "file:///etc/passwd", "javascript:1", "http://a@127.0.0.1/", "http://[", "\u{7f}"] {
        let server = redirecting(302, to);
        assert!(get(&client(&policy(&[&server])), &server.url("/")).is_err(), "{to}");
    }
    // The policy allows the name, but the name resolves to an internal address.
    let server = redirecting(302, format!("http://inside.example:{}/", outside.port));
    let mut policy = policy(&[&server]);
    policy.allow.push(format!("http://inside.example:{}", outside.port));
    policy.allow_private = vec!["127.0.0.1".into()];
    let names = resolver(&[("inside.example", &[&["127.0.0.2"]])]);
    let client = Client::with_resolver(&policy, secrets(&policy), names).unwrap();
    assert!(get(&client, &server.url("/")).unwrap_err().starts_with("refused: `inside.example`"));
    assert!(outside.heard().is_empty());
}

#[test]
fn scripts_can_handle_redirects_manually() {
    let server = redirecting(301, "https://evil.example/");
    let client = client(&policy(&[&server]));
    let answer = ask(&client, &json!({ "url": server.url("/"), "redirect": "manual" })).unwrap();
    assert_eq!((&answer["status"], &answer["redirects"]), (&json!(301), &json!(0)));
}

#[test]
fn redirects_rewrite_requests_as_browsers_do() {
    for (status, method, becomes) in [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (303, "HEAD", "HEAD"),
    ] {
        let target = Server::with_body("");
        let server = redirecting(status, target.url("/to"));
        let headers =
            json!([["Content-Type", "text/plain"], ["Authorization", "Bearer a"], ["X-Other", "b"], ["Cookie", "c=d"]]);
        let client = client(&policy(&[&server, &target]));
        ask(&client, &json!({ "url": server.url("/"), "method": method, "text": "body", "headers": headers })).unwrap();
        let heard = target.heard().remove(0).to_lowercase();
        assert!(heard.starts_with(&format!("{} /to ", becomes.to_lowercase())), "{status} {method}: {heard}");
        assert_eq!(heard.ends_with("body"), becomes == method, "{status} {method}: {heard}");
        assert_eq!(heard.contains("content-type"), becomes == method, "{status} {method}: {heard}");
        assert!(
            heard.contains("x-other: b") && !heard.contains("authorization") && !heard.contains("cookie"),
            "{heard}"
        );
    }
}

#[test]
fn reserved_and_invalid_headers_are_rejected() {
    let server = Server::with_body("");
    let client = client(&policy(&[&server]));
    for (name, value) in [
        ("Host", "evil.example"),
        ("host", "evil.example"),
        ("Connection", "close"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Upgrade", "h2c"),
        ("Expect", "100-continue"),
        ("Keep-Alive", "a"),
        ("Proxy-Authorization", "a"),
        ("Proxy-Anything", "a"),
        ("Via", "a"),
        ("Forwarded", "for=a"),
        ("A\r\nHost", "b"),
        ("A", "b\r\nHost: c"),
        ("A", "b\nHost: c"),
        ("A", "b\rc"),
        ("A", "b\0c"),
        ("", "a"),
        ("A B", "c"),
        ("A:", "c"),
        ("Ä", "c"),
        (":authority", "c"),
    ] {
        let answer = ask(&client, &json!({ "url": server.url("/"), "headers": [[name, value]] }));
        assert!(answer.is_err_and(|error| error.starts_with("invalid: ")), "{name:?} {value:?}");
    }
    assert!(server.heard().is_empty());
    ask(&client, &json!({ "url": server.url("/"), "headers": [["x-é", "a"]] })).unwrap_err();
    ask(&client, &json!({ "url": server.url("/"), "headers": [["X-Fine", " a\t"]] })).unwrap();
    assert!(server.heard()[0].contains("x-fine: a\r\n"));
}

#[test]
fn malformed_requests_are_rejected() {
    let server = Server::with_body("");
    let client = client(&policy(&[&server]));
    for request in [
        json!({}),
        json!({ "url": 1 }),
        json!({ "url": server.url("/"), "nothing": 1 }),
        json!({ "url": server.url("/"), "headers": { "a": "b" } }),
        json!({ "url": server.url("/"), "headers": [["a"]] }),
        json!({ "url": server.url("/"), "text": "a", "base64": "YQ==" }),
        json!({ "url": server.url("/"), "base64": "?" }),
        json!({ "url": server.url("/"), "redirect": "anywhere" }),
        json!({ "url": server.url("/"), "timeout_ms": -1 }),
        json!({ "url": "http://" }),
        json!({ "url": "http://[::1" }),
        json!({ "url": "a\r\nb" }),
    ] {
        let answer = ask(&client, &request);
        assert!(answer.is_err_and(|error| error.starts_with("invalid: ")), "{request}");
    }
    assert!(server.heard().is_empty());
}

#[test]
fn non_http_response_is_an_error_on_one_line() {
    for response in [
        "",
        "x",
        "HTTP/9 what\r\n\r\n",
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        "HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n",
    ] {
        let server = Server::saying(response);
        let error = get(&client(&policy(&[&server])), &server.url("/")).unwrap_err();
        assert!(error.starts_with("broken: `http://127.0.0.1:"), "{response:?}: {error}");
        assert!(!error.contains(['\r', '\n', '\0']) && error.len() < 600, "{error:?}");
    }
}

#[test]
fn binary_bodies_and_headers_are_unchanged() {
    let server = Server::saying(
        b"HTTP/1.1 200 OK\r\nX-A: \xe9\r\nX-A: 2\r\nConnection: close\r\nContent-Length: 2\r\n\r\n\xff\x00".to_vec(),
    );
    let answer = get(&client(&policy(&[&server])), &server.url("/")).unwrap();
    assert_eq!((&answer["base64"], &answer["bytes"]), (&json!("/wA="), &json!(2)));
    let headers = answer["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["x-a", "é"])) && headers.contains(&json!(["x-a", "2"])), "{headers:?}");
    assert!(!answer.to_string().contains("connection"));
}

#[test]
fn closed_ports_and_unknown_names_are_unreachable() {
    let listener = TcpListener::bind(loopback(0)).unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let mut policy = NetworkPolicy::allowing([url.as_str(), "http://none.example"]);
    policy.allow_private = vec!["127.0.0.1".into()];
    let client = Client::with_resolver(&policy, secrets(&policy), resolver(&[])).unwrap();
    for url in [url.as_str(), "http://none.example/"] {
        let error = get(&client, url).unwrap_err();
        assert!(error.starts_with("unreachable: cannot connect to `http://"), "{url}: {error}");
    }
}

#[test]
fn server_without_tls_receives_no_request() {
    let listener = TcpListener::bind(loopback(0)).unwrap();
    let url = format!("https://127.0.0.1:{}/secret-path", listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    });
    let mut policy = NetworkPolicy::allowing([url.as_str()]);
    policy.allow_private = vec!["127.0.0.1".into()];
    let error = get(&client(&policy), &url).unwrap_err();
    assert!(error.starts_with("unreachable: "), "{error}");
    assert!(!server.join().unwrap().contains("secret-path"));
}
