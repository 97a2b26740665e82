//! Sets a case's tools in the component `case-tools-concurrent`, from which the provider imports its tools.

use std::collections::BTreeMap;

use glovebox_guest::{Error, Execution, Tool, concurrent::Started};

use crate::{
    case::{Case, CaseTool},
    glovebox::cases::table,
};

/// `true` if this program answers tool calls, and therefore must start executions that may make them.
pub const ANSWERED_HERE: bool = false;

/// Replaces the provider's tools with the case's tools.
pub fn begin(case: &Case) {
    let case_tool = |(name, tool): (&String, &CaseTool)| table::CaseTool {
        name: name.clone(),
        description: tool.description.clone(),
        schema: tool.schema.clone(),
        reply: tool.reply.clone(),
        error: tool.error.clone(),
        delay_ms: tool.delay_ms,
    };
    table::set(&case.tools.iter().map(case_tool).collect::<Vec<_>>());
}

/// Returns the tools that the caller answers: none, because the provider answers all calls.
pub fn tools(_: &Case) -> Vec<Tool> {
    Vec::new()
}

/// Waits for the end of an execution.
pub async fn finish(started: &Started, _: &BTreeMap<String, CaseTool>) -> Result<Execution, Error> {
    started.finish().await
}
