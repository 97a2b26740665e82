//! The tools of a sandbox.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use super::{Tool, ToolDefinitionError, ToolErrorKind, abandoned::Abandoned, error::Failure, tool::Answerer};

/// How many handlers of one tool may be abandoned and still run. A tool that hangs is soon refused, while the others work.
const ABANDONED_MOST: usize = 64;

/// The most bytes of names, descriptions and schemas. A guest reads them whole.
const CATALOGUE_BYTES_MOST: usize = 1 << 20;

/// The longest name.
const NAME_BYTES_MOST: usize = 64;

/// The most compiled bytes of one pattern, and of the cache it matches with.
const PATTERN_BYTES_MOST: usize = 1 << 20;

/// The same where the schema is somebody's who is not trusted. Classes of Unicode, such as `\w`, take some ten thousand.
pub(crate) const FOREIGN_PATTERN_BYTES_MOST: usize = 64 << 10;

/// What cannot be written after a dot or as a keyword argument though it looks like a name, and what `tools` has itself.
const RESERVED: [&str; 42] = [
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    // An object that has it is taken for a promise, or for another class.
    "then",
    "constructor",
    "ToolError",
    "ToolLimit",
    "ToolTimeout",
    "UnknownTool",
    "InvalidArguments",
];

/// The tools of a sandbox, by name, and their catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toolbox {
    entries: BTreeMap<String, Arc<Entry>>,
    /// What is kept while somebody has these tools.
    _keeps: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    abandoned: Arc<Abandoned>,
}

/// One tool, ready to be called.
pub(super) struct Entry {
    pub(super) answerer: Answerer,
    validator: Validator,
    description: Value,
    abandoned: AtomicUsize,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("description", &self.description).finish_non_exhaustive()
    }
}

impl Toolbox {
    /// Checks the tools and compiles their schemas.
    pub(crate) fn new(tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Self::default().with(tools)
    }

    /// The same with more tools. Those that are there already are the same in both: what was given up in one counts in the other.
    pub(crate) fn with(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        let mut toolbox = self.clone();
        for tool in tools {
            toolbox.add(tool)?;
        }
        let bytes = toolbox.catalogue().len();
        if bytes > CATALOGUE_BYTES_MOST {
            return Err(ToolDefinitionError::TooLarge { bytes, most: CATALOGUE_BYTES_MOST });
        }
        Ok(toolbox)
    }

    /// Keeps something for as long as somebody has these tools.
    pub(crate) fn keeping(self, it: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { _keeps: Some(Arc::new(it)), ..self }
    }

    fn add(&mut self, tool: &Tool) -> Result<(), ToolDefinitionError> {
        let name = tool.name.clone();
        if !is_name(&name) {
            return Err(ToolDefinitionError::Name(name.chars().take(NAME_BYTES_MOST + 1).collect()));
        }
        if self.entries.contains_key(&name) {
            return Err(ToolDefinitionError::Duplicate(name));
        }
        let Some(answerer) = tool.answerer.clone() else { return Err(ToolDefinitionError::NoHandler(name)) };
        let wrong = |reason: String| ToolDefinitionError::Schema { name: name.clone(), reason };
        if !tool.schema.is_object() || tool.schema.get("type").is_some_and(|of| of != "object") {
            return Err(wrong("it must be an object, and describe one: `\"type\": \"object\"`".into()));
        }
        let pattern_bytes = if tool.is_foreign { FOREIGN_PATTERN_BYTES_MOST } else { PATTERN_BYTES_MOST };
        let patterns = PatternOptions::regex().size_limit(pattern_bytes).dfa_size_limit(pattern_bytes);
        let mut options = jsonschema::options().with_pattern_options(patterns).offline();
        if tool.is_foreign {
            // Of a text whose format is `regex` an expression would be made.
            options = options.should_validate_formats(false);
        }
        let validator = options.build(&tool.schema).map_err(|error| wrong(error.to_string()))?;
        let description = json!({
            "name": name,
            "description": tool.description,
            "schema": tool.schema,
            "parameters": parameters(&tool.schema),
        });
        let entry = Entry { answerer, validator, description, abandoned: AtomicUsize::new(0) };
        self.entries.insert(name, Arc::new(entry));
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name)
    }

    /// The calls that were given up and still run.
    pub(super) fn abandoned(&self) -> &Arc<Abandoned> {
        &self.abandoned
    }

    /// What a guest learns about the tools, as JSON text.
    pub(super) fn catalogue(&self) -> String {
        let tools: Vec<&Value> = self.entries.values().map(|entry| &entry.description).collect();
        json!({ "tools": tools }).to_string()
    }
}

impl Entry {
    /// Checks a call's arguments against the schema.
    pub(super) fn check(&self, arguments: &Value) -> Result<(), Failure> {
        self.validator.validate(arguments).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("`{place}`: ") };
            // The value itself is left out: it may be as long as the arguments.
            Failure::new(ToolErrorKind::InvalidArguments, format!("{place}{}", error.masked()))
        })
    }

    /// Refuses a call while too many earlier ones did not come back.
    pub(super) fn admit(&self, name: &str) -> Result<(), Failure> {
        if self.abandoned.load(Ordering::SeqCst) < ABANDONED_MOST {
            return Ok(());
        }
        let message = format!("{ABANDONED_MOST} calls of `{name}` were given up and still run; try again later");
        Err(Failure::new(ToolErrorKind::Limit, message))
    }

    pub(super) fn abandoned(&self) -> &AtomicUsize {
        &self.abandoned
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= NAME_BYTES_MOST
        && !RESERVED.contains(&name)
}

/// The names of the arguments in the order in which they are taken when they have none.
fn parameters(schema: &Value) -> Vec<&str> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut names: Vec<&str> = required.collect();
    for name in properties.into_iter().flat_map(|properties| properties.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}
