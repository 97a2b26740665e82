//! An OpenAPI document: its limits, version and server, and references within it.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::shown;
use crate::json::JsonCost;

/// Maximum size of a document in bytes.
pub(super) const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// Maximum length of a URL in bytes, for the server and for requests. Most servers reject longer ones.
pub(super) const MAX_URL_BYTES: usize = 8 << 10;

/// Maximum length of a chain of references to a path's entry, a parameter, a body or a response.
const MAX_REFERENCES: usize = 8;

/// Maximum length of a reference in bytes. Many operations can share one reference, which is resolved again for each
/// operation.
const MAX_REFERENCE_BYTES: usize = 1 << 10;

/// Maximum size of the document's servers in bytes, for comparisons with the servers of paths and operations. Many
/// paths can share one entry, and the servers are compared for each operation.
const MAX_SERVERS_BYTES: usize = 64 << 10;

/// The HTTP methods of OpenAPI, with `true` for the methods that scripts can use.
const METHODS: [(&str, bool); 8] = [
    ("get", true),
    ("put", true),
    ("post", true),
    ("delete", true),
    ("patch", true),
    ("head", false),
    ("options", false),
    ("trace", false),
];

pub(super) struct OpenApiDocument {
    root: Value,
    /// `true` for OpenAPI 3.0, where keywords next to a `$ref` have no effect.
    pub(super) is_3_0: bool,
    /// `true` if the document's servers exceed [`MAX_SERVERS_BYTES`].
    has_large_servers: bool,
}

/// An operation of a document, before it is checked.
#[derive(Clone, Copy)]
pub(super) struct OperationEntry<'a> {
    pub(super) path: &'a str,
    pub(super) method: &'static str,
    /// `false` if scripts cannot use the method.
    pub(super) is_supported: bool,
    /// The path's entry, which can contain parameters of all its operations.
    pub(super) item: &'a Map<String, Value>,
    pub(super) operation: &'a Map<String, Value>,
}

/// A part of a template such as `/pets/{id}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TemplatePart<'a> {
    Text(&'a str),
    Name(&'a str),
}

impl OpenApiDocument {
    /// Parses a document. The error completes a sentence that begins with the API's name.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(format!("has a document of more than {MAX_DOCUMENT_BYTES} bytes; remove operations from it"));
        }
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err("has a document that is not JSON; convert it to JSON, because YAML is not supported".to_owned());
        }
        if JsonCost::of(bytes).is_err() {
            return Err("has a document with too many values or levels; remove operations from it".to_owned());
        }
        let root: Value = serde_json::from_slice(bytes).map_err(|error| {
            let error = glovebox::escaped_text(&error.to_string()).to_string();
            format!("has a document that is not valid JSON: {error}")
        })?;
        if root.get("swagger").is_some() {
            return Err("has a Swagger 2.0 document; convert it to OpenAPI 3.0 or 3.1".to_owned());
        }
        let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
        let is =
            |minor: &str| version.strip_prefix(minor).is_some_and(|patch| patch.is_empty() || patch.starts_with('.'));
        if !is("3.0") && !is("3.1") {
            let version = shown(version);
            return Err(format!(
                "has a document with the `openapi` version `{version}`; only 3.0 and 3.1 are supported"
            ));
        }
        let is_3_0 = is("3.0");
        let servers_bytes = root.get("servers").map_or(0, |servers| servers.to_string().len());
        Ok(Self { root, is_3_0, has_large_servers: servers_bytes > MAX_SERVERS_BYTES })
    }

    /// Returns the URL of the first server, which can be relative, with the default values of its variables.
    pub(super) fn server(&self) -> Result<String, String> {
        let Some(server) = self.root.get("servers").and_then(|servers| servers.get(0)) else {
            return Ok("/".to_owned());
        };
        let invalid = || "has an invalid URL in the `servers` of its document; set its `server`".to_owned();
        let url = server.get("url").and_then(Value::as_str).ok_or_else(invalid)?;
        let variable = |name: &str| server.get("variables")?.get(name)?.get("default")?.as_str();
        let mut whole = String::new();
        for part in template(url).ok_or_else(invalid)? {
            let text = match part {
                TemplatePart::Text(text) => text,
                TemplatePart::Name(name) => variable(name).ok_or_else(invalid)?,
            };
            if whole.len() + text.len() > MAX_URL_BYTES {
                return Err(invalid());
            }
            whole.push_str(text);
        }
        Ok(whole)
    }

    /// Returns `true` if the servers of a path or an operation differ from the document's, or if the document's servers
    /// are too large to be compared.
    pub(super) fn has_other_servers(&self, entry: OperationEntry<'_>) -> bool {
        let own = entry.operation.get("servers").or_else(|| entry.item.get("servers"));
        own.is_some_and(|own| self.has_large_servers || Some(own) != self.root.get("servers"))
    }

    /// Returns all operations, sorted by path.
    pub(super) fn operations(&self) -> impl Iterator<Item = OperationEntry<'_>> {
        let paths = self.root.get("paths").and_then(Value::as_object).into_iter().flatten();
        paths.flat_map(move |(path, item)| {
            let item = self.resolved(item).and_then(Value::as_object);
            METHODS.into_iter().filter_map(move |(method, is_supported)| {
                let item = item?;
                let operation = item.get(method)?.as_object()?;
                Some(OperationEntry { path: path.as_str(), method, is_supported, item, operation })
            })
        })
    }

    /// Returns the value at a reference within the document, such as `#/components/schemas/Pet`.
    pub(super) fn at(&self, reference: &str) -> Option<&Value> {
        if reference.len() > MAX_REFERENCE_BYTES {
            return None;
        }
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }

    /// Follows the references of a path's entry, a parameter, a body or a response.
    pub(super) fn resolved<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = value.get("$ref") else { return Some(value) };
            value = self.at(reference.as_str()?)?;
        }
        None
    }
}

/// Splits a template at its names in braces. Returns `None` if the braces are unbalanced.
pub(super) fn template(text: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut parts = Vec::new();
    for (index, piece) in text.split('{').enumerate() {
        let literal = if index == 0 {
            piece
        } else {
            let (name, literal) = piece.split_once('}')?;
            parts.push(TemplatePart::Name(name));
            literal
        };
        if literal.contains('}') {
            return None;
        }
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal));
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Result<OpenApiDocument, String> {
        OpenApiDocument::parse(text.as_bytes())
    }

    #[test]
    fn unusable_document_is_rejected() {
        let large = format!(r#"{{"openapi": "3.0.0", "x": "{}"}}"#, "x".repeat(MAX_DOCUMENT_BYTES));
        let wide = format!(r#"{{"openapi": "3.0.0", "x": [{}0]}}"#, "0,".repeat(300_000));
        let deep = format!(r#"{{"openapi": "3.0.0", "x": {}"#, "[".repeat(101));
        for (text, expected) in [
            ("openapi: 3.0.0\npaths: {}", "is not JSON; convert it to JSON, because YAML is not supported"),
            ("", "is not JSON"),
            (r#"{"openapi": "#, "is not valid JSON"),
            (r#"{"swagger": "2.0"}"#, "Swagger 2.0"),
            (r#"{"openapi": "3.2.0"}"#, "version `3.2.0`; only 3.0 and 3.1"),
            (r#"{"openapi": "3.10"}"#, "version `3.10`"),
            (r#"{"openapi": "\u001b[2J"}"#, r"version `\u{1b}[2J`"),
            ("{}", "version ``"),
            (&*large, "more than 4194304 bytes"),
            (&*wide, "too many values or levels"),
            (&*deep, "too many values or levels"),
        ] {
            let error = parsed(text).err().unwrap();
            assert!(error.contains(expected) && error.len() < 300, "{error}");
        }
        assert!(parsed(r#" {"openapi": "3.0"}"#).unwrap().is_3_0);
        assert!(!parsed(r#"{"openapi": "3.1.1"}"#).unwrap().is_3_0);
    }

    #[test]
    fn server_uses_the_defaults_of_its_variables() {
        let server =
            |servers: Value| parsed(&json!({ "openapi": "3.1.0", "servers": servers }).to_string()).unwrap().server();
        let variables = json!({ "host": { "default": "eu" }, "long": { "default": "x".repeat(1 << 10) } });
        assert_eq!(server(json!([])).unwrap(), "/");
        assert_eq!(server(json!([{ "url": "/v1" }, { "url": "/v2" }])).unwrap(), "/v1");
        let url = |url: &str| server(json!([{ "url": url, "variables": variables }]));
        assert_eq!(url("https://{host}.x/v1").unwrap(), "https://eu.x/v1");
        for wrong in ["https://{port}.x", "https://{host", "https://host}", &*"{long}".repeat(1 << 10)] {
            assert!(url(wrong).unwrap_err().contains("set its `server`"), "{wrong}");
        }
        assert!(server(json!([{}])).is_err());
    }

    #[test]
    fn servers_are_compared_up_to_a_limited_size() {
        for (bytes, expected) in [(MAX_SERVERS_BYTES, false), (MAX_SERVERS_BYTES + 1, true)] {
            let url = "x".repeat(bytes - r#"[{"url":""}]"#.len());
            let servers = json!([{ "url": url }]);
            let paths = json!({ "/a": { "get": { "servers": servers }, "put": {} } });
            let document = json!({ "openapi": "3.1.0", "servers": servers, "paths": paths });
            let document = parsed(&document.to_string()).unwrap();
            let has_other: Vec<bool> = document.operations().map(|entry| document.has_other_servers(entry)).collect();
            assert_eq!(has_other, [expected, false], "{bytes}");
        }
    }

    #[test]
    fn references_are_followed_to_a_limited_depth() {
        let mut chain: Map<String, Value> =
            (0..20).map(|index| (format!("r{index}"), json!({ "$ref": format!("#/x/r{}", index + 1) }))).collect();
        chain.insert("r20".to_owned(), json!({ "name": "end" }));
        let [fits, long] = [MAX_REFERENCE_BYTES - 2, MAX_REFERENCE_BYTES - 1].map(|length| "k".repeat(length));
        let text = json!({
            "openapi": "3.1.0", "x": chain, "a/b c": { "$ref": "#/a~1b%20c" }, (&*fits): { "name": "end" },
            (&*long): { "name": "end" },
        });
        let text = text.to_string();
        let document = parsed(&text).unwrap();
        let to = |reference: &str| {
            let value = json!({ "$ref": reference });
            document.resolved(&value).cloned()
        };
        assert_eq!(to("#/x/r20"), Some(json!({ "name": "end" })));
        assert_eq!(to("#/x/r14"), Some(json!({ "name": "end" })));
        assert_eq!(to(&format!("#/{fits}")), Some(json!({ "name": "end" })));
        for reference in ["#/x/r13", "#/x/r0", "#/a~1b%20c", "#/missing", "other.json#/x", "https://x.test/#/x", "#%ff"]
        {
            assert_eq!(to(reference), None, "{reference}");
        }
        assert_eq!(to(&format!("#/{long}")), None);
        assert_eq!(document.resolved(&json!({ "$ref": 1 })), None);
    }

    #[test]
    fn template_is_split_at_its_names() {
        use TemplatePart::{Name, Text};
        assert_eq!(template("/a/{b}.{c}").unwrap(), [Text("/a/"), Name("b"), Text("."), Name("c")]);
        assert_eq!(template("").unwrap(), []);
        for wrong in ["{", "}", "/{a", "/a}", "/{a}}", "{a{b}}"] {
            assert!(template(wrong).is_none(), "{wrong}");
        }
    }
}
