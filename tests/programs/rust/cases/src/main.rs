//! Runs conformance cases through `glovebox:sandbox`, in any component host. Each line on standard input is a case in
//! JSON ([`case`]). Each line on standard output contains the results of its steps ([`observed`]). The program uses no
//! other system interfaces.
//!
//! The program answers the case's tool calls itself. With the feature `provider-tools`, the provider imports the tools
//! from the component `case-tools` instead, and all three components are composed.

mod case;
mod fresh;
mod hex;
mod observed;
mod policy;
mod sessions;
#[cfg_attr(feature = "provider-tools", path = "provider_tools.rs")]
mod tools;

use std::{
    error::Error,
    io::{self, BufRead as _, Write as _},
};

use case::{Action, Case};
use glovebox_guest::Sandbox;
use observed::StepResult;

fn main() -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line?)?;
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &results(&case))?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// Runs all steps and returns their results.
fn results(case: &Case) -> Vec<StepResult> {
    tools::begin(case);
    let sandbox = Sandbox::named(&case.runtime).policy(case.policy.to_policy());
    if !case.in_session {
        let mut files = case.files.clone();
        return case.steps.iter().map(|step| fresh::step(&sandbox, case, step, &mut files)).collect();
    }
    let mut sessions = match sessions::Sessions::open(&sandbox, case) {
        Ok(sessions) => sessions,
        Err(error) => return case.steps.iter().map(|_| StepResult::Refused(error.to_string())).collect(),
    };
    let mut results = Vec::new();
    for step in &case.steps {
        results.push(match &step.action {
            Action::Validate(_) => fresh::step(&sandbox, case, step, &mut fresh::Carried::new()),
            _ => sessions.step(step),
        });
    }
    results
}
