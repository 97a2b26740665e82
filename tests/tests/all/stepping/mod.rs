//! Tests executions that the caller steps through.

mod answers;
mod approvals;
mod ending;
mod forks;
mod output;
mod repeating;
mod replaying;
mod sessions;
mod steps;
mod suspended_bytes;
mod suspending;
mod suspending_random;

use std::{sync::Arc, time::Duration};

use glovebox::{Execution, Language, Policy, Request, Sandbox, Started, Step, Tool, ToolAnswer, ToolRequest};
use glovebox_tests::engine;
use serde_json::{Value, json};

/// A timeout much longer than any step takes, but short enough to detect a hanging test.
const LONG: Duration = Duration::from_secs(300);

const BOTH: [Language; 2] = [Language::Python, Language::JavaScript];

/// Returns the tool `ask`, which the caller answers.
fn ask() -> Tool {
    Tool::new("ask", "Asks.").schema(json!({ "properties": { "q": {} }, "required": ["q"] })).stepped()
}

/// Builds a sandbox with `ask`, these tools, and a long timeout.
fn stepped(language: Language, tools: &[Tool], edit: impl FnOnce(&mut Policy)) -> Sandbox {
    let mut policy = Policy::default();
    policy.limits.timeout_ms = 600_000;
    policy.limits.tool_timeout_ms = 600_000;
    policy.limits.fuel = 1_000_000_000_000;
    edit(&mut policy);
    let builder = Sandbox::builder(engine()).language(language).policy(policy).tool(ask());
    tools.iter().cloned().fold(builder, |builder, tool| builder.tool(tool)).build().unwrap()
}

fn start(sandbox: &Sandbox, source: &str) -> Started {
    sandbox.start(Request::new(source)).unwrap()
}

/// Passes answers, and returns the calls that the execution waits for next.
fn needs(started: &Started, answers: Vec<ToolAnswer>) -> Vec<ToolRequest> {
    match started.advance(answers, Some(LONG)).unwrap() {
        Step::NeedsTools(requests) => requests,
        other => panic!("{other:?}"),
    }
}

/// Passes answers, and returns the execution's result.
fn done(started: &Started, answers: Vec<ToolAnswer>) -> Arc<Execution> {
    match started.advance(answers, Some(LONG)).unwrap() {
        Step::Done(execution) => execution,
        other => panic!("{other:?}"),
    }
}

fn answer(request: &ToolRequest, value: impl Into<Value>) -> ToolAnswer {
    ToolAnswer::value(request.id, &value.into())
}

/// Returns the `q` argument of each request.
fn questions(requests: &[ToolRequest]) -> Vec<Value> {
    requests.iter().map(|request| request.values()["q"].clone()).collect()
}

/// Asserts that an execution completed, and returns its output.
fn text(execution: &Execution) -> String {
    assert!(execution.is_success(), "{:?} {}", execution.outcome, execution.stderr.text());
    execution.stdout.text()
}

/// Returns the script in the given language.
fn of(language: Language, python: &'static str, javascript: &'static str) -> &'static str {
    if language == Language::Python { python } else { javascript }
}
