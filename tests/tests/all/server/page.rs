//! Tests the page at `/`: access, security policy, and whether its files were built from the current sources.

use std::{collections::BTreeSet, fs, path::Path};

use glovebox_server::http::HttpConfig;
use sha2::{Digest as _, Sha256};

use super::support::{Answer, Server, Setup};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/server/assets");
const MADE: [&str; 7] = [
    "index.html",
    "page/app.css",
    "page/app.js",
    "page/codemirror.js",
    "page/frame.html",
    "page/icon.svg",
    "page/licences.txt",
];

fn path_of(name: &str) -> String {
    if name == "index.html" { "/".into() } else { format!("/{name}") }
}

/// Sends a request without a token. Adds a `host` header unless `headers` contains one.
fn ask(server: &Server, path: &str, headers: &str) -> Answer {
    let host =
        if headers.to_lowercase().contains("host:") { String::new() } else { format!("host: {}\r\n", server.address) };
    let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{host}{headers}\r\n");
    Answer::read(server.send(request.as_bytes()))
}

fn asset(name: &str) -> String {
    fs::read_to_string(Path::new(ASSETS).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn page_needs_no_token_but_requests_do() {
    let server = Server::start(Setup::default());
    for name in MADE {
        let answer = ask(&server, &path_of(name), "");
        assert_eq!(answer.status, 200, "{name}");
        // Chromium rejects scripts and style sheets that have two content types.
        for header in ["content-type", "content-security-policy", "etag", "cache-control"] {
            assert_eq!(answer.headers(header).len(), 1, "{name}: {header}");
        }
        let media_type = match name.rsplit_once('.').unwrap().1 {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        };
        assert_eq!(answer.header("content-type"), Some(media_type), "{name}");
        // `assert_eq` would print the whole file.
        assert!(answer.text() == asset(name), "{name} differs from the compiled asset");
        for (header, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(header), Some(value), "{name}: {header}");
        }
        let tag = answer.header("etag").unwrap().to_owned();
        let again = ask(&server, &path_of(name), &format!("if-none-match: \"other\", W/{tag}\r\n"));
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(&*tag)), "{name}");
        assert_eq!(ask(&server, &path_of(name), "if-none-match: \"other\"\r\n").status, 200, "{name}");
    }
    assert_eq!(ask(&server, "/v1/info", "").problem().0, 401);
    assert_eq!(server.ask("POST", "/", &[], b"").problem(), (405, "no-method".into()));
    for path in [
        "/page/",
        "/page/manifest.txt",
        "/manifest.txt",
        "/page/../page/app.js",
        "/page/%2e%2e/manifest.txt",
        "/index.html",
    ] {
        assert_eq!(ask(&server, path, "").problem(), (404, "no-route".into()), "{path}");
    }
    assert_eq!(ask(&server, "/", "host: evil.example\r\n").problem(), (421, "host".into()));
    assert_eq!(ask(&server, "/", "origin: https://evil.example\r\n").problem(), (403, "origin".into()));
}

#[test]
fn page_can_be_disabled() {
    let server = Server::start(Setup { http: HttpConfig { page: false, ..HttpConfig::default() }, ..Setup::default() });
    for name in MADE {
        assert_eq!(ask(&server, &path_of(name), "").problem(), (404, "no-route".into()), "{name}");
    }
    server.get("/v1/info").ok();
}

/// Returns the policy that an HTML file declares in its own markup.
fn own_policy(html: &str) -> &str {
    let (_, rest) =
        html.split_once("http-equiv=\"Content-Security-Policy\" content=\"").expect("the file declares a policy");
    rest.split_once('"').expect("the attribute's value ends").0
}

#[test]
fn page_security_policy_allows_only_its_own_server() {
    let server = Server::start(Setup::default());
    let header = |path: &str| ask(&server, path, "").header("content-security-policy").unwrap().to_owned();
    let policy = header("/");
    assert_eq!(policy, format!("{}; frame-ancestors 'none'", own_policy(&asset("index.html"))));
    let rules: BTreeSet<&str> = policy.split("; ").collect();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ] {
        assert!(rules.contains(rule), "{rule}: {policy}");
    }
    for bad in ["unsafe", "http:", "https:", "*", "data:"] {
        assert!(!policy.contains(bad), "{bad}: {policy}");
    }
    // The frame for HTML from scripts may use inline styles, but must not load anything.
    let frame = header("/page/frame.html");
    assert_eq!(frame, format!("{}; frame-ancestors 'self'", own_policy(&asset("page/frame.html"))));
    for bad in ["script-src", "'self' ", "http:", "https:", "*", "connect-src"] {
        assert!(!frame.contains(bad), "{bad}: {frame}");
    }
    for name in MADE.into_iter().filter(|name| !matches!(*name, "index.html" | "page/frame.html")) {
        assert_eq!(header(&path_of(name)), policy, "{name}");
    }
    let (html, ours) = (asset("index.html"), asset("page/app.js"));
    for inline in ["<style", " style=", " onclick", "javascript:", "<script>", "//"] {
        assert!(!html.contains(inline), "index.html contains {inline}");
    }
    for sink in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "localStorage.setItem(NAME",
    ] {
        assert!(!ours.contains(sink), "app.js contains {sink}");
    }
    assert_eq!(ours.matches("srcdoc").count(), 1, "HTML goes only into one sandboxed frame");
}

#[test]
fn page_files_match_their_sources() {
    const REMEDY: &str = "run bindings/web/build, which needs npm";
    let manifest = asset("manifest.txt");
    let mut named = BTreeSet::new();
    for line in manifest.lines().filter(|line| !line.starts_with('#')) {
        let (hash, name) = line.split_once("  ").expect("a hash and a name");
        // A name with a leading slash is a source.
        let path = match name.strip_prefix('/') {
            Some(source) => Path::new(ROOT).join(source),
            None => Path::new(ASSETS).join(name),
        };
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}; {REMEDY}"));
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, hash, "{name} has changed since the page was built; {REMEDY}");
        named.insert(name.to_owned());
    }
    assert!(MADE.iter().all(|name| named.contains(*name)), "{named:?}");
    // A new source would not be in the manifest, so the files in each directory are compared with it.
    for directory in [
        "bindings/web/src",
        "bindings/web/src/ui",
        "bindings/web/src/backend",
        "bindings/web/static",
        "bindings/web/examples",
    ] {
        for entry in fs::read_dir(Path::new(ROOT).join(directory)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("/{directory}/{}", entry.file_name().to_str().unwrap());
            assert!(entry.file_type().unwrap().is_dir() || named.contains(&name), "{name} is new; {REMEDY}");
        }
    }
}
