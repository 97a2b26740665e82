//! Runs the steps of a case.

use crate::{
    case::{Action, Case},
    fresh,
    observed::StepResult,
    sessions,
};

/// Runs all steps and returns their results.
pub async fn results(case: &Case) -> Vec<StepResult> {
    let sandbox = glovebox_guest::Sandbox::named(&case.runtime).policy(case.policy.to_policy()).concurrent();
    let mut results = Vec::new();
    if !case.in_session {
        let mut files = case.files.clone();
        for step in &case.steps {
            results.push(fresh::step(&sandbox, case, step, &mut files).await);
        }
        return results;
    }
    let mut sessions = match sessions::Sessions::open(&sandbox, case).await {
        Ok(sessions) => sessions,
        Err(error) => return case.steps.iter().map(|_| StepResult::Refused(error.to_string())).collect(),
    };
    for step in &case.steps {
        results.push(match &step.action {
            Action::Validate(_) => fresh::step(&sandbox, case, step, &mut fresh::Carried::new()).await,
            _ => sessions.step(step).await,
        });
    }
    results
}
