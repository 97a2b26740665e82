//! Answers a case's tool calls.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use glovebox_guest::{Error, Execution, Started, Step, Tool, ToolAnswer, ToolRequest};

use crate::case::{Case, CaseTool};

/// `true` if this program answers tool calls, and therefore must step through executions that may make them.
pub const ANSWERED_HERE: bool = true;

/// Does nothing: the tools are passed with each execution.
pub fn begin(_: &Case) {}

/// Returns the tools that the caller answers.
pub fn tools(case: &Case) -> Vec<Tool> {
    let tool = |(name, tool): (&String, &CaseTool)| {
        let mut definition = Tool::new(name, &tool.description);
        definition.arguments_schema.clone_from(&tool.schema);
        definition
    };
    case.tools.iter().map(tool).collect()
}

/// Maximum wait between two steps. A script may make further calls while an earlier call is unanswered, and need not
/// wait for its calls.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Steps through an execution until it has ended. Answers each call when its tool's delay has elapsed.
pub fn finish(started: &Started, tools: &BTreeMap<String, CaseTool>) -> Result<Execution, Error> {
    let mut called: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut answers = Vec::new();
    loop {
        answers = match started.step_within(LOOK_AGAIN, &answers)? {
            Step::Done(execution) => return Ok(execution),
            Step::Running => Vec::new(),
            Step::NeedsTools(calls) => {
                for call in &calls {
                    called.entry(call.id).or_insert_with(Instant::now);
                }
                due(&calls, &called, tools)
            }
        };
    }
}

/// Returns the answers that are due. Waits for a short time if there are none yet.
fn due(calls: &[ToolRequest], called: &BTreeMap<u64, Instant>, tools: &BTreeMap<String, CaseTool>) -> Vec<ToolAnswer> {
    let left = |call: &ToolRequest| {
        let delay = Duration::from_millis(tools.get(&call.name).map_or(0, |tool| tool.delay_ms));
        delay.saturating_sub(called.get(&call.id).map_or(Duration::ZERO, Instant::elapsed))
    };
    thread::sleep(calls.iter().map(left).min().unwrap_or_default().min(LOOK_AGAIN));
    calls.iter().filter(|call| left(call).is_zero()).map(|call| answer(call, tools)).collect()
}

fn answer(call: &ToolRequest, tools: &BTreeMap<String, CaseTool>) -> ToolAnswer {
    match tools.get(&call.name) {
        None => call.fails("the case has no such tool"),
        Some(CaseTool { error: Some(error), .. }) => call.fails(error.as_str()),
        Some(CaseTool { reply: Some(reply), .. }) => call.returns(reply),
        Some(_) => call.returns(&call.arguments),
    }
}
