//! Steps that have an interpreter of their own.

use glovebox_guest::{Error, Sandbox};

use crate::{
    case::{Action, Case, Script, Step},
    observed::{StepResult, look, refused},
    tools::{ANSWERED_HERE, finish, tools},
};

pub fn step(sandbox: &Sandbox, case: &Case, step: &Step) -> StepResult {
    let done = match &step.action {
        Action::Run(script) => run(sandbox, case, step, script),
        Action::Validate(script) => sandbox.validate(script.request()).map(|found| StepResult::validated(&found)),
        _ => return StepResult::Refused("only a session can do this".into()),
    };
    done.unwrap_or_else(|error| refused(&error))
}

fn run(sandbox: &Sandbox, case: &Case, step: &Step, script: &Script) -> Result<StepResult, Error> {
    // One call is enough where nobody wants the files, and there is no tool to answer.
    if !must_be_stepped(case) && step.look.is_empty() {
        return Ok(StepResult::ran(&sandbox.execute(script.request())?, Default::default()));
    }
    let started = sandbox.start(script.request(), &tools(case))?;
    let execution = finish(&started, &case.tools)?;
    Ok(StepResult::ran(&execution, look(&started.files()?, &step.look)))
}

/// Whether executions of the case are stepped through: where it says so, and where this program has tools to answer.
pub fn must_be_stepped(case: &Case) -> bool {
    case.stepped || (ANSWERED_HERE && !case.tools.is_empty())
}
