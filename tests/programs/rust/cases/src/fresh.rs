//! Runs steps in new interpreters.

use std::collections::BTreeMap;

use glovebox_guest::{Error, Request, Sandbox};

use crate::{
    case::{Action, Case, Script, Step},
    hex::Hex,
    observed::{StepResult, all_of, look, refused},
    tools::{ANSWERED_HERE, finish, tools},
};

/// The initial files of the next step, by path.
pub type Carried = BTreeMap<String, Hex>;

pub fn step(sandbox: &Sandbox, case: &Case, step: &Step, files: &mut Carried) -> StepResult {
    let done = match &step.action {
        Action::Run(script) => run(sandbox, case, step, script, files),
        Action::Validate(script) => sandbox.validate(script.request()).map(|found| StepResult::validated(&found)),
        _ => return StepResult::Refused("only a session can do this".into()),
    };
    done.unwrap_or_else(|error| refused(&error))
}

fn run(sandbox: &Sandbox, case: &Case, step: &Step, script: &Script, files: &mut Carried) -> Result<StepResult, Error> {
    let add = |request: Request, (path, Hex(bytes)): (&String, &Hex)| request.file(path, bytes.clone());
    let request = files.iter().fold(script.request(), add);
    // A single call is enough if no files are needed and there are no tool calls to answer.
    if !must_be_stepped(case) && !case.carry && step.look.is_empty() {
        return Ok(StepResult::ran(&sandbox.execute(request)?, BTreeMap::new()));
    }
    let started = sandbox.start(request, &tools(case))?;
    let execution = finish(&started, &case.tools)?;
    let left = started.files()?;
    if case.carry {
        *files = all_of(&left)?;
    }
    Ok(StepResult::ran(&execution, look(&left, &step.look)))
}

/// Returns `true` if the case requests stepping or this program has to answer tool calls.
pub fn must_be_stepped(case: &Case) -> bool {
    case.stepped || (ANSWERED_HERE && !case.tools.is_empty())
}
