//! An operation of a document: its arguments, the parts of its requests, and its schemas.

use std::collections::BTreeMap;

use glovebox::is_hidden;
use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Map, Value, json};

use super::{
    OpenApiDocument,
    document::{OperationEntry, TemplatePart, template},
    schema::{Conversion, Direction, TooLarge},
    shown, summary,
};
use crate::mcp::upstream::endpoint;

/// Maximum number of parameters of an operation. The engine accepts a limited number of schemas for each tool.
const MAX_PARAMETERS: usize = 100;

/// Maximum length of an operation's ID or a parameter's name in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Maximum length of an operation's description in characters.
const MAX_DESCRIPTION_CHARS: usize = 500;

/// The argument for the body of a request.
pub(super) const BODY: &str = "body";

/// Header parameters that OpenAPI ignores.
const IGNORED_HEADERS: [&str; 3] = ["accept", "authorization", "content-type"];

/// Types of text that do not begin with `text/`.
const TEXTS: [&str; 5] =
    ["application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/x-ndjson"];

/// An operation that scripts can call.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: Vec<PathPart>,
    /// The parameters, by the name of their argument.
    pub(super) parameters: BTreeMap<String, Parameter>,
    pub(super) body: Option<JsonBody>,
}

#[derive(Debug)]
pub(super) enum PathPart {
    Text(String),
    /// The argument with this name.
    Argument(String),
}

#[derive(Debug)]
pub(super) struct Parameter {
    /// The name in the query, or the name of the header.
    pub(super) name: String,
    pub(super) place: ParameterLocation,
    pub(super) is_required: bool,
}

/// The part of the request that contains a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterLocation {
    Path,
    Query(QueryStyle),
    Header,
}

/// The notation of lists and objects in the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryStyle {
    /// `a=1&a=2`
    Repeated,
    /// `a=1,2`. Contains the separator as it appears in the URL, for example `%20`.
    Joined(&'static str),
    /// `a[x]=1&a[y]=2`
    Deep,
}

#[derive(Debug)]
pub(super) struct JsonBody {
    pub(super) media_type: HeaderValue,
    pub(super) is_required: bool,
}

/// An operation with the definition of its tool.
#[derive(Debug)]
pub(super) struct OperationTool {
    pub(super) operation: Operation,
    pub(super) description: String,
    pub(super) input: Map<String, Value>,
    /// The schema of the result. `None` if the document has none, or if it is too large.
    pub(super) output: Option<Map<String, Value>>,
}

/// A parameter in the document.
struct ParameterEntry<'a> {
    name: &'a str,
    place: &'a str,
    entry: &'a Map<String, Value>,
}

/// Returns the operation's name in `tools` and `approve`: its ID, or its method and path if it has no ID or the ID is
/// too long.
pub(super) fn name(entry: OperationEntry<'_>) -> String {
    if let Some(id) = entry.operation.get("operationId").and_then(Value::as_str)
        && (1..=MAX_NAME_BYTES).contains(&id.len())
    {
        return id.to_owned();
    }
    method_and_path(entry)
}

/// Returns a name such as `get_pets_id` for `GET /pets/{id}`.
fn method_and_path(entry: OperationEntry<'_>) -> String {
    let path: String = entry.path.chars().take(128).collect();
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(entry.method).chain(words).collect::<Vec<_>>().join("_")
}

impl OperationTool {
    /// Reads an operation. `preset` contains the headers that the configuration sets. The error completes a sentence
    /// that begins with the operation's name.
    pub(super) fn read(
        document: &OpenApiDocument,
        entry: OperationEntry<'_>,
        preset: &HeaderMap,
    ) -> Result<Self, String> {
        if !entry.is_supported {
            return Err(format!("uses the method `{}`, which is not supported", entry.method));
        }
        if document.has_other_servers(entry) {
            return Err("has its own `servers`".to_owned());
        }
        let method = Method::from_bytes(entry.method.to_ascii_uppercase().as_bytes())
            .map_err(|_| "has an invalid method".to_owned())?;
        let body_schema = body(document, entry)?;
        let mut schemas = Vec::new();
        let mut parameters: BTreeMap<String, Parameter> = BTreeMap::new();
        for parameter in parameter_entries(document, entry)? {
            let is_required = parameter.place == "path" || parameter.entry.get("required") == Some(&Value::Bool(true));
            let place = match parameter.place(preset) {
                Ok(Some(place)) => place,
                Ok(None) => continue,
                Err(reason) if is_required => return Err(reason),
                Err(_) => continue,
            };
            let is_taken = |name: &str| parameters.contains_key(name) || (name == BODY && body_schema.is_some());
            let mut argument = parameter.name.to_owned();
            if is_taken(&argument) {
                argument = format!("{}_{}", parameter.place, parameter.name);
            }
            if is_taken(&argument) {
                return Err(format!("has several parameters with the name `{}`", shown(parameter.name)));
            }
            schemas.push((argument.clone(), is_required, parameter.entry));
            parameters.insert(argument, Parameter { name: parameter.name.to_owned(), place, is_required });
        }
        let path = path(entry.path, &parameters)?;
        let used = |name: &String| path.iter().any(|part| matches!(part, PathPart::Argument(used) if used == name));
        parameters.retain(|name, parameter| parameter.place != ParameterLocation::Path || used(name));
        schemas.retain(|(name, ..)| parameters.contains_key(name));
        let (body, body_entry) = body_schema.unzip();
        if let (Some(body), Some(entry)) = (&body, body_entry) {
            schemas.push((BODY.to_owned(), body.is_required, entry));
        }
        // If the schemas are too large, any values are accepted, and the API checks them.
        let input = input(document, &schemas, true).or_else(|TooLarge| input(document, &schemas, false));
        let input = input.map_err(|TooLarge| "has too many arguments".to_owned())?;
        Ok(Self {
            operation: Operation { method, path, parameters, body },
            description: description(entry.operation),
            input,
            output: output(document, entry.operation)?,
        })
    }
}

impl ParameterEntry<'_> {
    /// Returns `true` if both are the same parameter. Names of headers are not case-sensitive.
    fn is_same(&self, other: &Self) -> bool {
        self.place == other.place
            && match self.place {
                "header" => self.name.eq_ignore_ascii_case(other.name),
                _ => self.name == other.name,
            }
    }

    /// Returns the location of the parameter. `Ok(None)` means that the parameter has no effect. The error completes a
    /// sentence that begins with the operation's name.
    fn place(&self, preset: &HeaderMap) -> Result<Option<ParameterLocation>, String> {
        let Self { name, place, entry } = self;
        let wrong = |reason: &str| Err(format!("has the parameter `{}` {reason}", shown(name)));
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(format!("has a parameter whose name is empty or longer than {MAX_NAME_BYTES} bytes"));
        }
        if entry.contains_key("content") {
            return wrong("with `content`, which is not supported");
        }
        let style = entry.get("style").and_then(Value::as_str);
        let unsupported_style = || wrong("with an unsupported `style`");
        match *place {
            "path" => match style {
                None | Some("simple") => Ok(Some(ParameterLocation::Path)),
                Some(_) => unsupported_style(),
            },
            "query" => {
                let is_form = style.is_none_or(|style| style == "form");
                let is_exploded = entry.get("explode").and_then(Value::as_bool).unwrap_or(is_form);
                let style = match style {
                    None | Some("form") if !is_exploded => QueryStyle::Joined(","),
                    Some("spaceDelimited") if !is_exploded => QueryStyle::Joined("%20"),
                    Some("pipeDelimited") if !is_exploded => QueryStyle::Joined("%7C"),
                    None | Some("form" | "spaceDelimited" | "pipeDelimited") => QueryStyle::Repeated,
                    Some("deepObject") => QueryStyle::Deep,
                    Some(_) => return unsupported_style(),
                };
                Ok(Some(ParameterLocation::Query(style)))
            }
            "header" => {
                let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                    return wrong("with an invalid header name");
                };
                if IGNORED_HEADERS.contains(&header.as_str()) || preset.contains_key(&header) {
                    return Ok(None);
                }
                if endpoint::is_reserved(&header) || header == reqwest::header::COOKIE {
                    return wrong("in a reserved header");
                }
                Ok(Some(ParameterLocation::Header))
            }
            "cookie" => wrong("in a cookie, which is not supported"),
            _ => wrong("with an unsupported `in`"),
        }
    }
}

/// Returns the parameters of a path and an operation. A parameter of the operation replaces the same parameter of the
/// path.
fn parameter_entries<'a>(
    document: &'a OpenApiDocument,
    entry: OperationEntry<'a>,
) -> Result<Vec<ParameterEntry<'a>>, String> {
    let mut all: Vec<ParameterEntry<'a>> = Vec::new();
    for of in [entry.item, entry.operation] {
        let parameters = of.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if parameters.len() > MAX_PARAMETERS {
            return Err(format!("has more than {MAX_PARAMETERS} parameters"));
        }
        for parameter in parameters {
            let read = || {
                let entry = document.resolved(parameter)?.as_object()?;
                Some(ParameterEntry { name: entry.get("name")?.as_str()?, place: entry.get("in")?.as_str()?, entry })
            };
            let new = read().ok_or("has a parameter without a `name` or `in`, or with an unresolved `$ref`")?;
            // Longer names are invalid, and comparing many of them would be slow.
            let is_short = new.name.len() <= MAX_NAME_BYTES && new.place.len() <= MAX_NAME_BYTES;
            match all.iter_mut().find(|known| is_short && known.is_same(&new)) {
                Some(known) => *known = new,
                None => all.push(new),
            }
        }
    }
    if all.len() > MAX_PARAMETERS { Err(format!("has more than {MAX_PARAMETERS} parameters")) } else { Ok(all) }
}

/// Splits a path, and replaces the names of parameters with the names of arguments.
fn path(text: &str, parameters: &BTreeMap<String, Parameter>) -> Result<Vec<PathPart>, String> {
    let invalid = |c: char| is_hidden(c) || c.is_whitespace() || matches!(c, '\\' | '?' | '#');
    let parts = template(text).filter(|_| text.starts_with('/') && !text.contains(invalid));
    let parts = parts.ok_or_else(|| "has an invalid path".to_owned())?;
    let part = |part| match part {
        TemplatePart::Text(text) => Ok(PathPart::Text(text.to_owned())),
        TemplatePart::Name(name) => {
            let is_named = |parameter: &Parameter| parameter.place == ParameterLocation::Path && parameter.name == name;
            match parameters.iter().find(|(_, parameter)| is_named(parameter)) {
                Some((argument, _)) => Ok(PathPart::Argument(argument.clone())),
                None => Err(format!("has no parameter for `{{{}}}` in its path", shown(name))),
            }
        }
    };
    parts.into_iter().map(part).collect()
}

/// A body, and its entry in the document, which contains the schema.
type BodyEntry<'a> = (JsonBody, &'a Map<String, Value>);

/// Returns the body of an operation's requests.
fn body<'a>(document: &'a OpenApiDocument, entry: OperationEntry<'a>) -> Result<Option<BodyEntry<'a>>, String> {
    let Some(body) = entry.operation.get("requestBody") else { return Ok(None) };
    let body = document.resolved(body).ok_or("has a body with an unresolved `$ref`")?;
    let content = body.get("content").and_then(Value::as_object);
    let json = content.and_then(|content| content.iter().find(|(kind, _)| is_json(kind)));
    let Some((kind, schema)) = json else {
        let kind = content.and_then(|content| content.keys().next()).map_or("", String::as_str);
        return Err(format!("has a body of type `{}`; only JSON is supported", shown(kind)));
    };
    let kind = essence(kind);
    let media_type = if kind.contains('*') { "application/json" } else { kind };
    let media_type =
        HeaderValue::from_str(media_type).map_err(|_| "has a body with an invalid media type".to_owned())?;
    let schema = schema.as_object().ok_or("has a body without a schema")?;
    let is_required = body.get("required") == Some(&Value::Bool(true));
    Ok(Some((JsonBody { media_type, is_required }, schema)))
}

/// Returns the schema of the arguments. `with_types` includes their types.
fn input(
    document: &OpenApiDocument,
    entries: &[(String, bool, &Map<String, Value>)],
    with_types: bool,
) -> Result<Map<String, Value>, TooLarge> {
    let mut conversion = Conversion::new(document, Direction::Request);
    let mut properties = Map::new();
    for (name, _, entry) in entries {
        let schema = match entry.get("schema").filter(|_| with_types) {
            Some(schema) => conversion.convert(schema)?,
            None => json!({}),
        };
        properties.insert(name.clone(), described(schema, entry.get("description").filter(|_| with_types)));
    }
    let required: Vec<&String> =
        entries.iter().filter(|(_, is_required, _)| *is_required).map(|(name, ..)| name).collect();
    let mut input = Map::new();
    input.insert("type".to_owned(), json!("object"));
    input.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        input.insert("required".to_owned(), json!(required));
    }
    input.insert("additionalProperties".to_owned(), Value::Bool(false));
    let definitions = conversion.finish()?;
    if !definitions.is_empty() {
        input.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Ok(input)
}

/// Adds the description of a parameter to its schema, unless the schema has one.
fn described(mut schema: Value, description: Option<&Value>) -> Value {
    if let (Some(schema), Some(text)) = (schema.as_object_mut(), description.and_then(Value::as_str)) {
        schema.entry("description").or_insert_with(|| Value::String(summary(text, 200)));
    }
    schema
}

/// Returns the schema of the results. Fails if no successful response has a supported type.
fn output(document: &OpenApiDocument, operation: &Map<String, Value>) -> Result<Option<Map<String, Value>>, String> {
    let Some(responses) = operation.get("responses").and_then(Value::as_object) else { return Ok(None) };
    let mut conversion = Conversion::new(document, Direction::Response);
    let mut schemas = Vec::new();
    let (mut is_known, mut unsupported) = (true, None);
    for status in (200..300).map(|status| status.to_string()).chain(["2XX".to_owned()]) {
        let Some(response) = responses.get(&status).and_then(|response| document.resolved(response)) else { continue };
        let content = response.get("content").and_then(Value::as_object).filter(|content| !content.is_empty());
        let Some(content) = content else {
            schemas.push(json!({ "type": "null" }));
            continue;
        };
        if let Some((_, json)) = content.iter().find(|(kind, _)| is_json(kind)) {
            match json.get("schema").map(|schema| conversion.convert(schema)) {
                Some(Ok(schema)) => schemas.push(schema),
                _ => is_known = false,
            }
        } else if content.keys().any(|kind| is_text(kind)) {
            schemas.push(json!({ "type": "string" }));
        } else {
            unsupported = unsupported.or(content.keys().next());
        }
    }
    if let Some(kind) = unsupported {
        if schemas.is_empty() && is_known {
            return Err(format!("answers with type `{}`; only JSON and text are supported", shown(kind)));
        }
        is_known = false;
    }
    let schema = match schemas.pop() {
        Some(only) if is_known && schemas.is_empty() => only,
        Some(last) if is_known => {
            schemas.push(last);
            json!({ "anyOf": schemas })
        }
        _ => return Ok(None),
    };
    let (Value::Object(mut schema), Ok(definitions)) = (schema, conversion.finish()) else { return Ok(None) };
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Ok(Some(schema))
}

/// Returns the summary and the description of an operation on one line.
fn description(operation: &Map<String, Value>) -> String {
    let parts = ["summary", "description"].map(|key| {
        let text = operation.get(key).and_then(Value::as_str).unwrap_or_default();
        summary(text, MAX_DESCRIPTION_CHARS)
    });
    summary(&parts.join(" "), MAX_DESCRIPTION_CHARS)
}

/// Returns a media type without its parameters.
fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Returns `true` for JSON, including types such as `application/problem+json`, and for ranges that include JSON.
pub(super) fn is_json(kind: &str) -> bool {
    let kind = essence(kind).to_ascii_lowercase();
    matches!(&*kind, "application/json" | "text/json" | "*/*" | "application/*")
        || (kind.contains('/') && kind.ends_with("+json"))
}

/// Returns `true` for text other than JSON.
fn is_text(kind: &str) -> bool {
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
