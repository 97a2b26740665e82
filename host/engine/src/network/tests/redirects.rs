//! Redirects: each target is checked against the policy.

use super::*;

fn redirecting(status: u16, to: impl Into<String>) -> Server {
    let to = to.into();
    Server::saying(format!("HTTP/1.1 {status} Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"))
}

/// Redirects from `/3` to `/2`, and so on to `/0`.
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
            Err(error) => assert!(error.contains("more than 5 redirects (`network.redirects`)"), "{error}"),
        }
    }
}

#[test]
fn no_redirect_leads_out_of_the_list() {
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
    // The name is allowed, but resolves to an internal address.
    let server = redirecting(302, format!("http://inside.example:{}/", outside.port));
    let mut policy = policy(&[&server]);
    policy.allow.push(format!("http://inside.example:{}", outside.port));
    policy.allow_private = vec!["127.0.0.1".into()];
    let names = Names::new(&[("inside.example", &[&["127.0.0.2"]])]);
    let client = Client::with_resolver(&policy, secrets(&policy), names).unwrap();
    assert!(get(&client, &server.url("/")).unwrap_err().starts_with("refused: `inside.example`"));
    assert!(outside.heard().is_empty());
}

#[test]
fn a_script_may_take_redirects_itself() {
    let server = redirecting(301, "https://evil.example/");
    let client = client(&policy(&[&server]));
    let answer = ask(&client, &json!({ "url": server.url("/"), "redirect": "manual" })).unwrap();
    assert_eq!((&answer["status"], &answer["redirects"]), (&json!(301), &json!(0)));
}

#[test]
fn what_a_redirect_keeps_of_a_request_is_what_browsers_keep() {
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
