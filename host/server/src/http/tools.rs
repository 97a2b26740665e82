//! JSON form of the tools that a request defines, and of their calls.

use glovebox::{Tool, ToolAnswer, ToolError, ToolRequest};
use glovebox_core::at_most;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::Problem;
use crate::{NO_CALLBACKS, NeedsTools, Script, Tenant, byte_budget::Room, tools::Callback};

/// Maximum size of a problem in a response, in bytes.
const MAX_PROBLEM_BYTES: usize = 8 << 10;
/// Maximum number of tools in a request.
const MAX_TOOLS: usize = 64;
/// Maximum number of answers in a request.
pub(super) const MAX_ANSWERS: usize = 1_000;

/// A tool that a request defines.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolBody {
    /// Name of the tool, which scripts call as `tools.NAME`: 1 to 64 ASCII letters, digits and underscores, starting
    /// with a letter. Keywords of Python and a few other names are reserved.
    name: String,
    /// Text that `help(tools.NAME)` shows. Default: empty.
    #[serde(default)]
    description: String,
    /// JSON Schema of the arguments, an object. Default: any object.
    schema: Option<Value>,
    /// URL of the service that answers the tool's calls. The token must be allowed to use this URL. Default: the client
    /// itself answers calls.
    callback: Option<String>,
}

/// The tools of a request. Deserialization fails at the first tool above the limit.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolBodies(#[serde(deserialize_with = "at_most::<_, ToolBody, _, MAX_TOOLS>")] Vec<ToolBody>);

impl ToolBodies {
    /// Adds the tools to a script. Fails if a callback's URL is not allowed.
    pub(super) fn add_to(self, script: &mut Script, tenant: &Tenant) -> Result<(), Problem> {
        for ToolBody { name, description, schema, callback } in self.0 {
            let Some(url) = callback else {
                let tool = Tool::new(name, description).stepped().untrusted_schema();
                script.tools.push(match schema {
                    Some(schema) => tool.schema(schema),
                    None => tool,
                });
                continue;
            };
            let callbacks = tenant.callbacks().ok_or_else(|| Problem::invalid(NO_CALLBACKS))?;
            callbacks.target(&name, &url).map_err(|refused| Problem::invalid(refused.to_string()))?;
            script.callbacks.push(Callback { name, description, schema, url });
        }
        Ok(())
    }
}

/// Answers to tool calls.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueBody {
    /// Answers, at most one per call. The next response lists calls without an answer again.
    #[serde(default, deserialize_with = "at_most::<_, AnswerBody, _, MAX_ANSWERS>")]
    answers: Vec<AnswerBody>,
}

/// The answer to a tool call: a `value` or an `error`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// ID of the call.
    id: u64,
    /// Result of the tool: any JSON value, including `null`.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    value: Option<Box<RawValue>>,
    /// Failure of the tool.
    #[schema(value_type = Option<FailureForm>)]
    error: Option<ToolError>,
}

/// The failure of a tool in JSON.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum FailureForm {
    /// Message, which the script sees in a `ToolError`.
    Message(String),
    /// Message and the class of the script's error.
    Object {
        /// Class of the error: `ToolError`, `ToolLimit`, `ToolTimeout`, `UnknownTool`, `InvalidArguments`, or
        /// `ToolDenied` if a person or a policy refused the call.
        #[serde(rename = "type")]
        kind: String,
        /// Message, which the script sees.
        message: String,
    },
}

/// Deserializes a field that is present: `null` becomes `Some`, not `None`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl ContinueBody {
    pub(super) fn answers(self) -> Result<Vec<ToolAnswer>, Problem> {
        self.answers.into_iter().map(AnswerBody::answer).collect()
    }
}

impl AnswerBody {
    pub(super) fn answer(self) -> Result<ToolAnswer, Problem> {
        let Self { id, value, error } = self;
        match (value, error) {
            (Some(value), None) => Ok(ToolAnswer { id, answer: Ok(Box::<str>::from(value).into()) }),
            // A client can send `null` for a missing value.
            (value, Some(error)) if value.as_deref().is_none_or(|value| value.get() == "null") => {
                Ok(ToolAnswer::error(id, error))
            }
            _ => Err(Problem::invalid(format!("the answer to call {id} must have either a `value` or an `error`"))),
        }
    }
}

/// An execution that waits for answers to tool calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NeedsToolsAnswer {
    /// Always `needs-tools`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// ID of the execution. `POST /v1/executions/{id}/continue` resumes it.
    execution: String,
    /// Calls without an answer, in the order they were made.
    calls: Vec<CallAnswer>,
    /// Milliseconds after which an execution without answers is cancelled. The limits of its policy still apply.
    expires_after_ms: u64,
    /// Reason why the execution was not stored, although the request set `suspend`.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_stored: Option<Problem>,
}

/// A tool call.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallAnswer {
    /// Number of the call within the execution, from 0.
    id: u64,
    /// Name of the tool.
    name: String,
    /// Arguments of the call, an object.
    #[schema(value_type = Value)]
    arguments: Box<RawValue>,
    /// `true` if the policy requires an approval for the call (`tools.NAME.approve`). Answer it only after a person or a
    /// rule has approved it; otherwise, refuse it with the error `ToolDenied`. Default: `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approve: bool,
}

impl NeedsToolsAnswer {
    /// Returns the response body, the maximum size of its JSON in bytes, and the memory reserved for the worker's
    /// reply, if any.
    pub(super) fn new(needs: NeedsTools, not_stored: Option<Problem>) -> (Self, usize, Option<Room>) {
        let bytes = max_bytes(&needs.calls) + not_stored.as_ref().map_or(0, |_| MAX_PROBLEM_BYTES);
        let NeedsTools { execution, calls, expires_after, reply_room } = needs;
        let calls = calls.into_iter().map(CallAnswer::from).collect();
        let expires_after_ms = u64::try_from(expires_after.as_millis()).unwrap_or(u64::MAX);
        (Self { kind: "needs-tools", execution, calls, expires_after_ms, not_stored }, bytes, reply_room)
    }
}

/// Returns the maximum size of a response with these calls, in bytes of JSON.
pub(super) fn max_bytes(calls: &[ToolRequest]) -> usize {
    // The constants are upper bounds for the rest of the JSON of each call and of the response.
    calls.iter().map(|call| call.arguments.len() + call.name.len() + 256).sum::<usize>() + 1_024
}

impl From<ToolRequest> for CallAnswer {
    fn from(request: ToolRequest) -> Self {
        // The arguments have already been parsed, so the text is a valid JSON object.
        let arguments = RawValue::from_string(request.arguments).unwrap_or_default();
        Self { id: request.id, name: request.name, arguments, approve: request.approve }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_shows_whether_it_needs_an_approval() {
        for (approve, expected) in [
            (true, r#"{"id":3,"name":"pay","arguments":{},"approve":true}"#),
            (false, r#"{"id":3,"name":"pay","arguments":{}}"#),
        ] {
            let call = serde_json::json!({ "id": 3, "name": "pay", "arguments": "{}", "approve": approve });
            let request: ToolRequest = serde_json::from_value(call).unwrap();
            assert_eq!(serde_json::to_string(&CallAnswer::from(request)).unwrap(), expected);
        }
    }

    #[test]
    fn null_is_a_tool_result_unless_there_is_an_error() {
        let is_value = |json: &str| -> Option<bool> {
            let answers = serde_json::from_str::<ContinueBody>(json).unwrap().answers();
            answers.ok().map(|answers| answers[0].answer.is_ok())
        };
        assert_eq!(is_value(r#"{"answers":[{"id":0,"value":null}]}"#), Some(true));
        assert_eq!(is_value(r#"{"answers":[{"id":0,"value":null,"error":null}]}"#), Some(true));
        assert_eq!(is_value(r#"{"answers":[{"id":0,"value":null,"error":"failed"}]}"#), Some(false));
        assert_eq!(is_value(r#"{"answers":[{"id":0,"error":"failed"}]}"#), Some(false));
        assert_eq!(is_value(r#"{"answers":[{"id":0,"value":1,"error":"failed"}]}"#), None);
        assert_eq!(is_value(r#"{"answers":[{"id":0}]}"#), None);
    }
}
