//! The expectations for an execution in a case.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A condition on a string.
///
/// In a case, a condition is either a string that the text must equal, or a table of the conditions below. All
/// conditions in the table must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextMatch {
    /// The whole text.
    pub equals: Option<String>,
    /// Substrings that must occur, in any order.
    pub contains: Vec<String>,
    /// Substrings that must occur in this order.
    pub in_order: Vec<String>,
    /// Substrings that must not occur.
    pub excludes: Vec<String>,
    /// The prefix of the text.
    pub starts_with: Option<String>,
    /// The suffix of the text.
    pub ends_with: Option<String>,
    /// The number of lines.
    pub lines: Option<usize>,
    /// The minimum size in bytes.
    pub min_bytes: Option<u64>,
    /// The maximum size in bytes.
    pub max_bytes: Option<u64>,
    /// For an output stream: the number of bytes written, including dropped bytes.
    pub total_bytes: Option<u64>,
    /// For an output stream: `true` if it was truncated. Default: `false`.
    pub truncated: bool,
    /// `true` if any text is accepted. The other conditions still apply.
    pub any: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct TextMatchTable {
    equals: Option<String>,
    contains: OneOrMany,
    in_order: Vec<String>,
    excludes: OneOrMany,
    starts_with: Option<String>,
    ends_with: Option<String>,
    lines: Option<usize>,
    min_bytes: Option<u64>,
    max_bytes: Option<u64>,
    total_bytes: Option<u64>,
    truncated: bool,
    any: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl TextMatch {
    /// Requires exactly this text.
    pub fn exactly(text: &str) -> Self {
        Self { equals: Some(text.to_owned()), ..Self::default() }
    }

    /// Returns an expectation that any text meets.
    pub fn anything() -> Self {
        Self { any: true, ..Self::default() }
    }

    fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

impl<'de> Deserialize<'de> for TextMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextMatchVisitor;
        // Not `untagged`, so that the error message names an unknown key.
        impl<'de> Visitor<'de> for TextMatchVisitor {
            type Value = TextMatch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a table of conditions on a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextMatch, E> {
                Ok(TextMatch::exactly(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextMatch, A::Error> {
                let table = TextMatchTable::deserialize(MapAccessDeserializer::new(map))?;
                let made = TextMatch {
                    equals: table.equals,
                    contains: table.contains.into_vec(),
                    in_order: table.in_order,
                    excludes: table.excludes.into_vec(),
                    starts_with: table.starts_with,
                    ends_with: table.ends_with,
                    lines: table.lines,
                    min_bytes: table.min_bytes,
                    max_bytes: table.max_bytes,
                    total_bytes: table.total_bytes,
                    truncated: table.truncated,
                    any: table.any,
                };
                if made.is_blank() {
                    return Err(serde::de::Error::custom(
                        "an empty table has no conditions; write `any = true` to accept any text",
                    ));
                }
                Ok(made)
            }
        }
        deserializer.deserialize_any(TextMatchVisitor)
    }
}

/// An expected diagnostic of a validation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiagnosticMatch {
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1; not checked if absent.
    pub column: Option<u32>,
    /// The parser's message.
    #[serde(default)]
    pub message: Option<TextMatch>,
}

/// The expectations for a step. Output and file changes that are not mentioned must not occur.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The kind of outcome: `completed`, `exited`, `raised`, `exhausted`, `cancelled` or `trapped`.
    pub outcome: Option<String>,
    /// The message of the sandbox's rejection, instead of an outcome.
    pub error: Option<TextMatch>,
    /// The diagnostics of a validation, instead of an outcome; empty for valid source.
    pub diagnostics: Option<Vec<DiagnosticMatch>>,
    /// `exited`: the exit code.
    pub code: Option<i64>,
    /// `raised`: the exception's class.
    #[serde(rename = "type")]
    pub type_name: Option<TextMatch>,
    /// `raised`: the exception's message.
    pub message: Option<TextMatch>,
    /// `raised`: the traceback.
    pub traceback: Option<TextMatch>,
    /// `raised`: the line in the script.
    pub line: Option<i64>,
    /// `exhausted`: `fuel`, `time` or `memory`.
    pub resource: Option<String>,
    /// `exhausted`: the limit.
    pub limit: Option<i64>,
    /// `trapped`: the kind of trap.
    pub trap: Option<String>,
    /// The process exit code for the outcome.
    pub exit_code: Option<i32>,
    /// Standard output; empty by default.
    pub stdout: Option<TextMatch>,
    /// Standard error. By default it must be empty after a successful execution, and is not checked otherwise.
    pub stderr: Option<TextMatch>,
    /// The media types of each display, sorted, prefixed with `result: ` for the value of the last expression; none by
    /// default.
    pub displays: Vec<String>,
    /// The displays' texts, concatenated.
    pub display_texts: Option<TextMatch>,
    /// The number of dropped displays.
    pub displays_dropped: u64,
    /// The value of the last expression, or of a variable, as the language prints it.
    pub value: Option<TextMatch>,
    /// The value as JSON text. Values are compared, so the formatting does not matter.
    pub value_json: Option<String>,
    /// `true` if there is a value. Not checked by default.
    pub has_value: Option<bool>,
    /// `true` if JSON can represent the value.
    pub is_json: Option<bool>,
    /// The class of the exception that ended the interrupted script; empty for none. Not checked by default.
    pub interrupted: Option<TextMatch>,
    /// The traceback of the `interrupted` exception.
    pub interrupted_traceback: Option<TextMatch>,
    /// `true` if the session was rolled back to its last checkpoint. Default: `false`.
    pub rolled_back: bool,
    /// The subjects of the advice, in order. Not checked by default.
    pub advice: Option<Vec<String>>,
    /// The corrected line in the first advice; empty for none.
    pub correction: Option<String>,
    /// The fuel status, such as `efficient` or `exhausted`.
    pub fuel_status: Option<String>,
    /// The names of the called tools, in order; none by default.
    pub tool_calls: Vec<String>,
    /// The result of each tool call: `returned`, `Unfinished` or the error's name. Not checked by default.
    pub tool_outcomes: Vec<String>,
    /// `list`: the listed paths, in order.
    pub paths: Option<Vec<String>>,
    /// Files created, sorted; none by default.
    pub files_created: Vec<String>,
    /// Files modified, sorted; none by default.
    pub files_modified: Vec<String>,
    /// Files deleted, sorted; none by default.
    pub files_deleted: Vec<String>,
    /// The contents of files after the execution, by path relative to `/app`.
    pub files: BTreeMap<String, TextMatch>,
    /// Minimum fuel used.
    pub min_fuel: Option<u64>,
    /// Maximum fuel used.
    pub max_fuel: Option<u64>,
    /// Minimum peak memory, in bytes.
    pub min_memory_bytes: Option<u64>,
    /// Maximum peak memory, in bytes.
    pub max_memory_bytes: Option<u64>,
    /// The minimum duration, in milliseconds.
    pub min_duration_ms: Option<u64>,
    /// The maximum duration, in milliseconds.
    pub max_duration_ms: Option<u64>,
}

impl Expect {
    /// Multiplies the expected time limit and the durations.
    pub(crate) fn lengthen(&mut self, factor: u32) {
        if self.resource.as_deref() == Some("time") {
            self.limit = self.limit.map(|limit| limit * i64::from(factor));
        }
        for duration in [&mut self.min_duration_ms, &mut self.max_duration_ms].into_iter().flatten() {
            *duration *= u64::from(factor);
        }
    }
}
