//! Executions that the component steps through.

mod quotas;
mod sessions;
mod steps;

use super::*;
use crate::component::{
    stepped::Stepped,
    wit::{
        sandbox::{HostStarted, Step, ToolAnswer, ToolRequest},
        types::Tool,
    },
};

/// Longer than any execution here, shorter than the timeout of a hanging test.
const LONG_MS: u64 = 300_000;

const ASKS: &str = "print(await tools.ask({q: 1}))";

fn tool(name: &str, schema: Option<&str>) -> Tool {
    Tool { name: name.into(), description: "Asks.".into(), arguments_schema: schema.map(str::to_owned) }
}

fn ask() -> Tool {
    tool("ask", Some(r#"{"properties": {"q": {"type": "number"}}, "required": ["q"]}"#))
}

fn asking() -> SessionOptions {
    SessionOptions { context: None, tools: Some(vec![ask()]) }
}

fn start(ctx: &mut SandboxCtx, source: &str) -> Resource<Stepped> {
    try_start(ctx, source).unwrap()
}

fn try_start(ctx: &mut SandboxCtx, source: &str) -> Result<Resource<Stepped>, Failure> {
    Host::start(ctx, Runtime::Javascript, request(source), no_policy(), vec![ask()])
}

fn step(ctx: &mut SandboxCtx, started: &Resource<Stepped>, answers: Vec<ToolAnswer>) -> Result<Step, Failure> {
    ctx.continue_(same(started), answers, Some(LONG_MS))
}

fn needs(ctx: &mut SandboxCtx, started: &Resource<Stepped>, answers: Vec<ToolAnswer>) -> Vec<ToolRequest> {
    match step(ctx, started, answers) {
        Ok(Step::NeedsTools(requests)) => requests,
        other => panic!("{other:?}"),
    }
}

fn done(ctx: &mut SandboxCtx, started: &Resource<Stepped>, answers: Vec<ToolAnswer>) -> Execution {
    match step(ctx, started, answers) {
        Ok(Step::Done(execution)) => execution,
        other => panic!("{other:?}"),
    }
}

fn answer(id: u64, text: &str) -> ToolAnswer {
    ToolAnswer { id, answer: Ok(text.into()) }
}

fn output(execution: &Execution) -> &str {
    assert_eq!(execution.outcome, Outcome::Completed, "{:?}", String::from_utf8_lossy(&execution.stderr.bytes));
    std::str::from_utf8(&execution.stdout.bytes).unwrap()
}

fn release(ctx: &mut SandboxCtx, started: Resource<Stepped>) {
    HostStarted::drop(ctx, started).unwrap();
}
