//! Malicious requests and servers.

use super::*;

#[test]
fn headers_that_are_not_a_scripts_to_set_and_those_that_are_none_are_refused() {
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
fn requests_of_another_form_are_refused() {
    let server = Server::with_body("");
    let client = client(&policy(&[&server]));
    for asked in [
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
        let answer = ask(&client, &asked);
        assert!(answer.is_err_and(|error| error.starts_with("invalid: ")), "{asked}");
    }
    assert!(server.heard().is_empty());
}

#[test]
fn what_is_no_http_is_an_error_on_one_line() {
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
fn bytes_that_are_no_text_come_whole_and_headers_as_they_are() {
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
fn nobody_listening_and_no_such_name_are_unreachable() {
    let listener = TcpListener::bind(loopback(0)).unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let mut policy = NetworkPolicy::allowing([url.as_str(), "http://none.example"]);
    policy.allow_private = vec!["127.0.0.1".into()];
    let client = Client::with_resolver(&policy, secrets(&policy), Names::new(&[])).unwrap();
    for url in [url.as_str(), "http://none.example/"] {
        let error = get(&client, url).unwrap_err();
        assert!(error.starts_with("unreachable: no connection to `http://"), "{url}: {error}");
    }
}

#[test]
fn a_server_that_speaks_no_tls_gets_nothing() {
    let server = Server::with_body("plain");
    let url = format!("https://127.0.0.1:{}/secret-path", server.port);
    let mut policy = NetworkPolicy::allowing([url.as_str()]);
    policy.allow_private = vec!["127.0.0.1".into()];
    assert!(get(&client(&policy), &url).unwrap_err().starts_with("unreachable: "));
    assert!(server.heard().iter().all(|heard| !heard.contains("secret-path")));
}
