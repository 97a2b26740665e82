//! Scripts in a new interpreter.

use glovebox_guest::{Diagnostic, Runtime, Sandbox};
use serde_json::{Value, json};

use crate::{
    answer::{ExecutionAnswer, Returned, finish},
    http::Answer,
    policy,
    problem::Problem,
    settings::Settings,
    wire::{self, ExecuteBody, Fresh},
};

/// Runs a script in a new interpreter with new files.
pub(crate) fn execute(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let Fresh { runtime, policy, request, patterns } = wire::json::<ExecuteBody>(body)?.fresh()?;
    let started = sandbox(settings, runtime, &policy)?.start(request, &[])?;
    let execution = finish(&started)?;
    let returned = if patterns.is_empty() { Returned::default() } else { Returned::of(&started.files()?, &patterns)? };
    Answer::json(200, &ExecutionAnswer::new(&started, execution, returned))
}

/// Returns the diagnostics of the language's own parser, without executing anything.
pub(crate) fn validate(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let Fresh { runtime, policy, request, .. } = wire::json::<ExecuteBody>(body)?.fresh()?;
    let diagnostics = sandbox(settings, runtime, &policy)?.validate(request)?;
    let diagnostics: Vec<Value> = diagnostics
        .into_iter()
        .map(|Diagnostic { line, column, message }| json!({ "line": line, "column": column, "message": message }))
        .collect();
    Answer::json(200, &json!({ "diagnostics": diagnostics }))
}

fn sandbox(
    settings: &Settings,
    runtime: Option<Runtime>,
    asked: &serde_json::Map<String, Value>,
) -> Result<Sandbox, Problem> {
    let policy = policy::narrowed(&settings.policy, asked)?;
    Ok(Sandbox::new(runtime.map_or_else(first_runtime, Ok)?).policy(policy::asked(&policy)))
}

/// Returns the runtime for requests that name none.
pub(crate) fn first_runtime() -> Result<Runtime, Problem> {
    let first = glovebox_guest::info().runtimes.into_iter().next();
    first.map(|runtime| Runtime::Named(runtime.name)).ok_or_else(|| Problem::internal("the provider has no runtime"))
}
