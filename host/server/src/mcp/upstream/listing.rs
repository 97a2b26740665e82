//! The listing of tools for a model: the signature and a short description of each tool, or only names.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Maximum length of a listing in bytes. Every conversation contains the listing, which costs at most 1,000 tokens if a
/// token is 3.5 bytes long on average. In names that consist of words, a token of `o200k_base` is about 6 bytes long.
const MAX_LISTING_BYTES: usize = 3_500;

/// Maximum number of names in a listing. Short names with numbers, such as `pets_do_123`, take four tokens each, of less
/// than 3.5 bytes.
const MAX_NAMES: usize = 200;

/// Maximum length in bytes of the note at the end of a listing that omits names.
const MAX_END_BYTES: usize = 90;

const INTRODUCTION: &str = "\
    Scripts may call these functions of the host. Call them from code, as often as needed, and print only what \
    matters: tools.name(argument=value) in Python, await tools.name({argument: value}) in JavaScript. A failure raises \
    tools.ToolError.\n";

/// The text before the names if the lines exceed [`MAX_LISTING_BYTES`].
const SEARCH: &str = "\
    tools.search(\"words\") in a script returns the name, description and signature of the functions that match best. \
    tools.describe(name) also returns the JSON Schema of the arguments.\n";

/// The name of the helper function that finds tools. If a tool has this name, the helper is unavailable.
const SEARCH_NAME: &str = "search";

/// Maximum length of a signature in bytes.
const MAX_SIGNATURE_BYTES: usize = 400;

/// Maximum length of a description in characters.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Maximum nesting depth of types. Deeper types are shown as `any` or `dict`.
const MAX_DEPTH: usize = 3;

/// Maximum number of arguments, object members or alternatives.
const MAX_PARTS: usize = 24;

/// A listing of the host functions that scripts can call, for a model's prompt.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    lines: Vec<String>,
    names: Vec<String>,
}

impl Listing {
    /// Adds a tool. `name` is its name in scripts; `input` and `output` are its JSON Schemas.
    pub fn add(&mut self, name: &str, description: &str, input: &Value, output: Option<&Value>) {
        let mut line = format!("tools.{}", signature(name, input, output));
        let description: String = description.split_whitespace().collect::<Vec<_>>().join(" ");
        if !description.is_empty() {
            let short: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
            let rest = if short.len() < description.len() { "…" } else { "" };
            let _ = write!(line, "  # {}{rest}", glovebox::escaped_text(&short));
        }
        self.lines.push(line);
        self.names.push(name.to_owned());
    }

    /// Appends the tools in another listing.
    pub fn extend(&mut self, other: &Self) {
        self.lines.extend_from_slice(&other.lines);
        self.names.extend_from_slice(&other.names);
    }

    /// Returns the listing as text of at most 3,500 bytes. If the signatures and descriptions of all tools do not fit,
    /// the text contains only names, at most 200 and as many as fit. It is empty if there are no tools.
    pub fn text(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let mut text = INTRODUCTION.to_owned();
        let lines_bytes: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        if text.len() + lines_bytes > MAX_LISTING_BYTES {
            self.write_names(&mut text);
            return text;
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Appends as many names as fit, and the number of omitted names.
    fn write_names(&self, text: &mut String) {
        let has_search = !self.names.iter().any(|name| name == SEARCH_NAME);
        if has_search {
            text.push_str(SEARCH);
        }
        text.push_str("Names:");
        let mut listed = 0;
        for name in self.names.iter().take(MAX_NAMES) {
            if text.len() + name.len() + 1 + MAX_END_BYTES > MAX_LISTING_BYTES {
                break;
            }
            let _ = write!(text, " {name}");
            listed += 1;
        }
        if listed < self.names.len() {
            let find = if has_search { "call tools.search(query)" } else { "call dir(tools) or Object.keys(tools)" };
            let _ = write!(text, " … {} more: {find} in the script", self.names.len() - listed);
        }
        text.push('\n');
    }
}

/// Formats a signature such as `name(a: str, b: int = None) -> list[str]`.
fn signature(name: &str, input: &Value, output: Option<&Value>) -> String {
    let returns = output.map(|output| kind(output, output, 0)).filter(|kind| kind != "any");
    let returns = returns.map(|kind| format!(" -> {kind}")).unwrap_or_default();
    let whole = format!("{name}({}){returns}", arguments(input));
    if whole.len() <= MAX_SIGNATURE_BYTES { whole } else { format!("{name}(…)") }
}

fn arguments(input: &Value) -> String {
    let none = Map::new();
    let properties = input.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required: Vec<&str> =
        input.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let needed = required.iter().filter_map(|name| Some((*name, properties.get(*name)?, true)));
    let others = properties.iter().filter(|(name, _)| !required.contains(&name.as_str()));
    let all = needed.chain(others.map(|(name, schema)| (name.as_str(), schema, false)));
    joined(all.map(|(name, schema, is_required)| {
        let default = if is_required { "" } else { " = None" };
        format!("{}: {}{default}", quoted(name), kind(schema, input, 0))
    }))
}

/// Joins the first [`MAX_PARTS`] parts.
fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = parts.take(MAX_PARTS + 1).collect();
    if parts.len() > MAX_PARTS {
        parts.truncate(MAX_PARTS);
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

/// Returns a plain identifier unchanged, and the first 64 characters of any other name as a JSON string.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && name.len() <= 64;
    if is_plain {
        return name.to_owned();
    }
    let short: String = name.chars().take(64).collect();
    Value::from(glovebox::escaped(&short).to_string()).to_string()
}

/// Returns the type that a schema describes, in Python notation.
fn kind(schema: &Value, root: &Value, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "any".to_owned();
    }
    if let Some(leads) = schema.get("$ref").and_then(Value::as_str) {
        let target = leads.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or_else(|| "any".to_owned(), |target| kind(target, root, depth + 1));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return alternatives(values.iter().map(literal));
    }
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    for name in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema.get(name).and_then(Value::as_array) {
            return alternatives(schemas.iter().map(|schema| kind(schema, root, depth + 1)));
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(name, schema, root, depth),
        Some(Value::Array(names)) => {
            alternatives(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, root, depth)))
        }
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value, root: &Value, depth: usize) -> String {
    match name {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("list[{}]", kind(items, root, depth + 1)),
            None => "list".to_owned(),
        },
        "object" => match schema.get("properties").and_then(Value::as_object) {
            Some(members) if !members.is_empty() && depth < MAX_DEPTH => {
                let member =
                    |(name, schema): (&String, &Value)| format!("{}: {}", quoted(name), kind(schema, root, depth + 1));
                format!("{{{}}}", joined(members.iter().map(member)))
            }
            _ => "dict".to_owned(),
        },
        _ => "any".to_owned(),
    }
}

fn alternatives(kinds: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for kind in kinds.take(MAX_PARTS) {
        if !distinct.contains(&kind) {
            distinct.push(kind);
        }
    }
    if distinct.is_empty() { "any".to_owned() } else { distinct.join(" | ") }
}

fn literal(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(64).collect();
    if short.len() < text.len() { "any".to_owned() } else { glovebox::escaped_text(&short).to_string() }
}

/// Returns `SERVER_TOOL`, with all characters other than ASCII letters and digits replaced by underscores.
pub(super) fn script_name(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{server}_{tool}").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{script_name, *};

    #[test]
    fn schema_becomes_a_signature() {
        let input = json!({
            "type": "object",
            "properties": {
                "city": { "type": "string" },
                "days": { "type": ["integer", "null"] },
                "units": { "enum": ["c", "f"] },
                "where": { "$ref": "#/$defs/Place" },
                "tags": { "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "number" }] } },
                "odd name": {},
            },
            "required": ["city", "where"],
            "$defs": { "Place": { "type": "object", "properties": { "x": { "type": "number" } } } },
        });
        let output = json!({ "type": "array", "items": { "type": "object" } });
        assert_eq!(
            signature("get", &input, Some(&output)),
            "get(city: str, where: {x: float}, days: int | None = None, \"odd name\": any = None, \
             tags: list[str | float] = None, units: \"c\" | \"f\" = None) -> list[dict]"
        );
        assert_eq!(signature("now", &json!({ "type": "object" }), None), "now()");
    }

    #[test]
    fn signature_of_a_hostile_schema_is_one_short_line() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..200 {
            deep = json!({ "type": "array", "items": deep });
        }
        let wide: Map<String, Value> =
            (0..10_000).map(|index| (format!("p{index}"), json!({ "type": "string" }))).collect();
        let endless = json!({ "properties": { "a": { "$ref": "#/properties/a" } } });
        for input in [
            json!({ "properties": { "a": deep } }),
            json!({ "properties": wide }),
            endless,
            json!({ "properties": { "a\nb": { "enum": ["x\n# y", "\u{202e}"] } } }),
            json!({ "properties": { "a": { "const": "z".repeat(100_000) } } }),
            json!({ "properties": 7, "required": "x" }),
            json!(null),
        ] {
            let text = signature("f", &input, Some(&input));
            assert!(text.len() <= MAX_SIGNATURE_BYTES && !text.contains(['\n', '\u{202e}']), "{text}");
        }
    }

    #[test]
    fn listing_describes_each_tool_on_one_line() {
        let mut listing = Listing::default();
        assert_eq!(listing.text(), "");
        listing.add("f0", "One.\n\n  Two. \u{1b}[2J", &json!({}), None);
        assert!(listing.text().contains("\ntools.f0()  # One. Two. \\u{1b}[2J\n"), "{}", listing.text());
    }

    #[test]
    fn listing_over_its_budget_contains_only_names() {
        let mut listing = Listing::default();
        listing.add("f0", "d", &json!({}), None);
        while listing.text().len() + 300 < MAX_LISTING_BYTES {
            listing.add(&format!("f{}", listing.names.len()), &"d".repeat(200), &json!({}), None);
        }
        let room = MAX_LISTING_BYTES - listing.text().len();
        // Returns the listing with an additional tool whose line has `bytes` bytes.
        let with_line = |bytes: usize| {
            let mut all = listing.clone();
            all.add(&"z".repeat(bytes - "tools.()\n".len()), "", &json!({}), None);
            all.text()
        };
        for (bytes, length) in [(room - 1, MAX_LISTING_BYTES - 1), (room, MAX_LISTING_BYTES)] {
            let text = with_line(bytes);
            assert_eq!(text.len(), length);
            assert!(text.contains("\ntools.f1()  # ddd") && !text.contains("tools.search"), "{text}");
        }
        let text = with_line(room + 1);
        assert!(text.len() < MAX_LISTING_BYTES && text.contains("\nNames: f0 f1 "), "{text}");
        assert!(text.contains("zzz") && text.contains("tools.search(") && !text.contains("tools.f1"), "{text}");
        assert!(!text.contains(" more: "), "{text}");
    }

    #[test]
    fn listing_of_a_thousand_tools_stays_within_its_budget() {
        let mut listing = Listing::default();
        for index in 0..1_000 {
            listing.add(&format!("server_do_{index}"), &"d".repeat(100_000), &json!({}), None);
        }
        let text = listing.text();
        assert!(text.len() <= MAX_LISTING_BYTES, "{}", text.len());
        let (names, end) = text.split_once("\nNames: ").unwrap().1.split_once(" … ").unwrap();
        let listed = names.split(' ').count();
        assert!(listed == MAX_NAMES && names.starts_with("server_do_0 server_do_1 "), "{text}");
        assert_eq!(end, format!("{} more: call tools.search(query) in the script\n", 1_000 - listed));

        let mut long = Listing::default();
        for index in 0..1_000 {
            long.add(&format!("server_list_entries_{index}"), "", &json!({}), None);
        }
        let text = long.text();
        assert!(text.len() <= MAX_LISTING_BYTES && text.len() > MAX_LISTING_BYTES - 200, "{}", text.len());

        listing.add(SEARCH_NAME, "A tool.", &json!({}), None);
        let text = listing.text();
        assert!(text.len() <= MAX_LISTING_BYTES && !text.contains("tools.search"), "{text}");
        assert!(text.ends_with(" more: call dir(tools) or Object.keys(tools) in the script\n"), "{text}");
    }

    #[test]
    fn tool_name_becomes_a_valid_identifier() {
        for (server, tool, name) in [
            ("weather", "get_forecast", "weather_get_forecast"),
            ("my-server", "files/read.text", "my_server_files_read_text"),
            ("ü", "x", "__x"),
            ("a b", "c\n", "a_b_c_"),
        ] {
            assert_eq!(script_name(server, tool), name);
        }
    }
}
