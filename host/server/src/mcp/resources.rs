//! MCP resources: stored outputs, and files in sessions.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_sessions::SessionId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ErrorData, ReadResourceResult, ResourceContents, ResourceTemplate};

use super::outputs::Outputs;
use crate::Tenant;

/// Maximum size of a resource in bytes. Its base64 encoding fits into 16 MiB, the maximum message size of `rmcp`
/// clients.
pub(super) const MAX_READ_BYTES: u64 = 8 << 20;

/// The characters that are percent-encoded: all except `/` and the unreserved characters of a URI (RFC 3986, section
/// 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The prefix of the URIs of stored outputs.
pub(super) const OUTPUT: &str = "glovebox://output/";

/// The address of a file in a session's workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileAddress {
    pub(super) session: SessionId,
    pub(super) path: String,
}

impl FileAddress {
    /// Parses a URI. Returns `None` if it is not the URI of a file.
    fn parse(uri: &str) -> Option<Self> {
        let (session, path) = uri.strip_prefix("glovebox://session/")?.split_once("/files/")?;
        let session = SessionId::new(session).ok()?;
        let path = percent_decode_str(path).decode_utf8().ok()?.into_owned();
        Some(Self { session, path })
    }

    pub(super) fn uri(&self) -> String {
        let Self { session, path } = self;
        format!("glovebox://session/{session}/files/{}", utf8_percent_encode(path, ENCODED))
    }
}

/// Returns the URI templates of the resources.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("glovebox://session/{session}/files/{+path}", "session-file")
            .with_title("A file in a session")
            .with_description("A file in a session, by its path relative to the working directory."),
        ResourceTemplate::new("glovebox://output/{id}/{name}", "output").with_title("An output").with_description(
            "Output of an execution that was too long or too large to show. The most recent outputs are stored.",
        ),
    ]
}

/// Returns a resource's contents.
pub(super) async fn read(tenant: &Tenant, outputs: &Outputs, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = |what: &str| ErrorData::resource_not_found(format!("`{}` {what}", glovebox::escaped(uri)), None);
    let (bytes, media_type) = if uri.starts_with(OUTPUT) {
        let held = outputs.get(uri).ok_or_else(|| missing("is no longer stored; run the code again"))?;
        (held.bytes.to_vec(), held.resource.mime_type.unwrap_or_default())
    } else {
        let FileAddress { session, path } =
            FileAddress::parse(uri).ok_or_else(|| missing("is not a resource of this server"))?;
        let read = tenant.read_file(&session, path.clone(), MAX_READ_BYTES, |_| Ok(())).await;
        let read = read.map_err(|error| missing(&format!("cannot be read: {}", error.public())))?;
        let (bytes, ()) = read.map_err(|size| {
            let text =
                format!("the file is {size} bytes; the maximum for a resource is {MAX_READ_BYTES}; use files_read");
            ErrorData::invalid_params(text, None)
        })?;
        let media_type = media_type(&path, &bytes);
        (bytes, media_type)
    };
    let contents = match String::from_utf8(bytes) {
        Ok(text) if is_short_as_json(&text) => ResourceContents::text(text, uri),
        Ok(text) => ResourceContents::blob(BASE64_STANDARD.encode(text), uri),
        Err(error) => ResourceContents::blob(BASE64_STANDARD.encode(error.into_bytes()), uri),
    };
    Ok(ReadResourceResult::new(vec![contents.with_mime_type(media_type)]))
}

/// Returns `true` if a string is at most as long in JSON as in base64. A control character occupies six bytes in JSON.
/// The shorter encoding must be used, because a client drops a message that is too long and then waits forever.
fn is_short_as_json(text: &str) -> bool {
    let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\n' | b'\r' | b'\t')).count();
    let control = text.bytes().filter(|byte| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t')).count();
    escaped + 5 * control <= text.len() / 3
}

/// Media types by file extension.
const TYPES: [(&str, &str); 22] = [
    ("bin", "application/octet-stream"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("py", "text/x-python"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("txt", "text/plain"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// Returns a file's media type. If the extension is unknown, checks whether `begins`, a part of the contents, is text.
pub(super) fn media_type(path: &str, begins: &[u8]) -> String {
    let ending =
        path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending.to_ascii_lowercase());
    let known = ending.and_then(|ending| TYPES.iter().find(|(known, _)| *known == ending));
    let is_text = match std::str::from_utf8(begins) {
        Ok(text) => !text.contains('\0'),
        Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
    };
    match known {
        Some((_, media_type)) => (*media_type).to_owned(),
        None if is_text => "text/plain".to_owned(),
        None => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_address_round_trips() {
        for path in ["a.txt", "data/über 1%.csv", "a?b#c", "../x", "\u{202e}x", "a\nb"] {
            let address = FileAddress { session: SessionId::new("s.1").unwrap(), path: path.into() };
            let text = address.uri();
            assert!(text.is_ascii() && !text.contains([' ', '?', '#', '\n']), "{text}");
            assert_eq!(FileAddress::parse(&text), Some(address));
        }
    }

    #[test]
    fn text_is_used_only_if_no_longer_than_base64() {
        for (text, is_short) in
            [("", true), ("a,b\n1,2\n", true), ("\0\0\0", false), ("\n\n\n", false), ("\u{1}aaaaaaaaaaaaaa", true)]
        {
            assert_eq!(is_short_as_json(text), is_short, "{text:?}");
            let json = serde_json::to_string(text).unwrap().len() - 2;
            assert!(!is_short || json <= text.len() * 4 / 3, "{text:?}");
        }
    }

    #[test]
    fn foreign_or_malformed_address_is_rejected() {
        for uri in [
            "",
            "file:///etc/passwd",
            "glovebox://",
            "glovebox://session/a/b",
            "glovebox://session/../files/x",
            "glovebox://session/a b/files/x",
            "glovebox://session/a/files/%ff",
            "GLOVEBOX://session/a/files/x",
        ] {
            assert_eq!(FileAddress::parse(uri), None, "{uri}");
        }
    }

    #[test]
    fn media_type_comes_from_the_name_or_first_bytes() {
        for (path, begins, expected) in [
            ("a/b.PNG", &b""[..], "image/png"),
            ("a.d/b", b"text", "text/plain"),
            ("b", b"\xff", "application/octet-stream"),
            ("b", b"a\0", "application/octet-stream"),
            ("b", b"ab\xc3", "text/plain"),
        ] {
            assert_eq!(media_type(path, begins), expected, "{path}");
        }
    }
}
