//! Method parameters.

use std::{collections::BTreeMap, time::Duration};

use glovebox::{JsonText, Language, SourceKind};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};

use super::message::RpcError;
use crate::{
    Script,
    json::{Bytes, JsonCost, at_most, entries_at_most},
    text::quoted,
};

/// Maximum number of initial files per session.
const MAX_FILES: usize = 10_000;
/// Maximum number of tools per session.
const MAX_TOOLS: usize = 256;
/// Maximum size in bytes of text that is parsed without `block_in_place`. Parsing text of this size takes a fraction of
/// a millisecond.
const ASIDE_BYTES: usize = 64 << 10;
/// Maximum size of a policy or of all tool schemas, in bytes of JSON. Parsed values occupy many times the memory of
/// their text.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// Parses parameters. Missing parameters are parsed as `{}`.
pub(super) fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let text = params.map_or("{}", RawValue::get);
    in_place_if_large(text.len(), || read_text(text))
}

/// Runs `work` without blocking other tasks if its input of `bytes` is large. Requires a multi-threaded runtime.
pub(super) fn in_place_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > ASIDE_BYTES { tokio::task::block_in_place(work) } else { work() }
}

fn read_text<T: DeserializeOwned>(text: &str) -> Result<T, RpcError> {
    if !text.starts_with('{') {
        return Err(RpcError::params("`params` must be an object; pass parameters by name"));
    }
    serde_json::from_str(text)
        .map_err(|error| RpcError::params(format!("invalid parameters: {}", glovebox::escaped_text(&quoted(error)))))
}

/// The `session` parameter. All other parameters are ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SessionTarget {
    #[serde(default)]
    pub(super) session: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Initialize {
    pub(super) language: Option<Language>,
    pub(super) runtime: Option<String>,
    context: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "files")]
    files: Option<BTreeMap<String, Bytes>>,
    policy: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "tools")]
    pub(super) tools: Option<Vec<ToolParams>>,
    /// Model queries that scripts can call. Default: both.
    #[serde(default, deserialize_with = "queries")]
    pub(super) queries: Option<Vec<Query>>,
    /// `true` to start an interpreter immediately. Default: `true`.
    pub(super) open: Option<bool>,
    /// Session state returned by `hibernate`.
    pub(super) state: Option<Bytes>,
}

/// A client function that scripts can call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolParams {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    schema: Option<Box<RawValue>>,
}

/// A function that queries a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Query {
    #[serde(rename = "llm_query")]
    Llm,
    #[serde(rename = "rlm_query")]
    Rlm,
}

fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, Bytes>>, D::Error> {
    entries_at_most::<D, Bytes, MAX_FILES>(deserializer).map(Some)
}

fn tools<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ToolParams>>, D::Error> {
    at_most::<D, ToolParams, MAX_TOOLS>(deserializer).map(Some)
}

fn queries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Query>>, D::Error> {
    at_most::<D, Query, 2>(deserializer).map(Some)
}

impl Initialize {
    /// Returns `true` if an interpreter from the pool satisfies the request.
    pub(super) fn is_usual(&self) -> bool {
        let Self { language, runtime, context: _, files, policy, tools, queries, open, state } = self;
        language.is_none_or(|language| language == Language::Python)
            && runtime.is_none()
            && files.is_none()
            && policy.is_none()
            && tools.is_none()
            && queries.is_none()
            && open != &Some(false)
            && state.is_none()
    }

    pub(super) fn files(&mut self) -> Vec<(String, Vec<u8>)> {
        self.files.take().unwrap_or_default().into_iter().map(|(path, bytes)| (path, bytes.0)).collect()
    }

    pub(super) fn policy(&self) -> Result<Map<String, Value>, RpcError> {
        self.policy.as_ref().map(|raw| parsed("policy", raw)).transpose().map(Option::unwrap_or_default)
    }

    /// Returns the memory that the policy and the tools occupy when parsed, in bytes. Fails if the policy or the
    /// schemas exceed `MAX_VALUE_BYTES` of JSON, have too many values, or are nested too deeply.
    pub(super) fn parsed_bytes(&self) -> Result<usize, RpcError> {
        let tools = self.tools.as_deref().unwrap_or_default();
        let texts: usize = tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum();
        let schemas: Vec<&RawValue> = tools.iter().filter_map(|tool| tool.schema.as_deref()).collect();
        let policy: Vec<&RawValue> = self.policy.as_deref().into_iter().collect();
        Ok(texts + parsed_bytes("the schemas of `tools`", &schemas)? + parsed_bytes("`policy`", &policy)?)
    }

    pub(super) fn context(&mut self) -> Result<Option<JsonText>, RpcError> {
        self.context.take().map(json_text).transpose()
    }
}

impl ToolParams {
    pub(super) fn schema(&self) -> Result<Option<Value>, RpcError> {
        self.schema.as_ref().map(|raw| parsed("tools", raw)).transpose()
    }
}

/// Returns the memory that `values` occupy when parsed, in bytes. Fails if they exceed `MAX_VALUE_BYTES` of JSON, or if
/// one of them has too many values or levels.
fn parsed_bytes(name: &str, values: &[&RawValue]) -> Result<usize, RpcError> {
    let mut bytes: usize = values.iter().map(|value| value.get().len()).sum();
    if bytes > MAX_VALUE_BYTES {
        let message = format!("the JSON of {name} is {bytes} bytes; the maximum is {MAX_VALUE_BYTES}; send less");
        return Err(RpcError::params(message));
    }
    for value in values {
        let cost = JsonCost::of(value.get().as_bytes());
        bytes += cost.map_err(|error| RpcError::params(format!("{name}: {error}")))?;
    }
    Ok(bytes)
}

/// Parses the parameter `name`.
fn parsed<T: DeserializeOwned>(name: &str, raw: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(raw.get()).map_err(|error| RpcError::params(format!("`{name}`: {}", quoted(error))))
}

/// Converts a parameter to JSON text for a script.
pub(super) fn json_text(raw: Box<RawValue>) -> Result<JsonText, RpcError> {
    JsonText::new(Box::<str>::from(raw)).map_err(|error| RpcError::params(quoted(error)))
}

/// The parameters of `execute` and `validate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    #[serde(rename = "session")]
    _session: Option<String>,
    code: String,
    name: Option<String>,
    kind: Option<SourceKind>,
    stdin: Option<Bytes>,
    context: Option<Box<RawValue>>,
    timeout_ms: Option<u64>,
    /// `true` to stream output in `output` notifications.
    #[serde(default)]
    pub(super) stream: bool,
    /// `true` to run in a new interpreter instead of the session's interpreter.
    #[serde(default)]
    pub(super) fresh: bool,
    /// `true` to return the workspace files with the answer.
    #[serde(default)]
    pub(super) return_files: bool,
}

impl Execute {
    pub(super) fn script(self) -> Result<Script, RpcError> {
        Ok(Script {
            source: self.code,
            name: self.name,
            kind: self.kind.unwrap_or_default(),
            stdin: self.stdin.map(|stdin| stdin.0).unwrap_or_default(),
            context: self.context.map(json_text).transpose()?,
            cancel_after: self.timeout_ms.map(Duration::from_millis),
            ..Script::default()
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    /// ID of the request to cancel. Default: all requests.
    pub(super) id: Option<Box<RawValue>>,
    /// ID of the session whose requests are cancelled. Default: all sessions.
    pub(super) session: Option<String>,
}

/// The parameters of methods that only need a session.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Only {
    #[serde(rename = "session")]
    _session: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GetVariable {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetVariable {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) name: String,
    pub(super) value: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) pattern: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) path: String,
    #[serde(default)]
    pub(super) offset: u64,
}

/// The parameters of `deleteFile`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneFile {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) path: String,
    #[serde(default)]
    pub(super) recursive: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) path: String,
    pub(super) contents: Bytes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) context: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Undo {
    #[serde(rename = "session")]
    _session: Option<String>,
    pub(super) checkpoint: Option<u64>,
}
