//! Sets a case's tools in the component `case-tools`, from which the provider imports its tools.

use std::collections::BTreeMap;

use bindings::glovebox::cases::table;
use glovebox_guest::{Error, Execution, Started, Step, Tool};

use crate::case::{Case, CaseTool};

mod bindings {
    wit_bindgen::generate!({
        path: "../case-tools/wit",
        inline: "
            package glovebox:cases-provider;

            world cases {
                import glovebox:cases/table@0.1.0;
            }
        ",
        world: "glovebox:cases-provider/cases",
        generate_all,
    });
}

/// `true` if this program answers tool calls, and therefore must step through executions that may make them.
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

/// Steps through an execution until it has ended.
pub fn finish(started: &Started, _: &BTreeMap<String, CaseTool>) -> Result<Execution, Error> {
    loop {
        if let Step::Done(execution) = started.step(&[])? {
            return Ok(execution);
        }
    }
}
