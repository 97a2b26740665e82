//! Tool definitions, with their schemas compiled for checking arguments, and sets of tools.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    ops::Deref,
};

use serde_json::{Value, json};

use super::{CallFailure, ToolDefinitionError, ToolErrorKind, schema::Costs, validator::Validator};

/// Maximum size of the list of tools that guests read, as JSON text and in bytes.
pub const MAX_CATALOGUE_BYTES: usize = 1 << 20;

/// Maximum length of a tool's name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Maximum compiled size of one regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Like `MAX_PATTERN_BYTES`, but for untrusted schemas.
pub const MAX_UNTRUSTED_PATTERN_BYTES: usize = 64 << 10;

/// Python's keywords, which cannot be written after a dot or as a keyword argument, and attributes of `tools`.
const RESERVED: &str = "\
    False None True and as assert async await break class continue def del elif else except finally for from global if \
    import in is lambda nonlocal not or pass raise return try while with yield \
    ToolError ToolLimit ToolTimeout UnknownTool InvalidArguments ToolDenied";

/// A tool's name, description and schema.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'a> {
    /// The name under which scripts call the tool.
    pub name: &'a str,
    /// A description for people and models.
    pub description: &'a str,
    /// The JSON Schema of the arguments object.
    pub schema: &'a Value,
    /// `true` if the schema is untrusted.
    pub is_untrusted: bool,
    /// Maximum number of schemas that checking may recurse through: [`MAX_ENGINE_LEVELS`](super::MAX_ENGINE_LEVELS) or
    /// [`MAX_PROVIDER_LEVELS`](super::MAX_PROVIDER_LEVELS).
    pub max_levels: usize,
}

/// A valid tool definition with its compiled schema.
pub struct CheckedDefinition {
    costs: Costs,
    validator: Validator,
    description: Value,
}

impl fmt::Debug for CheckedDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedDefinition").field("description", &self.description).finish_non_exhaustive()
    }
}

impl Definition<'_> {
    /// Rejects a name that scripts cannot use.
    pub fn check_name(&self) -> Result<(), ToolDefinitionError> {
        if is_name(self.name) {
            return Ok(());
        }
        Err(ToolDefinitionError::Name(self.name.chars().take(MAX_NAME_BYTES + 1).collect()))
    }

    /// Checks the name and compiles the schema.
    pub fn check(&self) -> Result<CheckedDefinition, ToolDefinitionError> {
        self.check_name()?;
        let Self { name, description, schema, .. } = *self;
        let wrong = |reason: String| ToolDefinitionError::Schema { name: name.to_owned(), reason };
        if !schema.is_object() || schema.get("type").is_some_and(|of| of != "object") {
            return Err(wrong("it must be a JSON object with `\"type\": \"object\"`".into()));
        }
        let costs = Costs::of(schema).map_err(wrong)?;
        let pattern_bytes = if self.is_untrusted { MAX_UNTRUSTED_PATTERN_BYTES } else { MAX_PATTERN_BYTES };
        let validator = Validator::of(schema, pattern_bytes, self.max_levels).map_err(wrong)?;
        let description = json!({
            "name": name,
            "description": description,
            "schema": schema,
            "parameters": parameters(schema),
        });
        Ok(CheckedDefinition { costs, validator, description })
    }
}

impl AsRef<Self> for CheckedDefinition {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl CheckedDefinition {
    /// Returns the tool's entry in the guest's list of tools.
    pub(super) fn description(&self) -> &Value {
        &self.description
    }

    /// Returns the number of regular expressions in the schema.
    pub fn pattern_count(&self) -> usize {
        self.costs.patterns
    }

    /// Checks a call's arguments against the schema.
    pub fn check(&self, arguments: &Value) -> Result<(), CallFailure> {
        self.costs.check(arguments)?;
        self.validator.check(arguments).map_err(|wrong| {
            let (place, message) = wrong.location_and_message();
            CallFailure::new(ToolErrorKind::InvalidArguments, with_location(&place, message))
        })
    }
}

/// Prefixes an error message with the location of the invalid value. An empty location refers to the whole value.
fn with_location(place: &str, message: &str) -> String {
    if place.is_empty() { message.to_owned() } else { format!("`{place}`: {message}") }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= MAX_NAME_BYTES
        // In JavaScript, an object with `then` is treated as a promise, and `constructor` names the class of an object.
        && !matches!(name, "then" | "constructor")
        && !RESERVED.split(' ').any(|word| word == name)
}

/// Returns the names of a tool's arguments in the order of positional arguments: first the names in `required`, then
/// all other names in alphabetical order.
pub fn parameters(schema: &Value) -> Vec<&str> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str);
    // `required` can repeat a name.
    let mut seen = BTreeSet::new();
    required.chain(others).filter(|name| seen.insert(*name)).collect()
}

/// A set of tools, by name.
#[derive(Clone)]
pub struct Toolset<T>(BTreeMap<String, T>);

impl<T> Default for Toolset<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> fmt::Debug for Toolset<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Toolset").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}

impl<T: Deref<Target: AsRef<CheckedDefinition>>> Toolset<T> {
    /// Adds a tool.
    ///
    /// # Errors
    /// Fails if a tool with this name already exists. The existing tool remains.
    pub fn add(&mut self, name: &str, tool: T) -> Result<(), ToolDefinitionError> {
        match self.0.entry(name.to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert(tool);
                Ok(())
            }
            Entry::Occupied(_) => Err(ToolDefinitionError::Duplicate(name.to_owned())),
        }
    }

    /// Rejects the set if its catalogue exceeds [`MAX_CATALOGUE_BYTES`].
    pub fn check(&self) -> Result<(), ToolDefinitionError> {
        match self.catalogue().len() {
            bytes if bytes > MAX_CATALOGUE_BYTES => {
                Err(ToolDefinitionError::TooLarge { bytes, max: MAX_CATALOGUE_BYTES })
            }
            _ => Ok(()),
        }
    }

    /// Returns the tool with this name.
    pub fn find(&self, name: &str) -> Option<&T> {
        self.0.get(name)
    }

    /// Returns the list of tools that the guest reads, as JSON text.
    pub fn catalogue(&self) -> String {
        let tools: Vec<&Value> = self.0.values().map(|tool| tool.deref().as_ref().description()).collect();
        json!({ "tools": tools }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::tools::MAX_ENGINE_LEVELS;

    #[test]
    fn positional_arguments_are_the_required_ones_and_then_the_others_by_name() {
        let schema = json!({ "properties": { "c": {}, "b": {}, "a": {} }, "required": ["b", "x", "b"] });
        assert_eq!(parameters(&schema), ["b", "x", "a", "c"]);
        assert!(parameters(&json!({})).is_empty());
    }

    #[test]
    fn duplicate_tool_does_not_replace_the_existing_one() {
        let schema = json!({ "type": "object" });
        let tool = |description| {
            let definition = Definition {
                name: "add",
                description,
                schema: &schema,
                is_untrusted: false,
                max_levels: MAX_ENGINE_LEVELS,
            };
            Rc::new(definition.check().unwrap())
        };
        let mut tools = Toolset::default();
        tools.add("add", tool("first")).unwrap();
        assert_eq!(tools.add("add", tool("second")), Err(ToolDefinitionError::Duplicate("add".to_owned())));
        assert_eq!(tools.find("add").unwrap().description()["description"], "first");
    }
}
