//! Header rules: headers that a script may send, and headers that it receives.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Limits of a request: number of headers, and total bytes of their names and values.
pub(super) const MAX_REQUEST_HEADERS: usize = 64;
pub(super) const MAX_REQUEST_HEADER_BYTES: usize = 32 << 10;
/// Limits of a response. Python's `http.client` reads at most 100 headers, including those added on the script's side.
pub(super) const MAX_RESPONSE_HEADERS: usize = 96;
pub(super) const MAX_RESPONSE_HEADER_BYTES: usize = 64 << 10;

/// Hop-by-hop, routing and framing headers, which only the client may set. A script could otherwise address another
/// server than the allowed one, or start a second message inside a message.
const NOT_THE_SCRIPTS: [&str; 16] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    ":authority",
];

/// Headers that describe a body, and are removed with it.
const OF_THE_BODY: [&str; 4] = ["content-encoding", "content-language", "content-location", "content-type"];

/// Headers that only the original server may receive.
const OF_THE_ORIGIN: [&str; 3] = ["authorization", "cookie", "cookie2"];

/// A script's request headers: checked, with placeholders unreplaced.
pub(super) type Headers = Vec<(HeaderName, String)>;

/// Checks the headers of a script's request.
pub(super) fn request(list: Vec<(String, String)>) -> Result<Headers, String> {
    if list.len() > MAX_REQUEST_HEADERS {
        return Err(format!("the request has {} headers; the limit is {MAX_REQUEST_HEADERS}", list.len()));
    }
    let bytes: usize = list.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_REQUEST_HEADER_BYTES {
        return Err(format!("the headers are {bytes} bytes; the limit is {MAX_REQUEST_HEADER_BYTES}"));
    }
    let check = |(name, value): (String, String)| {
        let shown: String = name.chars().take(64).collect();
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{shown}` is not a valid header name"))?;
        if NOT_THE_SCRIPTS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
            return Err(format!("scripts cannot set the header `{name}`; remove it"));
        }
        let value = value.trim_matches([' ', '\t']).to_owned();
        if HeaderValue::from_str(&value).is_err() {
            return Err(format!("the header `{name}` contains a line break or another invalid character"));
        }
        Ok((name, value))
    };
    list.into_iter().map(check).collect()
}

/// Removes headers that describe the body, for a redirect that changes the method to `GET`.
pub(super) fn without_body(headers: &mut Headers) {
    headers.retain(|(name, _)| !OF_THE_BODY.contains(&name.as_str()));
}

/// Removes credentials, for a redirect to another server. `is_secret` tells whether a value contains a placeholder.
pub(super) fn without_credentials(headers: &mut Headers, is_secret: impl Fn(&str) -> bool) {
    headers.retain(|(name, value)| !OF_THE_ORIGIN.contains(&name.as_str()) && !is_secret(value));
}

/// Converts a response's headers for the script, one character for each byte.
pub(super) fn response(headers: &HeaderMap) -> Result<Vec<(String, String)>, String> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > MAX_RESPONSE_HEADERS || bytes > MAX_RESPONSE_HEADER_BYTES {
        let most = format!("{MAX_RESPONSE_HEADERS} headers and {MAX_RESPONSE_HEADER_BYTES} bytes");
        return Err(format!("the response has {} headers of {bytes} bytes; the limit is {most}", headers.len()));
    }
    let is_shown = |name: &HeaderName| {
        !matches!(name.as_str(), "connection" | "keep-alive" | "transfer-encoding" | "te" | "trailer" | "upgrade")
            && !name.as_str().starts_with("proxy-")
    };
    let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>();
    Ok(headers
        .iter()
        .filter(|(name, _)| is_shown(name))
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect())
}
