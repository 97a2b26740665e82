//! Runs conformance cases through version 0.3.0 of the contract. The format of cases and results is that of the program
//! `cases`, whose modules this program shares.

#[path = "../../cases/src/case.rs"]
mod case;
mod fresh;
#[path = "../../cases/src/hex.rs"]
mod hex;
#[allow(dead_code, reason = "this program reads files as streams")]
#[path = "../../cases/src/observed.rs"]
mod observed;
#[path = "../../cases/src/policy.rs"]
mod policy;
mod sessions;
mod tools;

use case::{Action, Case};
use observed::StepResult;

wit_bindgen::generate!({
    inline: "
        package example:cases-concurrent;

        world cases-concurrent {
            /// Waits. The program has no clock.
            import wait: async func(ms: u64);
            /// Runs a case in JSON. Returns the results of its steps in JSON.
            export results: async func(line: string) -> string;
        }
    ",
});

struct Cases;
export!(Cases);

impl Guest for Cases {
    async fn results(line: String) -> String {
        let case: Case = serde_json::from_str(&line).expect("the line is a case");
        serde_json::to_string(&results(&case).await).expect("results are JSON")
    }
}

/// Runs all steps and returns their results.
async fn results(case: &Case) -> Vec<StepResult> {
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
