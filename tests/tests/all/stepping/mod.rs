//! Executions that their caller steps through.

mod answers;
mod ending;
mod output;
mod sessions;
mod steps;

use std::{sync::Arc, time::Duration};

use glovebox::{Execution, Language, Policy, Request, Sandbox, Started, Step, Tool, ToolAnswer, ToolRequest};
use glovebox_tests::engine;
use serde_json::{Value, json};

/// Long against anything here, short against a test that hangs.
const LONG: Duration = Duration::from_secs(300);

const BOTH: [Language; 2] = [Language::Python, Language::JavaScript];

/// What the caller answers.
fn ask() -> Tool {
    Tool::new("ask", "Asks.").schema(json!({ "properties": { "q": {} }, "required": ["q"] })).stepped()
}

/// A sandbox with the caller's `ask` and these, and much time.
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

/// The calls that it then waits for.
fn needs(started: &Started, answers: Vec<ToolAnswer>) -> Vec<ToolRequest> {
    match started.advance(answers, Some(LONG)).unwrap() {
        Step::NeedsTools(requests) => requests,
        other => panic!("{other:?}"),
    }
}

/// What it then comes to.
fn done(started: &Started, answers: Vec<ToolAnswer>) -> Arc<Execution> {
    match started.advance(answers, Some(LONG)).unwrap() {
        Step::Done(execution) => execution,
        other => panic!("{other:?}"),
    }
}

fn answer(request: &ToolRequest, value: impl Into<Value>) -> ToolAnswer {
    ToolAnswer::value(request.id, &value.into())
}

/// What the requests' `q` are.
fn questions(requests: &[ToolRequest]) -> Vec<Value> {
    requests.iter().map(|request| request.values()["q"].clone()).collect()
}

/// What an execution that completed wrote.
fn text(execution: &Execution) -> String {
    assert!(execution.is_success(), "{:?} {}", execution.outcome, execution.stderr.text());
    execution.stdout.text()
}

/// The script in one of the languages.
fn of(language: Language, python: &'static str, javascript: &'static str) -> &'static str {
    if language == Language::Python { python } else { javascript }
}
