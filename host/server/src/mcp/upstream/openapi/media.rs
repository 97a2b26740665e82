//! Media types of bodies.

/// Types of text that do not begin with `text/`.
const TEXTS: [&str; 5] =
    ["application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/x-ndjson"];

/// Returns a media type without its parameters.
pub(super) fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Returns `true` for JSON, including types such as `application/problem+json`, and for ranges that include JSON.
pub(super) fn is_json(kind: &str) -> bool {
    let kind = essence(kind).to_ascii_lowercase();
    matches!(&*kind, "application/json" | "text/json" | "*/*" | "application/*")
        || (kind.contains('/') && kind.ends_with("+json"))
}

/// Returns `true` for text other than JSON.
pub(super) fn is_text(kind: &str) -> bool {
    let kind = essence(kind).to_ascii_lowercase();
    kind.starts_with("text/") || kind.ends_with("+xml") || TEXTS.contains(&&*kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_is_json_text_or_other() {
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json", "*/*"] {
            assert!(is_json(kind), "{kind}");
        }
        for kind in ["text/plain", "text/html; charset=utf-8", "application/xml", "image/svg+xml"] {
            assert!(is_text(kind) && !is_json(kind), "{kind}");
        }
        for kind in ["", "+json", "json", "application/jsonp", "application/pdf", "multipart/form-data"] {
            assert!(!is_text(kind) && !is_json(kind), "{kind}");
        }
    }
}
