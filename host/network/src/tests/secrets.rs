//! Tests that secrets are sent only to their hosts, and that scripts and logs never see them.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::*;

fn with_secret(servers: &[&Server], host: &str) -> NetworkPolicy {
    let mut policy = policy(servers);
    policy.secrets.insert("KEY".into(), SecretPolicy::new("REAL", host));
    policy
}

fn placeholder(policy: &NetworkPolicy) -> String {
    secrets(policy).environment().remove("KEY").unwrap()
}

fn with_header(client: &Client, url: &str, value: &str) -> Result<Value, String> {
    ask(client, &json!({ "url": url, "headers": [["Authorization", value]] }))
}

/// Starts a server that echoes each request.
fn echo() -> Server {
    Server::new(|request, stream| {
        let key =
            request.lines().find(|line| line.to_lowercase().starts_with("authorization")).unwrap_or("none").to_owned();
        let head = format!("HTTP/1.1 200 OK\r\nX-Key: {key}\r\nContent-Length: {}\r\n\r\n{request}", request.len());
        let _ = stream.write_all(head.as_bytes());
    })
}

#[test]
fn placeholder_is_replaced_in_headers_both_ways() {
    let server = echo();
    let policy = with_secret(&[&server], "127.0.0.1");
    let (client, shown) = (client(&policy), placeholder(&policy));
    assert!(shown.starts_with("glovebox-secret-") && shown.len() == 48, "{shown}");
    let answer = with_header(&client, &server.url("/"), &format!("Bearer {shown}")).unwrap();
    assert!(server.heard()[0].contains(&format!("authorization: Bearer {SECRET}\r\n")), "{:?}", server.heard());
    assert!(!answer.to_string().contains(SECRET), "{answer}");
    assert_eq!(answer["headers"][0][1], format!("authorization: Bearer {shown}"));
    assert!(answer["text"].as_str().unwrap().contains(&format!("Bearer {shown}\r\n")));

    let pair = STANDARD.encode(format!("user:{shown}"));
    let answer = with_header(&client, &server.url("/"), &format!("Basic {pair}")).unwrap();
    let sent = STANDARD.encode(format!("user:{SECRET}"));
    assert!(server.heard()[1].contains(&format!("authorization: Basic {sent}\r\n")));
    assert!(!answer.to_string().contains(&sent) && answer["text"].as_str().unwrap().contains(&pair), "{answer}");
}

#[test]
fn secret_is_sent_in_headers_only() {
    let server = echo();
    let policy = with_secret(&[&server], "127.0.0.1");
    let (client, shown) = (client(&policy), placeholder(&policy));
    let request = json!({ "url": server.url(&format!("/{shown}?{shown}")), "method": "POST", "text": shown });
    ask(&client, &request).unwrap();
    assert!(!server.heard()[0].contains(SECRET) && server.heard()[0].contains(&shown));
}

#[test]
fn secret_is_sent_only_to_its_host() {
    let (server, other) = (echo(), echo());
    for host in ["api.example.com".to_owned(), "127.0.0.2".to_owned(), format!("127.0.0.1:{}", other.port)] {
        let policy = with_secret(&[&server, &other], &host);
        let refused = with_header(&client(&policy), &server.url("/"), &placeholder(&policy)).unwrap_err();
        assert!(refused.starts_with("refused: the secret `KEY` may only be sent to `"), "{host}: {refused}");
    }
    assert!(server.heard().is_empty());
}

#[test]
fn redirect_to_another_server_drops_the_secret() {
    let target = echo();
    let to = target.url("/");
    let server = Server::saying(format!("HTTP/1.1 307 Away\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
    // The host is the same, but the port differs, so the origin differs. The secret's policy names no port, so it would
    // also allow this server.
    let policy = with_secret(&[&server, &target], "127.0.0.1");
    let (client, shown) = (client(&policy), placeholder(&policy));
    let headers = json!([["Authorization", shown], ["X-Key", shown], ["X-Other", "a"]]);
    ask(&client, &json!({ "url": server.url("/"), "headers": headers })).unwrap();
    assert!(server.heard()[0].contains(SECRET));
    assert!(!target.heard()[0].contains(SECRET) && !target.heard()[0].contains(&shown), "{:?}", target.heard());
    assert!(target.heard()[0].contains("x-other: a"));
}

#[test]
fn secret_needs_encryption_or_a_local_host() {
    let mut policy = NetworkPolicy::allowing(["http://api.example.com"]);
    policy.secrets.insert("KEY".into(), SecretPolicy::new("REAL", "api.example.com"));
    let refused = with_header(&client(&policy), "http://api.example.com/", &placeholder(&policy)).unwrap_err();
    assert_eq!(refused, "refused: the secret `KEY` may only be sent over `https`");
}

#[test]
fn errors_and_debug_output_hide_the_secret() {
    let broken = Server::new(|request, stream| drop(stream.write_all(format!("HTTP/1.1 {request}").as_bytes())));
    let policy = with_secret(&[&broken], "127.0.0.1");
    let client = client(&policy);
    let error = with_header(&client, &broken.url("/"), &placeholder(&policy)).unwrap_err();
    assert!(error.starts_with("broken: ") && !error.contains(SECRET), "{error}");
    assert!(broken.heard()[0].contains(SECRET));
    let shown = format!("{client:?} {policy:?} {:?} {:?}", secrets(&policy), serde_json::to_string(&policy));
    assert!(shown.contains("KEY") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn invalid_secret_is_rejected_without_showing_it() {
    let policies = BTreeMap::from([("KEY".to_owned(), SecretPolicy::new("REAL", "a.example"))]);
    let read = |value: Option<&str>| Secrets::read_from(&policies, Entropy::Host, &|_| value.map(str::to_owned));
    let long = "x".repeat(4096);
    for (value, fits) in [("1234567", false), ("12345678", true), (&long, true), (&format!("{long}x"), false)] {
        assert_eq!(read(Some(value)).is_ok(), fits, "{}", value.len());
    }
    for value in ["12345678\r\nX: y", "12345678é", " 12345678", "12345678\0"] {
        let error = read(Some(value)).unwrap_err().to_string();
        assert!(error.contains("`REAL`") && !error.contains("12345678"), "{error}");
    }
    let error = read(None).unwrap_err().to_string();
    assert_eq!(error, "`network.secrets.KEY`: the host's environment variable `REAL` is not set");
}

#[test]
fn placeholders_are_stable_per_secret_and_seed() {
    let policies = |env: &str| BTreeMap::from([("KEY".to_owned(), SecretPolicy::new(env, "a.example"))]);
    let shown = |env: &str, entropy| {
        Secrets::read_from(&policies(env), entropy, &|_| Some(SECRET.into()))
            .unwrap()
            .environment()
            .remove("KEY")
            .unwrap()
    };
    assert_eq!(shown("A", Entropy::Host), shown("A", Entropy::Host));
    assert_ne!(shown("A", Entropy::Host), shown("B", Entropy::Host));
    assert_eq!(shown("A", Entropy::Seeded(1)), shown("A", Entropy::Seeded(1)));
    assert_ne!(shown("A", Entropy::Seeded(1)), shown("A", Entropy::Seeded(2)));
    assert_ne!(shown("A", Entropy::Seeded(1)), shown("A", Entropy::Host));
}
