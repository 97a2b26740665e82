//! The JSON messages sent through Restate.

use glovebox::{Language, SourceKind, Timestamp, ToolAnswer, ToolRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::FleetName;

/// A script and its inputs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteRequest {
    /// The source text.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The parsing mode of JavaScript: script or module. Default: detected from the source.
    pub kind: SourceKind,
    /// Standard input, in base64. Default: empty.
    #[serde(rename = "stdin_base64", with = "base64_text", skip_serializing_if = "Vec::is_empty")]
    pub stdin: Vec<u8>,
    /// JSON value of the global variable `context`. Default: unset, or unchanged in an existing session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
    /// The time after which the execution is cancelled, in milliseconds. Default: none. The nodes' limits always apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Tools that the script can call. At most [`MAX_TOOLS`](Self::MAX_TOOLS).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolOffer>,
    /// A suspended execution to resume instead of starting `source`. Its bytes contain the source, the name and the
    /// input. The state before that execution replaces the session's state. Requires the same `tools`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumption: Option<Resumption>,
    /// Settings for creating the session if it does not exist. Default: a missing session is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenRequest>,
    /// The expected state of the session. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedGeneration>,
    /// An ID for [`FleetClient::cancel`](crate::FleetClient::cancel), to cancel only this execution. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The expected state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedGeneration {
    /// Time when the session was opened. Distinguishes sessions that were opened one after another under the same name.
    pub created_at: Timestamp,
    /// The session's generation.
    pub generation: u64,
}

impl ExecuteRequest {
    /// Maximum number of tools in a request.
    pub const MAX_TOOLS: usize = 64;
}

/// A suspended execution to resume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumption {
    /// The bytes of the suspended execution. In a fleet, they come from [`WaitingExecution::suspended`].
    #[serde(rename = "suspended_base64", with = "base64_text")]
    pub suspended: Vec<u8>,
    /// Answers to calls of the execution, at most one per call. The execution waits again for calls without an answer.
    #[serde(default)]
    pub answers: Vec<ToolAnswer>,
}

/// A tool that a request offers to its script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOffer {
    /// The tool's name. Scripts call `tools.NAME`.
    pub name: String,
    /// The description that `help(tools.NAME)` shows.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments. Default: any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The URL of the service that answers the tool's calls. It must match the nodes' allow list. Default: the caller
    /// answers the calls. A script that waits for the caller's answer is suspended ([`ExecuteReply::waiting`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
}

/// The settings of a new session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenRequest {
    /// The language. Default: the runtime's language, or the language of the first runtime that the nodes serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The runtime's name or alias. Default: the nodes' default for the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// JSON value of the global variable `context`. Default: unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
}

/// The result of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecuteReply {
    /// Time when the session was opened.
    pub created_at: Timestamp,
    /// The session's generation after the execution.
    pub generation: u64,
    /// `true` if the session was rolled back because the script was suspended or stopped midway.
    pub is_rolled_back: bool,
    /// The execution, as `glovebox run --json` prints it.
    pub execution: Box<RawValue>,
    /// Set if the script waits for its caller's answers. The script was then suspended, its session was rolled back,
    /// and `execution` has the outcome `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingExecution>,
}

/// An execution that was suspended because its script waits for answers from its caller. It occupies no node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitingExecution {
    /// The calls that the caller must answer, in the order in which the script made them.
    pub calls: Vec<ToolRequest>,
    /// The suspended execution, for [`ExecuteRequest::resumption`]. Contains the state of the session before the
    /// execution. Sealed if the nodes have a key, and then valid for all sessions of the same scope.
    #[serde(rename = "suspended_base64", with = "base64_text")]
    pub suspended: Vec<u8>,
}

/// The description of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetSession {
    /// The name of the session.
    pub name: FleetName,
    /// The language of the session's scripts.
    pub language: Language,
    /// The name of the session's runtime.
    pub runtime: String,
    /// The interpreter's version, if known.
    pub version: Option<String>,
    /// The identity of the session's image. Only nodes with this image run the session's executions.
    pub image_sha256: String,
    /// The generation of the session's state. It increases with every change, so no two states share a generation.
    pub generation: u64,
    /// The number of executions so far.
    pub executions: u64,
    /// The size of the stored state in bytes.
    pub bytes: u64,
    /// Time when the session was opened. The clock of its scripts is fixed at this time.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// `true` if an execution is running.
    #[serde(default)]
    pub is_running: bool,
}

impl FleetSession {
    /// Returns `true` if the session is in the expected state.
    pub(crate) fn is(&self, expected: ExpectedGeneration) -> bool {
        (self.created_at, self.generation) == (expected.created_at, expected.generation)
    }
}

/// Serializes bytes as base64.
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
    fn fleet_request_omits_defaults_and_rejects_unknown_keys() {
        let request: ExecuteRequest = serde_json::from_str(r#"{"source":"1","open":{}}"#).unwrap();
        assert!(request.open.is_some() && request.stdin.is_empty() && request.kind == SourceKind::Detect);
        let text = serde_json::to_string(&ExecuteRequest { stdin: b"\xff".to_vec(), ..ExecuteRequest::default() });
        assert_eq!(text.unwrap(), r#"{"source":"","kind":"detect","stdin_base64":"/w=="}"#);
        for text in [
            r#"{"sourc":"1"}"#,
            r#"{"source":"1","stdin_base64":"?"}"#,
            r#"{"open":{"policy":{}}}"#,
            r#"{"resumption":{"answers":[]}}"#,
            r#"{"resumption":{"suspended_base64":"","answer":[]}}"#,
        ] {
            assert!(serde_json::from_str::<ExecuteRequest>(text).is_err(), "{text}");
        }
    }
}
