//! What goes through the engine, as JSON.

use glovebox::{Language, SourceKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::FleetName;

/// How JavaScript is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// By looking at it.
    #[default]
    Detect,
    /// As a script.
    Script,
    /// As a module.
    Module,
}

impl From<Kind> for SourceKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Detect => Self::Detect,
            Kind::Script => Self::Script,
            Kind::Module => Self::Module,
        }
    }
}

impl From<SourceKind> for Kind {
    fn from(kind: SourceKind) -> Self {
        match kind {
            SourceKind::Script => Self::Script,
            SourceKind::Module => Self::Module,
            _ => Self::Detect,
        }
    }
}

/// A script, and what goes with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteRequest {
    /// The source.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How JavaScript is parsed.
    pub kind: Kind,
    /// Standard input, in base64. Default: nothing.
    #[serde(rename = "stdin_base64", with = "base64_text", skip_serializing_if = "Vec::is_empty")]
    pub stdin: Vec<u8>,
    /// What the script finds in the global variable `context`. Default: no such variable, or what it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
    /// Milliseconds after which it is cancelled. Default: never; the nodes' limits hold all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Functions that the script may call, each answered by a service: at most [`MAX_TOOLS`](Self::MAX_TOOLS).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolOffer>,
    /// How the session is made where there is none of this name. Default: that there is none is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenRequest>,
    /// The state that the session must be in. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// What [`FleetClient::cancel`](crate::FleetClient::cancel) calls this execution, so that it stops no other. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A state that a session must be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// When it was opened: of sessions of one name that are opened one after another only one is meant.
    pub created_at: Timestamp,
    /// Its generation.
    pub generation: u64,
}

impl ExecuteRequest {
    /// The most tools.
    pub const MAX_TOOLS: usize = 64;
}

/// A function that a service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOffer {
    /// The name that scripts call it by, `tools.NAME`.
    pub name: String,
    /// What `help(tools.NAME)` shows.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments. Default: any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The address of the service: one of those that the nodes may call.
    pub callback: String,
}

/// How a session is made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenRequest {
    /// Its language. Default: the runtime's, or Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Its runtime, by name. Default: the nodes' default of the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// What its scripts find in the global variable `context`. Default: no such variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
}

/// What an execution did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Executed {
    /// When the session was opened.
    pub created_at: Timestamp,
    /// The session's generation then.
    pub generation: u64,
    /// Whether the session is what it was before, since the script was stopped in the middle of something.
    pub is_rolled_back: bool,
    /// The execution, as `glovebox run --json` prints it.
    pub execution: Box<RawValue>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetSession {
    /// Its name.
    pub name: FleetName,
    /// Its language.
    pub language: Language,
    /// Its runtime.
    pub runtime: String,
    /// The interpreter's version.
    pub version: Option<String>,
    /// The identity of its image: nodes that have it execute what is asked of the session.
    pub image_sha256: String,
    /// How often its state has changed: no two states of it have the same.
    pub generation: u64,
    /// Executions so far.
    pub executions: u64,
    /// The size of its state in the store.
    pub bytes: u64,
    /// When it was opened. Its scripts see this time, whenever they run.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Whether something is being executed.
    #[serde(default)]
    pub is_running: bool,
}

impl FleetSession {
    /// Whether it is in this state.
    pub(crate) fn is(&self, expected: Expected) -> bool {
        (self.created_at, self.generation) == (expected.created_at, expected.generation)
    }
}

/// Bytes as base64.
mod base64_text {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_only_what_differs_and_unknown_names_are_refused() {
        let request: ExecuteRequest = serde_json::from_str(r#"{"source":"1","open":{}}"#).unwrap();
        assert!(request.open.is_some() && request.stdin.is_empty() && request.kind == Kind::Detect);
        let text = serde_json::to_string(&ExecuteRequest { stdin: b"\xff".to_vec(), ..ExecuteRequest::default() });
        assert_eq!(text.unwrap(), r#"{"source":"","kind":"detect","stdin_base64":"/w=="}"#);
        for text in [r#"{"sourc":"1"}"#, r#"{"source":"1","stdin_base64":"?"}"#, r#"{"open":{"policy":{}}}"#] {
            assert!(serde_json::from_str::<ExecuteRequest>(text).is_err(), "{text}");
        }
    }
}
