//! Conversion of OpenAPI schemas to JSON Schemas without references to the document, within limits.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{OpenApiDocument, summary};

/// Maximum size of the converted schemas of an operation's arguments or of its result, in bytes. Together with the
/// names and descriptions of the parameters, they usually fit into the 64 KiB of a tool's schema.
const MAX_BYTES: usize = 48 << 10;

/// Maximum number of converted schemas. The engine accepts 1,000, including the schema of all arguments.
const MAX_SCHEMAS: usize = 999;

/// Maximum length of a description within a schema, in characters.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Maximum length of the name of a referenced schema, in characters.
const MAX_NAME_CHARS: usize = 64;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// The schemas exceed [`MAX_BYTES`] or [`MAX_SCHEMAS`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// The direction of the values that a schema describes.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    /// Values for the API, which have no properties with `readOnly`.
    Request,
    /// Values from the API, which have no properties with `writeOnly`.
    Response,
}

/// A conversion of the schemas of one operation. Referenced schemas become entries of `$defs`, once each, so that
/// cycles are possible.
pub(super) struct Conversion<'a> {
    document: &'a OpenApiDocument,
    /// The keyword that marks properties to omit in this direction.
    omitted: &'static str,
    bytes_left: usize,
    schemas_left: usize,
    /// The names in `$defs`, by reference.
    names: BTreeMap<&'a str, String>,
    /// Referenced schemas that are not yet converted.
    pending: Vec<(String, &'a Value)>,
}

impl<'a> Conversion<'a> {
    pub(super) fn new(document: &'a OpenApiDocument, direction: Direction) -> Self {
        let omitted = match direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        Self {
            document,
            omitted,
            bytes_left: MAX_BYTES,
            schemas_left: MAX_SCHEMAS,
            names: BTreeMap::new(),
            pending: Vec::new(),
        }
    }

    /// Returns the value of `$defs` for all converted schemas.
    pub(super) fn finish(mut self) -> Result<Map<String, Value>, TooLarge> {
        let mut definitions = Map::new();
        while let Some((name, schema)) = self.pending.pop() {
            let converted = self.convert(schema)?;
            definitions.insert(name, converted);
        }
        Ok(definitions)
    }

    /// Converts a schema to one that accepts at least the same values. Drops references to other documents, and regular
    /// expressions, because the engine does not support all of them. A converted part can therefore accept more values.
    /// With such a part, `not`, `if` and `oneOf` could accept fewer values, so `not` and `if` are dropped, and `oneOf`
    /// becomes `anyOf`.
    pub(super) fn convert(&mut self, schema: &'a Value) -> Result<Value, TooLarge> {
        self.schemas_left = self.schemas_left.checked_sub(1).ok_or(TooLarge)?;
        self.take(2)?;
        let Value::Object(keywords) = schema else {
            return Ok(if schema.is_boolean() { schema.clone() } else { json!({}) });
        };
        let mut converted = Map::new();
        if let Some(reference) = keywords.get("$ref") {
            let Some(name) = reference.as_str().and_then(|reference| self.name(reference)) else {
                return Ok(json!({}));
            };
            self.take(name.len() + 18)?;
            converted.insert("$ref".to_owned(), Value::String(format!("#/$defs/{name}")));
            if self.document.is_3_0 {
                return Ok(Value::Object(converted));
            }
        }
        for (keyword, value) in keywords {
            // Dropped parts count too, because visiting them takes time.
            self.take(1)?;
            if let Some(value) = self.keyword(keywords, keyword, value)? {
                self.take(keyword.len() + 4)?;
                let keyword = if keyword == "oneOf" { "anyOf" } else { keyword };
                converted.insert(keyword.to_owned(), value);
            }
        }
        Ok(modernized(converted, keywords))
    }

    /// Converts the value of a keyword. Returns `None` if the keyword is dropped.
    fn keyword(
        &mut self,
        keywords: &'a Map<String, Value>,
        keyword: &str,
        value: &'a Value,
    ) -> Result<Option<Value>, TooLarge> {
        Ok(Some(match (keyword, value) {
            ("properties", Value::Object(schemas)) => {
                let mut members = Map::new();
                for (name, schema) in schemas {
                    self.take(1)?;
                    if !self.is_omitted(schema) {
                        self.take(name.len() + 4)?;
                        members.insert(name.clone(), self.convert(schema)?);
                    }
                }
                Value::Object(members)
            }
            // Dropped, because this schema applies only to properties that no dropped regular expression matches.
            ("additionalProperties", _) if keywords.contains_key("patternProperties") => return Ok(None),
            ("additionalProperties" | "items" | "contains" | "propertyNames", Value::Object(_) | Value::Bool(_)) => {
                self.convert(value)?
            }
            // `oneOf` would replace the converted `anyOf`.
            ("oneOf", _) if keywords.contains_key("anyOf") => return Ok(None),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) if !schemas.is_empty() => {
                schemas.iter().map(|schema| self.convert(schema)).collect::<Result<_, _>>()?
            }
            ("required", Value::Array(names)) => {
                let properties = keywords.get("properties");
                let mut required = Vec::new();
                for name in names {
                    self.take(1)?;
                    let property = name.as_str().and_then(|name| properties?.get(name));
                    if name.is_string() && !property.is_some_and(|property| self.is_omitted(property)) {
                        required.push(self.copied(name)?);
                    }
                }
                Value::Array(required)
            }
            ("type", Value::String(name)) if TYPES.contains(&&**name) => self.copied(value)?,
            ("type", Value::Array(names)) => {
                self.take(names.len())?;
                let is_known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                if names.is_empty() || !names.iter().all(is_known) {
                    return Ok(None);
                }
                self.copied(value)?
            }
            ("description", Value::String(text)) => {
                let text = summary(text, MAX_DESCRIPTION_CHARS);
                self.take(text.len())?;
                Value::String(text)
            }
            ("enum", Value::Array(values)) if !values.is_empty() => self.copied(value)?,
            ("uniqueItems", Value::Bool(_))
            | ("format", Value::String(_))
            | ("minimum" | "maximum" | "multipleOf", Value::Number(_))
            | ("exclusiveMinimum" | "exclusiveMaximum", Value::Number(_) | Value::Bool(_))
            | (
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties",
                Value::Number(_),
            )
            | ("const" | "default", _) => self.copied(value)?,
            _ => return Ok(None),
        }))
    }

    fn is_omitted(&self, property: &Value) -> bool {
        property.get(self.omitted) == Some(&Value::Bool(true))
    }

    /// Copies a value. Fails at the first part that exceeds the limit.
    fn copied(&mut self, value: &Value) -> Result<Value, TooLarge> {
        Ok(match value {
            Value::String(text) => {
                self.take(text.len() + 3)?;
                value.clone()
            }
            Value::Array(values) => {
                self.take(2)?;
                values.iter().map(|value| self.copied(value)).collect::<Result<_, _>>()?
            }
            Value::Object(members) => {
                self.take(2)?;
                let mut copy = Map::new();
                for (name, value) in members {
                    self.take(name.len() + 4)?;
                    copy.insert(name.clone(), self.copied(value)?);
                }
                Value::Object(copy)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.take(8)?;
                value.clone()
            }
        })
    }

    /// Returns the name in `$defs` of the schema at a reference, if the reference leads to a part of the document.
    fn name(&mut self, reference: &'a str) -> Option<String> {
        if let Some(name) = self.names.get(reference) {
            return Some(name.clone());
        }
        let schema = self.document.at(reference)?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = last.chars().take(MAX_NAME_CHARS).map(plain).collect();
        let is_used = self.names.values().any(|used| *used == name);
        let name = if is_used || name.is_empty() { format!("{name}-{}", self.names.len()) } else { name };
        self.names.insert(reference, name.clone());
        self.pending.push((name.clone(), schema));
        Some(name)
    }

    fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }
}

/// Replaces the keywords of OpenAPI 3.0 that differ from JSON Schema: `nullable`, and exclusive bounds as booleans.
fn modernized(mut schema: Map<String, Value>, original: &Map<String, Value>) -> Value {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => {
                schema.remove(exclusive);
                if let Some(value) = schema.remove(bound) {
                    schema.insert(exclusive.to_owned(), value);
                }
            }
            Some(Value::Bool(false)) => drop(schema.remove(exclusive)),
            _ => {}
        }
    }
    if original.get("nullable") != Some(&Value::Bool(true)) {
        return Value::Object(schema);
    }
    if let Some(name) = schema.get("type").and_then(Value::as_str) {
        let names = json!([name, "null"]);
        schema.insert("type".to_owned(), names);
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
        return Value::Object(schema);
    }
    if ["allOf", "anyOf"].iter().any(|keyword| schema.contains_key(*keyword)) {
        return json!({ "anyOf": [schema, { "type": "null" }] });
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(version: &str, schemas: Value, schema: Value) -> Result<Value, TooLarge> {
        let text = json!({ "openapi": version, "components": { "schemas": schemas }, "schema": schema }).to_string();
        let document = OpenApiDocument::parse(text.as_bytes()).unwrap();
        let mut conversion = Conversion::new(&document, Direction::Request);
        let schema = conversion.convert(document.at("#/schema").unwrap())?;
        let definitions = conversion.finish()?;
        Ok(json!([schema, definitions]))
    }

    #[test]
    fn openapi_keywords_become_json_schema() {
        for (schema, expected) in [
            (
                json!({ "type": "string", "nullable": true, "example": 1, "xml": {}, "title": "T" }),
                json!({ "type": ["string", "null"] }),
            ),
            (
                json!({ "type": "string", "enum": ["a"], "nullable": true }),
                json!({ "type": ["string", "null"], "enum": ["a", null] }),
            ),
            (json!({ "nullable": true, "allOf": [{}] }), json!({ "anyOf": [{ "allOf": [{}] }, { "type": "null" }] })),
            (json!({ "minimum": 1, "exclusiveMinimum": true }), json!({ "exclusiveMinimum": 1 })),
            (json!({ "maximum": 1, "exclusiveMaximum": false }), json!({ "maximum": 1 })),
            (json!({ "type": "file", "pattern": "(?=x)", "$id": "x", "discriminator": {} }), json!({})),
            (json!({ "type": ["object", 7], "anyOf": [], "enum": [], "items": [1] }), json!({})),
            (json!({ "not": { "pattern": "x" }, "if": {}, "unevaluatedProperties": false }), json!({})),
            (json!({ "oneOf": [{ "pattern": "x" }, true] }), json!({ "anyOf": [{}, true] })),
            (json!({ "oneOf": [true], "anyOf": [false] }), json!({ "anyOf": [false] })),
            (json!({ "patternProperties": { "^x": {} }, "additionalProperties": false }), json!({})),
            (
                json!({ "properties": { "id": { "readOnly": true }, "$ref": { "type": "string" } }, "required": ["id", "$ref", 1] }),
                json!({ "properties": { "$ref": { "type": "string" } }, "required": ["$ref"] }),
            ),
            (json!({ "description": "a\n b\u{1b}[2J" }), json!({ "description": "a b[2J" })),
            (json!([1]), json!({})),
            (json!(false), json!(false)),
        ] {
            assert_eq!(converted("3.0.0", json!({}), schema).unwrap(), json!([expected, {}]));
        }
    }

    #[test]
    fn references_become_definitions() {
        let schemas = json!({
            "Node": { "type": "object", "properties": { "next": { "$ref": "#/components/schemas/Node" } } },
            "A b": { "type": "string" },
            "A_b": { "type": "integer" },
            "Loop": { "$ref": "#/components/schemas/Loop" },
        });
        let of = |version: &str, reference: &str| {
            converted(version, schemas.clone(), json!({ "$ref": reference, "description": "d" })).unwrap()
        };
        assert_eq!(
            of("3.0.0", "#/components/schemas/Node"),
            json!([
                { "$ref": "#/$defs/Node" },
                { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } },
            ])
        );
        assert_eq!(
            of("3.1.0", "#/components/schemas/A%20b")[0],
            json!({ "$ref": "#/$defs/A_20b", "description": "d" })
        );
        assert_eq!(of("3.0.0", "#/components/schemas/Loop")[1], json!({ "Loop": { "$ref": "#/$defs/Loop" } }));
        for reference in ["#/missing", "other.json", "https://x.test/a.json#/b"] {
            assert_eq!(of("3.0.0", reference), json!([{}, {}]));
        }
        let both = json!({ "anyOf": [{ "$ref": "#/components/schemas/A b" }, { "$ref": "#/components/schemas/A_b" }] });
        let both = converted("3.0.0", schemas, both).unwrap();
        assert_eq!(both[0], json!({ "anyOf": [{ "$ref": "#/$defs/A_b" }, { "$ref": "#/$defs/A_b-1" }] }));
        assert_eq!(both[1], json!({ "A_b": { "type": "string" }, "A_b-1": { "type": "integer" } }));
    }

    #[test]
    fn size_and_number_of_schemas_are_limited() {
        let values = |count: usize| json!({ "enum": vec![json!("x".repeat(1 << 10)); count] });
        assert!(converted("3.0.0", json!({}), values(47)).is_ok());
        assert_eq!(converted("3.0.0", json!({}), values(48)), Err(TooLarge));
        let lists = |count: usize| json!({ "anyOf": vec![json!({}); count] });
        assert!(converted("3.0.0", json!({}), lists(MAX_SCHEMAS - 1)).is_ok());
        assert_eq!(converted("3.0.0", json!({}), lists(MAX_SCHEMAS)), Err(TooLarge));
        // Each schema refers twice to the next. Without `$defs`, the result would have 2^60 schemas.
        let doubling: Map<String, Value> = (0..60)
            .map(|index| {
                let next = json!({ "$ref": format!("#/components/schemas/s{}", index + 1) });
                (format!("s{index}"), json!({ "anyOf": [next, next] }))
            })
            .collect();
        let doubled = converted("3.0.0", json!(doubling), json!({ "$ref": "#/components/schemas/s0" })).unwrap();
        assert_eq!(doubled[1].as_object().unwrap().len(), 60);
    }
}
