//! Arguments of the MCP tools, and their schemas.

use std::sync::Arc;

use glovebox::Language;
use glovebox_sessions::SessionId;
use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{ServiceError, text::quoted};

/// The language of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum CodeLanguage {
    Python,
    #[serde(alias = "js")]
    JavaScript,
    // Types are removed before the script runs.
    #[serde(alias = "ts")]
    TypeScript,
}

impl CodeLanguage {
    /// Returns the language of the interpreter.
    pub(super) fn language(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::JavaScript | Self::TypeScript => Language::JavaScript,
        }
    }

    /// Returns the file name for a script. The engine recognizes TypeScript by its extension; other languages need no
    /// name.
    pub(super) fn file_name(self) -> Option<String> {
        (self == Self::TypeScript).then(|| "script.ts".to_owned())
    }
}

/// The arguments of `run_code`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCode {
    /// The language of `code`.
    pub(super) language: CodeLanguage,
    /// The source text to run.
    pub(super) code: String,
    /// The session to run in, from session_open. Without one, the code runs in a new interpreter that is discarded.
    pub(super) session: Option<String>,
    /// Stop the script after this many milliseconds. The default is the maximum.
    #[schemars(range(min = 1))]
    pub(super) timeout_ms: Option<u64>,
    /// Check the types of Python code first. Code with type errors, such as unknown tools or wrong arguments, does not
    /// run: the result lists the errors.
    #[serde(default)]
    pub(super) check_types: bool,
    /// Files to write to the working directory before the code runs.
    #[serde(default)]
    pub(super) files: Vec<NewFile>,
}

/// A file for the script.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct NewFile {
    /// The path, relative to the working directory.
    pub(super) path: String,
    /// The content as text. Give either this or `base64`.
    pub(super) text: Option<String>,
    /// The content in base64, for binary data.
    pub(super) base64: Option<String>,
}

/// The arguments of `session_open`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenSession {
    /// The language of the session's scripts.
    pub(super) language: CodeLanguage,
    /// A name: 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`. The default is a random name.
    pub(super) session: Option<String>,
}

/// The arguments of tools that take only a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneSession {
    /// The name of the session.
    pub(super) session: String,
}

/// The arguments of `session_fork`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkSession {
    /// The session to copy.
    pub(super) session: String,
    /// A name for the copy. The default is a random name.
    pub(super) fork: Option<String>,
}

/// The arguments of tools that take none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// The arguments of `files_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// The name of the session.
    pub(super) session: String,
    /// A pattern for paths, such as `*.csv` or `data/**`. The default is all files.
    #[serde(default = "everything")]
    pub(super) pattern: String,
}

fn everything() -> String {
    "**".into()
}

/// The arguments of `files_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The name of the session.
    pub(super) session: String,
    /// The file's path, relative to the working directory.
    pub(super) path: String,
    /// The byte offset to start at.
    #[serde(default)]
    pub(super) offset: u64,
    /// The number of bytes to read. The default is the maximum.
    #[schemars(range(min = 1))]
    pub(super) length: Option<u64>,
}

/// The arguments of `files_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// The name of the session.
    pub(super) session: String,
    /// The file's path, relative to the working directory. Missing directories are created.
    pub(super) path: String,
    /// The content as text. Give either this or `base64`.
    pub(super) text: Option<String>,
    /// The content in base64, for binary data.
    pub(super) base64: Option<String>,
    /// Replace an existing file. If false, an existing file is an error.
    #[serde(default = "default_true")]
    pub(super) replace: bool,
}

fn default_true() -> bool {
    true
}

/// Parses a tool's arguments. Fails if an argument is unknown, missing or of the wrong type.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ServiceError> {
    serde_json::from_value(arguments.into()).map_err(|error| {
        ServiceError::Invalid(format!("invalid arguments: {}", glovebox::escaped_text(&quoted(error))))
    })
}

pub(super) fn session_id(name: &str) -> Result<SessionId, ServiceError> {
    Ok(SessionId::new(name)?)
}

/// Decodes a file's content, which is given either as text or in base64.
pub(super) fn content(path: &str, text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, ServiceError> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let wrong = |what: &str| ServiceError::Invalid(format!("file `{}`: {what}", glovebox::escaped(path)));
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => {
            BASE64_STANDARD.decode(base64).map_err(|error| wrong(&format!("cannot decode `base64`: {error}")))
        }
        _ => Err(wrong("send either `text` or `base64`")),
    }
}

/// Returns the schema of a tool's arguments. Omits the title and description of the type, because the tool has its own.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    of::<T>(SchemaSettings::draft2020_12())
}

/// Returns the schema of a tool's structured content.
pub(super) fn output<T: JsonSchema>() -> Arc<JsonObject> {
    Arc::new(of::<T>(SchemaSettings::draft2020_12().for_serialize()))
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let mut object = match settings.into_generator().into_root_schema_for::<T>().to_value() {
        Value::Object(object) => object,
        // Arguments and results are structs, so their schemas are objects.
        _ => JsonObject::new(),
    };
    // The schema uses the protocol's default dialect, so `$schema` is unnecessary.
    for name in ["$schema", "title", "description"] {
        object.remove(name);
    }
    object.values_mut().for_each(simplify);
    object
}

/// Removes parts that models do not need and some clients reject: `null` types and defaults, and `format`.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &mut **types {
                    let only = only.take();
                    object.insert("type".to_owned(), only);
                }
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn argument_errors_name_the_field_or_type() {
        for (arguments, expected) in [
            (json!({ "language": "python", "code": "1", "timeout": 5 }), "unknown field `timeout`"),
            (json!({ "language": "python" }), "missing field `code`"),
            (
                json!({ "language": "ruby", "code": "1" }),
                "unknown variant `ruby`, expected one of `python`, `javascript`",
            ),
            (json!({ "language": "python", "code": 1 }), "expected a string"),
            (
                json!({ "language": "python", "code": "", "files": [{ "path": "a", "content": "" }] }),
                "unknown field `content`",
            ),
            (json!({ "language": "python", "code": "", "a\nb": 1 }), "unknown field `a\\nb`"),
        ] {
            let error = read::<RunCode>(object(arguments)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn null_argument_counts_as_absent() {
        let run: RunCode =
            read(object(json!({ "language": "ts", "code": "1", "session": null, "timeout_ms": null }))).unwrap();
        assert!(run.session.is_none() && run.timeout_ms.is_none());
        assert_eq!((run.language, run.language.file_name().as_deref()), (CodeLanguage::TypeScript, Some("script.ts")));
    }

    #[test]
    fn file_has_either_text_or_base64() {
        assert_eq!(content("a", Some("é".into()), None).unwrap(), "é".as_bytes());
        assert_eq!(content("a", None, Some("AP8=".into())).unwrap(), [0, 255]);
        assert!(
            content("a", None, Some("%".into())).unwrap_err().to_string().contains("file `a`: cannot decode `base64`")
        );
        for (text, base64) in [(None, None), (Some("a".into()), Some("YQ==".into()))] {
            assert!(content("a", text, base64).unwrap_err().to_string().contains("send either"));
        }
    }
}
