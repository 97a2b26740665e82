//! Answers the tools of a case.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use glovebox_guest::{Error, Execution, Started, Step, Tool, ToolAnswer, ToolRequest};

use crate::case::{Case, CaseTool};

/// The tools as the sandbox is told of them.
pub fn tools(case: &Case) -> Vec<Tool> {
    let tool = |(name, tool): (&String, &CaseTool)| {
        let mut told = Tool::new(name, &tool.description);
        told.arguments_schema.clone_from(&tool.schema);
        told
    };
    case.tools.iter().map(tool).collect()
}

/// Steps through an execution to its end. Each call is answered when its tool's delay is over, whatever else is being waited for.
pub fn finish(started: &Started, tools: &BTreeMap<String, CaseTool>) -> Result<Execution, Error> {
    let mut called: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut answers = Vec::new();
    loop {
        match started.step(&answers)? {
            Step::Done(execution) => return Ok(execution),
            Step::NeedsTools(calls) => {
                for call in &calls {
                    called.entry(call.id).or_insert_with(Instant::now);
                }
                let outstanding: BTreeSet<u64> = calls.iter().map(|call| call.id).collect();
                called.retain(|id, _| outstanding.contains(id));
                answers = due(&calls, &called, tools);
            }
            Step::Running => answers.clear(),
        }
    }
}

/// The answers that are due first, when they are.
fn due(calls: &[ToolRequest], called: &BTreeMap<u64, Instant>, tools: &BTreeMap<String, CaseTool>) -> Vec<ToolAnswer> {
    let left = |call: &ToolRequest| {
        let delay = Duration::from_millis(tools.get(&call.name).map_or(0, |tool| tool.delay_ms));
        delay.saturating_sub(called.get(&call.id).map_or(Duration::ZERO, Instant::elapsed))
    };
    thread::sleep(calls.iter().map(left).min().unwrap_or_default());
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
