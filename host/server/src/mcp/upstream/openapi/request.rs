//! Requests of operations, with arguments from untrusted scripts.

use std::{borrow::Cow, collections::BTreeMap};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use serde_json::value::RawValue;

use super::{
    document::MAX_URL_BYTES,
    operation::{BODY, Operation, Parameter, ParameterLocation, PathPart, QueryStyle},
    shown,
};

/// The characters that are encoded in values of paths and queries: all except the unreserved ones (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The parts of a request that depend on the arguments.
#[derive(Debug)]
pub(super) struct RequestParts {
    pub(super) url: Url,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// JSON text, exactly as the script sent it.
    pub(super) body: Option<String>,
}

/// The arguments of a call as JSON text, keyed by name.
type Arguments = BTreeMap<String, Box<RawValue>>;

impl Operation {
    /// Returns the request of a call. `base` is the server's URL without a slash at the end. The arguments are checked
    /// again, because the engine does not support every schema.
    ///
    /// # Errors
    /// Fails if the arguments are invalid. The error text is a message for the script.
    pub(super) fn request(&self, base: &str, arguments: &str) -> Result<RequestParts, String> {
        let mut arguments: Arguments = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
        let body = self.body.iter().map(|body| (BODY, body.is_required));
        let parameters = self.parameters.iter().map(|(name, parameter)| (name.as_str(), parameter.is_required));
        // The names of the arguments, and `true` for those that are required.
        let known: BTreeMap<&str, bool> = parameters.chain(body).collect();
        arguments.retain(|name, value| known.get(&**name) == Some(&true) || value.get() != "null");
        if let Some(unknown) = arguments.keys().find(|name| !known.contains_key(name.as_str())) {
            return Err(format!("unknown argument `{}`", shown(unknown)));
        }
        let is_missing = |(name, is_required): &(&&str, &bool)| **is_required && !arguments.contains_key(**name);
        if let Some((missing, _)) = known.iter().find(is_missing) {
            return Err(format!("the argument `{}` is missing", shown(missing)));
        }
        let mut url = format!("{base}{}", self.path(&arguments)?);
        let mut headers = Vec::new();
        for (name, parameter) in &self.parameters {
            let Some(value) = arguments.get(name) else { continue };
            let wrong = |reason: String| format!("the argument `{}` {reason}", shown(name));
            match parameter.place {
                ParameterLocation::Path => {}
                ParameterLocation::Query(style) => query(&mut url, parameter, style, value).map_err(wrong)?,
                ParameterLocation::Header => headers.push(header(parameter, value).map_err(wrong)?),
            }
        }
        if url.len() > MAX_URL_BYTES {
            return Err(too_long());
        }
        let url = Url::parse(&url).map_err(|error| format!("the arguments result in an invalid URL: {error}"))?;
        let body = arguments.remove(BODY).filter(|_| self.body.is_some()).map(|body| body.get().to_owned());
        Ok(RequestParts { url, headers, body })
    }

    /// Returns the encoded path.
    fn path(&self, arguments: &Arguments) -> Result<String, String> {
        let mut path = String::new();
        for part in &self.path {
            match part {
                PathPart::Text(text) => path.push_str(text),
                PathPart::Argument(name) => {
                    let value = arguments.get(name).map(|value| joined(value, ","));
                    let value = value.unwrap_or_else(|| Ok(String::new()));
                    let value = value.map_err(|reason| format!("the argument `{}` {reason}", shown(name)))?;
                    if value.is_empty() {
                        return Err(format!("the argument `{}` is empty", shown(name)));
                    }
                    path.push_str(&value);
                }
            }
            if path.len() > MAX_URL_BYTES {
                return Err(too_long());
            }
        }
        // A URL parser would remove dot segments, so the request would have a different path.
        let is_dots = |segment: &str| matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | "..");
        if path.split('/').any(is_dots) {
            return Err("the arguments result in a path with the segment `.` or `..`".to_owned());
        }
        Ok(path)
    }
}

fn too_long() -> String {
    format!("the arguments result in a URL of more than {MAX_URL_BYTES} bytes; pass shorter arguments")
}

/// Appends a parameter to the query. The error completes a sentence that begins with the argument's name.
fn query(url: &mut String, parameter: &Parameter, style: QueryStyle, value: &RawValue) -> Result<(), String> {
    let name = encoded(&parameter.name);
    match style {
        QueryStyle::Joined(separator) => append(url, &name, &joined(value, separator)?),
        QueryStyle::Deep if is_object(value) => {
            let members: BTreeMap<String, Box<RawValue>> = parsed(value)?;
            members.iter().try_for_each(|(key, value)| {
                append(url, &format!("{name}%5B{}%5D", encoded(key)), &encoded(&scalar(value)?))
            })
        }
        QueryStyle::Deep | QueryStyle::Repeated if is_list(value) => {
            let values: Vec<Box<RawValue>> = parsed(value)?;
            values.iter().try_for_each(|value| append(url, &name, &encoded(&scalar(value)?)))
        }
        QueryStyle::Deep | QueryStyle::Repeated => append(url, &name, &encoded(&scalar(value)?)),
    }
}

/// Appends an encoded name and value. Fails if the URL would exceed its limit.
fn append(url: &mut String, name: &str, value: &str) -> Result<(), String> {
    if url.len() + name.len() + value.len() > MAX_URL_BYTES {
        return Err(format!("makes the URL longer than {MAX_URL_BYTES} bytes; pass a shorter value"));
    }
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str(name);
    url.push('=');
    url.push_str(value);
    Ok(())
}

fn header(parameter: &Parameter, value: &RawValue) -> Result<(HeaderName, HeaderValue), String> {
    let text = if is_list(value) { scalars(value)?.join(",") } else { scalar(value)? };
    let name = HeaderName::from_bytes(parameter.name.as_bytes()).ok();
    name.zip(HeaderValue::from_str(&text).ok())
        .ok_or_else(|| "contains characters that are invalid in a header".to_owned())
}

/// Returns a percent-encoded value, or the percent-encoded values of a list, joined with a separator.
fn joined(value: &RawValue, separator: &str) -> Result<String, String> {
    if !is_list(value) {
        return scalar(value).map(|text| encoded(&text).into_owned());
    }
    let values = scalars(value)?;
    Ok(values.iter().map(|text| encoded(text)).collect::<Vec<_>>().join(separator))
}

fn scalars(list: &RawValue) -> Result<Vec<String>, String> {
    let values: Vec<Box<RawValue>> = parsed(list)?;
    values.iter().map(|value| scalar(value)).collect()
}

/// Returns the text of a string, or the JSON text of a number or a Boolean. The error completes a sentence that begins
/// with the argument's name.
fn scalar(value: &RawValue) -> Result<String, String> {
    match value.get().as_bytes().first() {
        Some(b'"') => parsed(value),
        Some(b'[' | b'{') | None => Err("contains a list or object, which this parameter does not support".to_owned()),
        Some(b'n') => Err("contains `null`, which this parameter does not support".to_owned()),
        Some(_) => Ok(value.get().to_owned()),
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: &RawValue) -> Result<T, String> {
    serde_json::from_str(value.get()).map_err(|error| format!("is invalid: {error}"))
}

fn is_list(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ENCODED).into()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::mcp::upstream::openapi::{OpenApiDocument, operation::OperationTool};

    /// Returns the only operation of a document with this path, these parameters and this body.
    fn operation(path: &str, parameters: Value, body: Option<Value>) -> Operation {
        let mut operation = json!({ "parameters": parameters });
        if let Some(schema) = body {
            operation["requestBody"] = json!({ "content": { "application/json": { "schema": schema } } });
        }
        let text = json!({ "openapi": "3.1.0", "paths": { path: { "post": operation } } }).to_string();
        let document = OpenApiDocument::parse(text.as_bytes()).unwrap();
        let entry = document.operations().next().unwrap();
        OperationTool::read(&document, entry, &HeaderMap::new()).unwrap().operation
    }

    fn parameter(name: &str, place: &str, more: Value) -> Value {
        let mut parameter = json!({ "name": name, "in": place, "schema": {} });
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parameter
    }

    fn url(operation: &Operation, arguments: &str) -> Result<String, String> {
        operation.request("http://x/v1", arguments).map(|request| request.url.to_string())
    }

    #[test]
    fn path_parameters_stay_within_their_segment() {
        let pet = operation("/pets/{id}/toys", json!([parameter("id", "path", json!({}))]), None);
        for (id, segment) in [
            ("\"a\"", "a"),
            ("7", "7"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("[1, \"a,b\"]", "1,a%2Cb"),
            ("\"a/../b?c#d%2f\\\\é \\u0000\"", "a%2F..%2Fb%3Fc%23d%252f%5C%C3%A9%20%00"),
            ("\"...\"", "..."),
            ("\"%2e\"", "%252e"),
        ] {
            assert_eq!(url(&pet, &format!(r#"{{"id": {id}}}"#)).unwrap(), format!("http://x/v1/pets/{segment}/toys"));
        }
        for (id, expected) in [
            ("\"\"", "`id` is empty"),
            ("[]", "`id` is empty"),
            ("\".\"", "segment `.` or `..`"),
            ("\"..\"", "segment `.` or `..`"),
            ("{}", "`id` contains a list or object"),
            ("[[1]]", "`id` contains a list or object"),
            ("null", "`id` contains `null`"),
        ] {
            let error = url(&pet, &format!(r#"{{"id": {id}}}"#)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(url(&pet, "{}").unwrap_err(), "the argument `id` is missing");
        assert_eq!(url(&pet, r#"{"id": 1, "x\n": 1}"#).unwrap_err(), "unknown argument `x\\n`");
        // The template and the argument together form a dot segment.
        let dots = operation("/{id}%2E", json!([parameter("id", "path", json!({}))]), None);
        assert!(url(&dots, r#"{"id": "."}"#).unwrap_err().contains("segment `.` or `..`"));
    }

    #[test]
    fn query_parameters_have_the_style_of_the_document() {
        let style = |style: &str, explode: bool| json!({ "style": style, "explode": explode });
        let find = operation(
            "/find",
            json!([
                parameter("a b", "query", json!({})),
                parameter("comma", "query", style("form", false)),
                parameter("space", "query", json!({ "style": "spaceDelimited" })),
                parameter("pipe", "query", style("pipeDelimited", false)),
                parameter("deep", "query", style("deepObject", true)),
                parameter("odd", "query", json!({ "style": "tabDelimited" })),
            ]),
            None,
        );
        for (arguments, query) in [
            (r#"{}"#, ""),
            (r#"{"a b": "x&y=é"}"#, "?a%20b=x%26y%3D%C3%A9"),
            (r#"{"a b": [1, true, "z"]}"#, "?a%20b=1&a%20b=true&a%20b=z"),
            (r#"{"a b": [], "comma": null}"#, ""),
            (r#"{"comma": ["1,2", 3], "pipe": [1, 2], "space": [1, 2]}"#, "?comma=1%2C2,3&pipe=1%7C2&space=1%202"),
            (r#"{"deep": {"x": 1, "y]": "z"}}"#, "?deep%5Bx%5D=1&deep%5By%5D%5D=z"),
        ] {
            assert_eq!(url(&find, arguments).unwrap(), format!("http://x/v1/find{query}"));
        }
        for (arguments, expected) in [
            (r#"{"a b": {"x": 1}}"#, "`a b` contains a list or object"),
            (r#"{"deep": {"x": [1]}}"#, "`deep` contains a list or object"),
            (r#"{"odd": 1}"#, "unknown argument `odd`"),
            (&*format!(r#"{{"comma": "{}"}}"#, "x".repeat(9_000)), "longer than 8192 bytes"),
            (&*format!(r#"{{"a b": [{}0]}}"#, "0,".repeat(9_000)), "longer than 8192 bytes"),
        ] {
            let error = url(&find, arguments).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn names_of_headers_are_not_case_sensitive() {
        let named = |place: &str| {
            let parameters = ["x-id", "X-Id", "y", "X-ID"].map(|name| parameter(name, place, json!({})));
            operation("/find", json!(parameters), None)
        };
        let find = named("header");
        assert_eq!(find.parameters.keys().collect::<Vec<_>>(), ["X-ID", "y"], "the last one applies");
        let request = find.request("http://x", r#"{"X-ID": 1, "y": 2}"#).unwrap();
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x-id", "y"]);
        assert_eq!(named("query").parameters.len(), 4);
    }

    #[test]
    fn body_and_headers_are_sent_as_given() {
        let send = operation(
            "/send",
            json!([
                parameter("X-Id", "header", json!({})),
                parameter("body", "query", json!({})),
                parameter("Authorization", "header", json!({ "required": true })),
                parameter("Host", "header", json!({})),
                parameter("Expect", "header", json!({})),
                parameter("TE", "header", json!({})),
                parameter("session", "cookie", json!({})),
            ]),
            Some(json!({})),
        );
        let names: Vec<&String> = send.parameters.keys().collect();
        assert_eq!(names, ["X-Id", "query_body"]);
        let arguments = r#"{"X-Id": ["a", 1], "query_body": 2, "body": {"b": 1.50, "a": 12345678901234567890123}}"#;
        let request = send.request("http://x/v1", arguments).unwrap();
        assert_eq!(request.url.as_str(), "http://x/v1/send?body=2");
        assert_eq!(request.headers, [(HeaderName::from_static("x-id"), HeaderValue::from_static("a,1"))]);
        assert_eq!(request.body.unwrap(), r#"{"b": 1.50, "a": 12345678901234567890123}"#);
        assert_eq!(send.request("http://x/v1", r#"{"body": null}"#).unwrap().body, None);
        for value in [r#""a\r\nb: c""#, r#""\u0000""#] {
            let error = send.request("http://x", &format!(r#"{{"X-Id": {value}}}"#)).unwrap_err();
            assert!(error.contains("`X-Id` contains characters"), "{error}");
        }
    }
}
