//! The line protocol of the `cases` program: each input line is a case, and each output line contains the results of
//! its steps.

use std::collections::BTreeMap;

use glovebox::{Clock, Entropy};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Action, Case, CaseTool, DiagnosticSeen, ObservedExecution, Operation, Request, Step, StepResult};

/// The options of an input line, in addition to the case itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineOptions {
    /// `true` to step through every execution, not only through those that require it.
    pub stepped: bool,
    /// `true` if the provider may choose the clock and entropy source when the case requests the host's. Not every
    /// provider has access to the host's.
    pub any_clock_and_entropy: bool,
}

/// Returns the input line that makes the program run a case on a runtime.
pub fn case_line(case: &Case, runtime: &str, options: LineOptions) -> Value {
    let mut policy = serde_json::to_value(&case.policy).expect("a policy is JSON");
    let fields = policy.as_object_mut().expect("a policy is an object");
    // The contract does not include settings that belong to the host.
    for key in ["workspace", "mounts", "commit", "metering", "network", "packages", "tools"] {
        fields.remove(key);
    }
    fields["limits"].as_object_mut().expect("limits are an object").remove("journal_bytes");
    if options.any_clock_and_entropy {
        if matches!(case.policy.clock, Clock::Host) {
            fields.insert("clock".into(), Value::Null);
        }
        if matches!(case.policy.entropy, Entropy::Host) {
            fields.insert("entropy".into(), Value::Null);
        }
    }
    let tool = |(name, tool): (&String, &CaseTool)| {
        let tool_json = json!({
            "description": tool.description,
            "schema": tool.schema,
            // Compact, like the results of the engine's own tools: every byte affects the script and its fuel.
            "reply": tool.reply.as_ref().map(|reply| compact(reply)),
            "error": tool.error,
            "delay_ms": tool.delay_ms,
        });
        (name.clone(), tool_json)
    };
    json!({
        "runtime": runtime,
        "policy": policy,
        "in_session": case.in_session,
        "carry": case.carry,
        "files": case.files.iter().map(|(path, bytes)| (path, hex(bytes))).collect::<BTreeMap<_, _>>(),
        "stepped": options.stepped,
        "context": case.context.as_ref().map(Value::to_string),
        "tools": case.tools.iter().map(tool).collect::<BTreeMap<_, _>>(),
        "steps": case.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn compact(json: &str) -> String {
    serde_json::from_str::<Value>(json).expect("a tool's reply is JSON").to_string()
}

fn step(step: &Step) -> Value {
    let text = |value: &Value| value.to_string();
    let action = match &step.action {
        Action::Run { source, request } => match request.operation {
            Operation::Execute => json!({"run": script(source, request)}),
            Operation::Validate => json!({"validate": script(source, request)}),
        },
        Action::Get { name } => json!({"get": {"name": name}}),
        Action::Set { values } => {
            let values: BTreeMap<_, _> = values.iter().map(|(name, value)| (name, text(value))).collect();
            json!({"set": {"values": values}})
        }
        Action::Fork { to } => json!({"fork": {"to": to}}),
        Action::Checkpoint { label } => json!({"checkpoint": {"label": label}}),
        Action::Undo { to } => json!({"undo": {"to": to}}),
        Action::Hibernate { label } => json!({"hibernate": {"label": label}}),
        Action::Resume { label } => json!({"resume": {"label": label}}),
        Action::Write { files } => json!({"write": {"files": files}}),
        Action::Delete { path } => json!({"delete": {"path": path}}),
        Action::List { pattern } => json!({"list": {"pattern": pattern}}),
    };
    json!({"session": step.session, "action": action, "look": step.expect.files.keys().collect::<Vec<_>>()})
}

fn script(source: &str, request: &Request) -> Value {
    json!({
        "source": source,
        "name": request.name,
        "kind": request.kind,
        "stdin": request.stdin,
        "context": request.context,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses an output line into the results of the steps.
///
/// # Errors
/// Fails if the line is not a list of results.
pub fn results(line: &[u8]) -> Result<Vec<StepResult>, serde_json::Error> {
    let results: Vec<ProgramResult> = serde_json::from_slice(line)?;
    Ok(results.into_iter().map(ProgramResult::into_step_result).collect())
}

/// A result in the program's format.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum ProgramResult {
    Executed { observed: Box<ObservedExecution>, files: BTreeMap<String, String> },
    Validated(Vec<DiagnosticSeen>),
    Variable(Option<Value>),
    Listed(Vec<String>),
    Done { files: BTreeMap<String, String> },
    Refused(String),
}

impl ProgramResult {
    fn into_step_result(self) -> StepResult {
        match self {
            Self::Executed { observed, files } => StepResult::Executed { observed, files: contents(files) },
            Self::Validated(found) => StepResult::Validated(found),
            Self::Variable(value) => StepResult::Variable(value),
            Self::Listed(paths) => StepResult::Listed(paths),
            Self::Done { files } => StepResult::Done { files: contents(files) },
            Self::Refused(error) => StepResult::Refused(error),
        }
    }
}

/// Decodes the hexadecimal contents of files.
fn contents(files: BTreeMap<String, String>) -> BTreeMap<String, Vec<u8>> {
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).expect("the program wrote digits");
        u8::from_str_radix(digits, 16).expect("the program wrote digits")
    };
    files.into_iter().map(|(name, hex)| (name, hex.as_bytes().chunks(2).map(byte).collect())).collect()
}
