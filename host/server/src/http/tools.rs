//! Tools that a request brings along, and their calls, as JSON.

use glovebox::{Tool, ToolAnswer, ToolError, ToolRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::Problem;
use crate::{NO_CALLBACKS, NeedsTools, Script, Tenant, json_bytes::at_most, tools::Callback};

/// How many tools a request may bring along, and how many answers.
const MAX_TOOLS: usize = 64;
const MAX_ANSWERS: usize = 1_000;

/// A tool that a request brings along.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolBody {
    /// The name that scripts call it by, `tools.NAME`: 1 to 64 ASCII letters, digits and underscores, a letter in front.
    name: String,
    /// What `help(tools.NAME)` shows. Default: nothing.
    #[serde(default)]
    description: String,
    /// JSON Schema of its arguments, an object. Default: any object.
    schema: Option<Value>,
    /// The address of the service that answers it: one of those that this token may have called. Default: whoever asked answers it.
    callback: Option<String>,
}

/// Reads the tools of a request.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolBodies(#[serde(deserialize_with = "few_tools")] pub(super) Vec<ToolBody>);

fn few_tools<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolBody>, D::Error> {
    at_most::<D, ToolBody, MAX_TOOLS>(deserializer)
}

/// The tools of a request.
#[derive(Default)]
pub(super) struct Offered {
    /// Those that whoever asked answers.
    pub(super) tools: Vec<Tool>,
    /// Those that services answer.
    pub(super) callbacks: Vec<Callback>,
}

impl Offered {
    pub(super) fn new(ToolBodies(bodies): ToolBodies, tenant: &Tenant) -> Result<Self, Problem> {
        if !bodies.is_empty() {
            tenant.check_tools()?;
        }
        let mut offered = Self::default();
        for ToolBody { name, description, schema, callback } in bodies {
            let Some(url) = callback else {
                let tool = Tool::new(name, description).stepped().foreign();
                offered.tools.push(match schema {
                    Some(schema) => tool.schema(schema),
                    None => tool,
                });
                continue;
            };
            // Looked at before anything else is done.
            let callbacks = tenant.callbacks().ok_or_else(|| Problem::invalid(NO_CALLBACKS))?;
            callbacks.target(&name, &url).map_err(|refused| Problem::invalid(refused.to_string()))?;
            offered.callbacks.push(Callback { name, description, schema, url });
        }
        Ok(offered)
    }

    /// Whether an execution with them ends in steps.
    pub(super) fn is_stepped(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Gives them to a script.
    pub(super) fn to(self, script: &mut Script) {
        (script.tools, script.callbacks) = (self.tools, self.callbacks);
    }
}

/// Answers to calls of tools.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinueBody {
    /// One for each call; a call without one is asked for again.
    #[serde(default, deserialize_with = "few_answers")]
    answers: Vec<AnswerBody>,
}

fn few_answers<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<AnswerBody>, D::Error> {
    at_most::<D, AnswerBody, MAX_ANSWERS>(deserializer)
}

/// The answer to one call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// Which call.
    id: u64,
    /// What the tool gives back: any JSON.
    #[schema(value_type = Option<Value>)]
    value: Option<Box<RawValue>>,
    /// Or why it failed: the message of the `ToolError` that the script sees.
    error: Option<String>,
}

impl ContinueBody {
    pub(super) fn answers(self) -> Result<Vec<ToolAnswer>, Problem> {
        self.answers.into_iter().map(AnswerBody::answer).collect()
    }
}

impl AnswerBody {
    fn answer(self) -> Result<ToolAnswer, Problem> {
        let Self { id, value, error } = self;
        match (value, error) {
            (Some(value), None) => Ok(ToolAnswer { id, answer: Ok(Box::<str>::from(value).into()) }),
            (None, Some(error)) => Ok(ToolAnswer::error(id, ToolError::new(error))),
            _ => Err(Problem::invalid(format!("the answer to call {id} has a `value` or an `error`, and not both"))),
        }
    }
}

/// An execution that waits for answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NeedsToolsAnswer {
    /// Always `needs-tools`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Its name: `POST /v1/executions/{id}/continue` goes on with it.
    execution: String,
    /// The calls that have no answer yet, in the order in which they were made.
    calls: Vec<CallAnswer>,
    /// After how many milliseconds it is cancelled where nobody answers. The limits of its policy hold besides.
    expires_after_ms: u64,
}

/// One call of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallAnswer {
    /// Which call of the execution it is, counted from 0.
    id: u64,
    /// The tool.
    name: String,
    /// Its arguments, an object.
    #[schema(value_type = Value)]
    arguments: Box<RawValue>,
}

impl NeedsToolsAnswer {
    /// The answer, and how many bytes it has at most as JSON.
    pub(super) fn new(needs: NeedsTools) -> (Self, usize) {
        // Besides the arguments there are a few names and numbers.
        let bytes = needs.calls.iter().map(|call| call.arguments.len() + call.name.len() + 256).sum::<usize>() + 1_024;
        (needs.into(), bytes)
    }
}

impl From<NeedsTools> for NeedsToolsAnswer {
    fn from(NeedsTools { execution, calls, expires_after }: NeedsTools) -> Self {
        let calls = calls.into_iter().map(CallAnswer::from).collect();
        let expires_after_ms = u64::try_from(expires_after.as_millis()).unwrap_or(u64::MAX);
        Self { kind: "needs-tools", execution, calls, expires_after_ms }
    }
}

impl From<ToolRequest> for CallAnswer {
    fn from(request: ToolRequest) -> Self {
        // It is the text of an object: it was read before.
        let arguments = RawValue::from_string(request.arguments).unwrap_or_default();
        Self { id: request.id, name: request.name, arguments }
    }
}
