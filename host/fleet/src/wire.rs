//! The JSON messages sent through the engine.

use glovebox::{Language, SourceKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::FleetName;

/// A script and its inputs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteRequest {
    /// The source.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How JavaScript is parsed.
    pub kind: SourceKind,
    /// Standard input, in base64. Default: nothing.
    #[serde(rename = "stdin_base64", with = "base64_text", skip_serializing_if = "Vec::is_empty")]
    pub stdin: Vec<u8>,
    /// JSON value of the global variable `context`. Default: unset, or unchanged in an existing session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
    /// Milliseconds after which it is cancelled. Default: none; the nodes' limits apply anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Tools that the script may call, each answered by a service: at most [`MAX_TOOLS`](Self::MAX_TOOLS).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolOffer>,
    /// How to create the session if it does not exist. Default: a missing session is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenRequest>,
    /// The state the session must be in. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// The id to give [`FleetClient::cancel`](crate::FleetClient::cancel) so that it stops only this execution. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The state a session must be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// When it was opened: tells apart sessions opened one after another under one name.
    pub created_at: Timestamp,
    /// Its generation.
    pub generation: u64,
}

impl ExecuteRequest {
    /// Maximum number of tools.
    pub const MAX_TOOLS: usize = 64;
}

/// A tool answered by a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOffer {
    /// Its name: scripts call `tools.NAME`.
    pub name: String,
    /// Shown by `help(tools.NAME)`.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments. Default: any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The URL of the service. The nodes must be allowed to call it.
    pub callback: String,
}

/// How to open a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenRequest {
    /// The language. Default: the runtime's, or Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The runtime's name. Default: the nodes' default for the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// JSON value of the global variable `context`. Default: unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
}

/// The result of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Executed {
    /// When the session was opened.
    pub created_at: Timestamp,
    /// The session's generation afterwards.
    pub generation: u64,
    /// Whether the session was rolled back because the script was stopped half-way.
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
    /// The identity of its image. Only nodes with this image run the session's executions.
    pub image_sha256: String,
    /// Increases with every change, so no two states share one.
    pub generation: u64,
    /// Executions so far.
    pub executions: u64,
    /// Size of the stored state in bytes.
    pub bytes: u64,
    /// When it was opened. Its scripts' clock is fixed at this time.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Whether an execution is running.
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
        assert!(request.open.is_some() && request.stdin.is_empty() && request.kind == SourceKind::Detect);
        let text = serde_json::to_string(&ExecuteRequest { stdin: b"\xff".to_vec(), ..ExecuteRequest::default() });
        assert_eq!(text.unwrap(), r#"{"source":"","kind":"detect","stdin_base64":"/w=="}"#);
        for text in [r#"{"sourc":"1"}"#, r#"{"source":"1","stdin_base64":"?"}"#, r#"{"open":{"policy":{}}}"#] {
            assert!(serde_json::from_str::<ExecuteRequest>(text).is_err(), "{text}");
        }
    }
}
