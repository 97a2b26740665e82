//! Tests of URL checks, and of the URL that the server receives.

use glovebox::UrlPatterns;

use super::*;
use crate::client::parse;

fn allows(pattern: &str, url: &str) -> bool {
    parse(url).is_ok_and(|url| UrlPatterns::new(&[pattern.to_owned()]).unwrap().allow(&url))
}

#[test]
fn urls_similar_to_allowed_ones_are_blocked() {
    for url in [
        "https://api.example.com@evil.example/v1/",
        "https://api.example.com:443@evil.example/v1/",
        "https://user@api.example.com/v1/",
        "https://user:password@api.example.com/v1/",
        "https://evil.example\\@api.example.com/v1/",
        "https://evil.example/https://api.example.com/v1/",
        "https://evil.example#@api.example.com/v1/",
        "https://evil.example?@api.example.com/v1/",
        "https://api.example.com.evil.example/v1/",
        "https://api.example.com./v1/a",
        "https://api%2eexample.com:444/v1/",
        "https://api.example.com/v1/../admin",
        "https://api.example.com/v1/%2e%2e/admin",
        "https://api.example.com/v1/.%2E/admin",
        "https://api.example.com/v1\\..\\admin",
        "https://api.example.com/v1/..%2fadmin",
        "https://api.example.com/v1/%2e%2e%2fadmin",
        "https://api.example.com/v1/%252e%252e%252fadmin",
        "https://api.example.com/v1/..%5cadmin",
        "https://api.example.com/v1/..;/admin",
        "https://api.example.com/v1/%00",
        "https://аpi.example.com/v1/a", // a Cyrillic letter
        "//api.example.com/v1/",
        "/v1/",
        "ftp://api.example.com/v1/",
        "file:///v1/",
        "data:text/plain,x",
        "javascript:1",
        "",
    ] {
        assert!(!allows("https://api.example.com/v1/*", url), "{url}");
    }
    // Other spellings of the allowed host.
    for url in [
        "https://api%2Eexample.com/v1/",
        "https:api.example.com/v1/",
        "https:\\\\api.example.com\\v1\\",
        " https://api.example.com/v1/\n",
    ] {
        assert!(allows("https://api.example.com/v1/*", url), "{url}");
    }
    let long = |length: usize| format!("https://api.example.com/v1/{}", "a".repeat(length - 27));
    for (length, fits) in [(8191, true), (8192, true), (8193, false)] {
        assert_eq!(allows("https://api.example.com/v1/*", &long(length)), fits, "{length}");
    }
}

#[test]
fn request_goes_to_the_url_that_was_checked() {
    let server = Server::with_body("x");
    let mut policy = policy(&[]);
    policy.allow = vec![server.url("/v1/*")];
    let client = client(&policy);
    get(&client, &server.url("/v1/a/./b/../c?d=%20 e#f")).unwrap();
    assert!(server.heard()[0].starts_with("GET /v1/a/c?d=%20%20e HTTP/1.1\r\n"), "{:?}", server.heard());
    let refused = get(&client, &server.url("/v1/../v2")).unwrap_err();
    let origin = server.url("");
    assert!(refused.starts_with(&format!("refused: requests to `{origin}` are not allowed")), "{refused}");
    assert!(refused.contains(&server.url("/v1/*")), "the error lists the patterns: {refused}");
    assert_eq!(server.heard().len(), 1);
}
