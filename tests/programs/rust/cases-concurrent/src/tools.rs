//! Answers a case's tool calls.

use std::collections::BTreeMap;

use glovebox_guest::{
    CallFailure, Error, Execution, Tool,
    concurrent::{Started, ToolRequest},
};

use crate::{
    case::{Case, CaseTool},
    wait,
};

/// `true` if this program answers tool calls, and therefore must start executions that may make them.
pub const ANSWERED_HERE: bool = true;

/// Returns the tools that the caller answers.
pub fn tools(case: &Case) -> Vec<Tool> {
    let tool = |(name, tool): (&String, &CaseTool)| {
        let mut definition = Tool::new(name, &tool.description);
        definition.arguments_schema.clone_from(&tool.schema);
        definition
    };
    case.tools.iter().map(tool).collect()
}

/// Answers each call of an execution when its tool's delay has elapsed, and waits for the end.
pub async fn finish(started: &Started, tools: &BTreeMap<String, CaseTool>) -> Result<Execution, Error> {
    started.answer_calls(|call| answer(call, tools)).await?;
    started.finish().await
}

async fn answer(call: ToolRequest, tools: &BTreeMap<String, CaseTool>) -> Result<String, CallFailure> {
    let Some(tool) = tools.get(&call.name) else { return Err("the case has no such tool".into()) };
    if tool.delay_ms > 0 {
        wait(tool.delay_ms).await;
    }
    match (&tool.error, &tool.reply) {
        (Some(error), _) => Err(error.as_str().into()),
        (None, Some(reply)) => Ok(reply.clone()),
        (None, None) => Ok(call.arguments),
    }
}
