//! The types of a tool's arguments and result, from its JSON Schemas.

use std::{
    collections::{BTreeSet, HashMap},
    ptr,
};

use glovebox_core::tools::parameters;
use serde_json::{Map, Value};

use super::one_line;
use crate::Tool;

/// Maximum number of schemas and literals that are translated for one tool. A schema counts once for each reference to
/// it.
pub(super) const MAX_PARTS: usize = 2_000;

/// Maximum nesting depth of a type. The members of an object start at depth 0 again, because the object has its own
/// named type.
pub(super) const MAX_DEPTH: usize = 8;

/// Maximum number of object types of one tool.
pub(super) const MAX_OBJECTS: usize = 100;

/// Maximum number of members of an object type, and of arguments of a tool.
pub(super) const MAX_MEMBERS: usize = 100;

/// Maximum number of alternatives of a type.
pub(super) const MAX_ALTERNATIVES: usize = 32;

/// Maximum length of a literal as JSON, in characters.
pub(super) const MAX_LITERAL_CHARS: usize = 64;

/// Maximum length of a member's description in characters.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Maximum length of a member's name in characters. Members with longer names are omitted.
pub(super) const MAX_NAME_CHARS: usize = 64;

/// Maximum length of an object type's name in characters.
const MAX_TYPE_NAME_CHARS: usize = 100;

/// The schema of a member that is listed in `required` but not in `properties`.
static ANY: Value = Value::Null;

/// A type of JSON values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Any,
    String,
    Integer,
    Number,
    Boolean,
    Null,
    List(Box<Self>),
    /// An object with arbitrary names, and values of this type.
    Dictionary(Box<Self>),
    /// The object type at this index in [`ToolTypes::objects`].
    Object(usize),
    /// A union of strings, integers, booleans and `null`.
    Literals(Vec<Value>),
    Union(Vec<Self>),
}

/// A member of an object, or an argument of a tool.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) is_required: bool,
    /// The description on one line.
    pub(super) description: String,
    /// The default value, if it is a short scalar of the member's type.
    pub(super) default: Option<Value>,
}

/// The type of an object with known members.
#[derive(Debug)]
pub(super) struct ObjectType {
    /// An identifier that begins with the tool's name. Several types can share a name.
    pub(super) name: String,
    pub(super) members: Vec<Member>,
    /// `true` if the object can have additional members.
    pub(super) accepts_others: bool,
}

/// The types of a tool.
#[derive(Debug)]
pub(super) struct ToolTypes {
    /// The arguments, in the order of positional arguments.
    pub(super) arguments: ObjectType,
    pub(super) result: Type,
    /// The object types that the arguments and the result refer to.
    pub(super) objects: Vec<ObjectType>,
}

impl ToolTypes {
    /// Translates the schemas of a tool. Types over a limit become [`Type::Any`] or a dictionary.
    pub(super) fn of(tool: &Tool) -> Self {
        let mut builder = Builder {
            tool: &tool.name,
            root: &tool.schema,
            parts_left: MAX_PARTS,
            found: Vec::new(),
            index: HashMap::new(),
        };
        let mut arguments = builder.object(&tool.schema, tool.name.clone());
        arguments.name.push_str("_arguments");
        let mut objects = Vec::new();
        builder.build_objects(&mut objects);
        let mut result = Type::Any;
        if let Some(schema) = &tool.result_schema {
            builder.root = schema;
            result = builder.kind(schema, &prefixed_name(&tool.name, "result"), 0);
            builder.build_objects(&mut objects);
        }
        Self { arguments, result, objects }
    }

    /// Returns the types of a tool that accepts any arguments.
    pub(super) fn untyped(tool: &str) -> Self {
        let arguments =
            ObjectType { name: prefixed_name(tool, "arguments"), members: Vec::new(), accepts_others: true };
        Self { arguments, result: Type::Any, objects: Vec::new() }
    }
}

/// The translation of one tool's schemas. Object types are translated in a loop, so that recursion is limited by
/// [`MAX_DEPTH`] even if a schema refers to itself.
struct Builder<'a> {
    tool: &'a str,
    /// The schema within which references are resolved.
    root: &'a Value,
    parts_left: usize,
    /// The schemas of object types, with the types' names.
    found: Vec<(&'a Value, String)>,
    /// Indices in `found` by address, so that all references to a schema share one type.
    index: HashMap<*const Value, usize>,
}

impl<'a> Builder<'a> {
    /// Translates the object types that were found and not yet translated.
    fn build_objects(&mut self, objects: &mut Vec<ObjectType>) {
        while let Some((schema, name)) = self.found.get(objects.len()).cloned() {
            objects.push(self.object(schema, name));
        }
    }

    /// Translates the members of an object. `name` is the type's name, and the prefix of its members' types.
    fn object(&mut self, schema: &'a Value, name: String) -> ObjectType {
        let others = schema.get("additionalProperties");
        let names = parameters(schema);
        let is_closed = matches!(others, Some(Value::Bool(false)));
        let mut accepts_others = match others {
            Some(Value::Bool(true) | Value::Object(_)) => true,
            _ => names.is_empty() && !is_closed,
        };
        let mut members = Vec::new();
        if names.len() > MAX_MEMBERS {
            return ObjectType { name, members, accepts_others: true };
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let required: BTreeSet<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        for member in names {
            let about = properties.and_then(|properties| properties.get(member)).unwrap_or(&ANY);
            if about.as_bool() == Some(false) {
                continue;
            }
            if member.chars().nth(MAX_NAME_CHARS).is_some() {
                accepts_others = true;
                continue;
            }
            let is_required = required.contains(member);
            let description = about.get("description").and_then(Value::as_str).unwrap_or_default();
            members.push(Member {
                name: member.to_owned(),
                kind: self.kind(about, &prefixed_name(&name, member), 0),
                is_required,
                description: one_line(description, MAX_DESCRIPTION_CHARS),
                default: default(about).filter(|_| !is_required),
            });
        }
        ObjectType { name, members, accepts_others }
    }

    /// Translates a schema. `name` is the name of the type if it is an object type.
    fn kind(&mut self, schema: &'a Value, name: &str, depth: usize) -> Type {
        if depth > MAX_DEPTH || self.parts_left == 0 {
            return Type::Any;
        }
        self.parts_left -= 1;
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let root = self.root;
            let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            let name = prefixed_name(self.tool, reference.rsplit('/').next().unwrap_or_default());
            return target.map_or(Type::Any, |target| self.kind(target, &name, depth + 1));
        }
        if let Some(literals) = self.literals(schema) {
            return literals;
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(schemas) = schema.get(keyword).and_then(Value::as_array) else { continue };
            // Several schemas that all apply have no equivalent in Python.
            if schemas.len() > MAX_ALTERNATIVES || (keyword == "allOf" && schemas.len() != 1) {
                continue;
            }
            let kinds = schemas.iter().map(|schema| self.kind(schema, name, depth + 1)).collect();
            // If the alternatives have no type, for example because each contains only `required`, use the schema's
            // `type`.
            match union(kinds) {
                Type::Any => {}
                kind => return kind,
            }
        }
        match schema.get("type") {
            Some(Value::String(of)) => self.translate_type(of, schema, name, depth),
            Some(Value::Array(names)) if names.len() <= MAX_ALTERNATIVES => {
                let names = names.iter().filter_map(Value::as_str);
                let kinds = names.map(|of| self.translate_type(of, schema, name, depth)).collect();
                union(kinds)
            }
            None if schema.get("properties").is_some() => self.translate_type("object", schema, name, depth),
            None if schema.get("items").is_some() => self.translate_type("array", schema, name, depth),
            _ => Type::Any,
        }
    }

    /// Translates `enum` and `const`. Returns `None` if there are too many values, or values without a literal.
    fn literals(&mut self, schema: &Value) -> Option<Type> {
        let values = match schema.get("enum") {
            Some(values) => values.as_array()?.as_slice(),
            None => std::slice::from_ref(schema.get("const")?),
        };
        let is_literal = |value: &Value| !value.is_f64() && is_short_scalar(value);
        if values.is_empty() || values.len() > MAX_ALTERNATIVES || !values.iter().all(is_literal) {
            return None;
        }
        self.parts_left = self.parts_left.saturating_sub(values.len());
        Some(Type::Literals(values.to_vec()))
    }

    /// Translates a schema whose `type` is `of`.
    fn translate_type(&mut self, of: &str, schema: &'a Value, name: &str, depth: usize) -> Type {
        match of {
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "null" => Type::Null,
            "array" => {
                let items = schema.get("items").map_or(Type::Any, |items| self.kind(items, name, depth + 1));
                Type::List(Box::new(items))
            }
            "object" => self.object_or_dictionary(schema, name, depth),
            _ => Type::Any,
        }
    }

    fn object_or_dictionary(&mut self, schema: &'a Value, name: &str, depth: usize) -> Type {
        if let Some(index) = self.index.get(&ptr::from_ref(schema)) {
            return Type::Object(*index);
        }
        let count = schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        // Check the lengths first: `parameters` is slow for long lists, and a schema can be visited many times.
        let is_short = count <= MAX_MEMBERS
            && schema.get("required").and_then(Value::as_array).map_or(0, Vec::len) <= MAX_MEMBERS
            && parameters(schema).len() <= MAX_MEMBERS;
        if count > 0 && is_short && self.found.len() < MAX_OBJECTS {
            let index = self.found.len();
            self.found.push((schema, name.to_owned()));
            self.index.insert(ptr::from_ref(schema), index);
            return Type::Object(index);
        }
        let values = schema.get("additionalProperties").filter(|values| count == 0 && values.is_object());
        let values = values.map_or(Type::Any, |values| self.kind(values, name, depth + 1));
        Type::Dictionary(Box::new(values))
    }
}

/// Returns the union of types, without duplicates.
fn union(kinds: Vec<Type>) -> Type {
    let mut distinct: Vec<Type> = Vec::new();
    for kind in kinds {
        if kind == Type::Any {
            return Type::Any;
        }
        if !distinct.contains(&kind) {
            distinct.push(kind);
        }
    }
    match distinct.len() {
        0 => Type::Any,
        1 => distinct.pop().unwrap_or(Type::Any),
        _ => Type::Union(distinct),
    }
}

/// Returns the default value of a schema, if it is a short scalar of the schema's type.
fn default(schema: &Value) -> Option<Value> {
    let value = schema.get("default").filter(|value| is_short_scalar(value))?;
    let fits = match schema.get("enum").and_then(Value::as_array) {
        Some(values) => values.contains(value),
        None => match schema.get("type").and_then(Value::as_str)? {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            _ => false,
        },
    };
    fits.then(|| value.clone())
}

fn is_short_scalar(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => text.chars().nth(MAX_LITERAL_CHARS).is_none(),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Returns `PREFIX_NAME` as an identifier of limited length. `prefix` is an identifier.
fn prefixed_name(prefix: &str, name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    prefix.chars().chain(['_']).chain(plain).take(MAX_TYPE_NAME_CHARS).collect()
}
