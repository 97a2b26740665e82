//! The sandbox as components have it, as a backend: the program `cases` in an application's sandbox.

use std::{collections::BTreeMap, env, fs, path::PathBuf, sync::OnceLock};

use glovebox::component::SandboxHost;
use glovebox_application::{AppConfig, Application, Applications, Input, Output, OutputBuffer};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Action, Backend, Case, DiagnosticSeen, Observed, Operation, Request, Step, StepResult, engine, program_path,
};

/// The most that the results of one case may take.
const RESULTS_BYTES: usize = 64 << 20;

/// Runs cases through `glovebox:sandbox`, each in a new instance of the program `cases`.
#[derive(Debug)]
pub struct ComponentBackend {
    runtime: String,
    stepped: bool,
}

impl ComponentBackend {
    /// The backend on a runtime of the manifest. With `stepped` every execution is stepped through, and otherwise those only for
    /// which that is needed.
    ///
    /// # Errors
    /// The line that builds the program.
    pub fn of_runtime(name: &str, stepped: bool) -> Result<Self, String> {
        file()?;
        Ok(Self { runtime: name.to_owned(), stepped })
    }
}

/// The component that runs cases: the program `cases`, or what the variable `CASES_PROGRAM` names, which is that program
/// composed with a provider.
fn file() -> Result<PathBuf, String> {
    env::var_os("CASES_PROGRAM").map_or_else(|| program_path("cases"), |file| Ok(file.into()))
}

/// The program, compiled once.
fn program() -> &'static Application {
    static PROGRAM: OnceLock<Application> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let bytes = fs::read(file().expect("the program is built")).expect("it can be read");
        let applications = Applications::new(engine()).expect("Wasmtime takes the settings");
        applications.load_bytes("cases", &bytes).expect("the program is a component that can be linked")
    })
}

/// Grants all that any case asks for.
fn host(case: &Case) -> SandboxHost {
    SandboxHost::builder(engine()).policy(case.policy.clone()).build().expect("a case's policy can be granted")
}

impl Backend for ComponentBackend {
    fn run(&self, case: &Case) -> Vec<StepResult> {
        let mut line = serde_json::to_vec(&self.line(case)).expect("a case is JSON");
        line.push(b'\n');
        let stdout = OutputBuffer::new(RESULTS_BYTES);
        let stderr = OutputBuffer::new(64 << 10);
        let mut config = AppConfig::default();
        config.stdin = Input::Bytes(line);
        config.stdout = Output::Buffer(stdout.clone());
        config.stderr = Output::Buffer(stderr.clone());
        let ended = program().run(&host(case), &config).expect("the program can be run");
        assert!(
            ended.outcome.is_success(),
            "{}: {}",
            ended.outcome.describe(),
            String::from_utf8_lossy(&stderr.bytes())
        );
        let results: Vec<Told> = serde_json::from_slice(&stdout.bytes()).expect("the program wrote results");
        results.into_iter().map(Told::into_step_result).collect()
    }
}

impl ComponentBackend {
    /// The case as the program reads it.
    fn line(&self, case: &Case) -> Value {
        let mut policy = serde_json::to_value(&case.policy).expect("a policy is JSON");
        // What components have no word for: host directories.
        for key in ["workspace", "mounts", "commit"] {
            policy.as_object_mut().expect("a policy is an object").remove(key);
        }
        let tool = |(name, tool): (&String, &crate::CaseTool)| {
            let told = json!({
                "description": tool.description,
                "schema": tool.schema,
                "reply": tool.reply,
                "error": tool.error,
                "delay_ms": tool.delay_ms,
            });
            (name.clone(), told)
        };
        json!({
            "runtime": self.runtime,
            "policy": policy,
            "kept": case.kept,
            "stepped": self.stepped,
            "context": case.context.as_ref().map(Value::to_string),
            "tools": case.tools.iter().map(tool).collect::<BTreeMap<_, _>>(),
            "steps": case.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
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
    json!({"source": source, "name": request.name, "kind": request.kind, "stdin": request.stdin})
}

/// A result as the program writes it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Told {
    Ran { observed: Box<Observed>, files: BTreeMap<String, String> },
    Validated(Vec<DiagnosticSeen>),
    Variable(Option<Value>),
    Listed(Vec<String>),
    Done { files: BTreeMap<String, String> },
    Refused(String),
}

impl Told {
    fn into_step_result(self) -> StepResult {
        match self {
            Self::Ran { observed, files } => StepResult::Ran { observed, files: contents(files) },
            Self::Validated(found) => StepResult::Validated(found),
            Self::Variable(value) => StepResult::Variable(value),
            Self::Listed(paths) => StepResult::Listed(paths),
            Self::Done { files } => StepResult::Done { files: contents(files) },
            Self::Refused(error) => StepResult::Refused(error),
        }
    }
}

/// Files, whose bytes come in hexadecimal.
fn contents(files: BTreeMap<String, String>) -> BTreeMap<String, Vec<u8>> {
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).expect("the program wrote digits");
        u8::from_str_radix(digits, 16).expect("the program wrote digits")
    };
    files.into_iter().map(|(name, hex)| (name, hex.as_bytes().chunks(2).map(byte).collect())).collect()
}
