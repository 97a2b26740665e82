//! Runs steps in new interpreters.

use std::collections::BTreeMap;

use glovebox_guest::{
    Error, Request,
    concurrent::{Sandbox, Started},
};

use crate::{
    case::{Action, Case, Script, Step},
    hex::Hex,
    observed::{StepResult, refused},
    tools::{ANSWERED_HERE, finish, tools},
};

/// The initial files of the next step, by path.
pub type Carried = BTreeMap<String, Hex>;

pub async fn step(sandbox: &Sandbox, case: &Case, step: &Step, files: &mut Carried) -> StepResult {
    let done = match &step.action {
        Action::Run(script) => run(sandbox, case, step, script, files).await,
        Action::Validate(script) => sandbox.validate(script.request()).await.map(|found| StepResult::validated(&found)),
        _ => return StepResult::Refused("only a session can do this".into()),
    };
    done.unwrap_or_else(|error| refused(&error))
}

async fn run(
    sandbox: &Sandbox,
    case: &Case,
    step: &Step,
    script: &Script,
    files: &mut Carried,
) -> Result<StepResult, Error> {
    let add = |request: Request, (path, Hex(bytes)): (&String, &Hex)| request.file(path, bytes.clone());
    let request = files.iter().fold(script.request(), add);
    // A single call is enough if no files are needed and there are no tool calls to answer.
    if !must_be_started(case) && !case.carry && step.look.is_empty() {
        return Ok(StepResult::ran(&sandbox.execute(request).await?, BTreeMap::new()));
    }
    let started = sandbox.start(request, &tools(case)).await?;
    let execution = finish(&started, &case.tools).await?;
    if case.carry {
        *files = all_of(&started).await?;
    }
    let mut seen = BTreeMap::new();
    for name in &step.look {
        // The file need not exist.
        if let Ok(stream) = started.read_file(name).await {
            seen.insert(name.clone(), Hex(stream.collect().await));
        }
    }
    Ok(StepResult::ran(&execution, seen))
}

/// Returns the contents of all files. Omits empty directories, and replaces links with their targets.
async fn all_of(started: &Started) -> Result<Carried, Error> {
    let mut contents = Carried::new();
    for entry in started.list_files("**").await? {
        if let Ok(stream) = started.read_file(&entry.path).await {
            contents.insert(entry.path, Hex(stream.collect().await));
        }
    }
    Ok(contents)
}

/// Returns `true` if executions must be started instead of called: if the case requests this, or if this program has to
/// answer tool calls.
pub fn must_be_started(case: &Case) -> bool {
    case.stepped || (ANSWERED_HERE && !case.tools.is_empty())
}
