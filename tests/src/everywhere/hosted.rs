//! A host's process, asked for a case's results.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Answer, Host, Worker};
use crate::{
    Case, StepResult,
    case_line::{LineOptions, case_line, results},
};

/// The longest that a host may take for a case: many times what the slowest takes on a busy machine. The first answer comes after
/// compiling.
const ANSWER: Duration = Duration::from_secs(300);

/// A host with one process, which all trials share.
#[derive(Clone, Debug)]
pub struct Hosted(Arc<Mutex<Worker>>);

impl Hosted {
    /// Each host, or the line that builds what it lacks.
    #[must_use]
    pub fn all(program: &str) -> Vec<(Host, Result<Self, String>)> {
        let hosted = |command| Self(Arc::new(Mutex::new(Worker::new(command))));
        Host::ALL.into_iter().map(|host| (host, host.command(program).map(hosted))).collect()
    }

    /// Runs a case, and then perhaps others, with nothing in between: what came of each, and whether the instance that ran the first ran
    /// the last as well.
    pub fn run(&self, runtime: &str, cases: &[&Case]) -> (Vec<Result<Vec<StepResult>, String>>, bool) {
        let mut worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = None;
        let mut all = Vec::new();
        for case in cases {
            let options = LineOptions { any_clock_and_entropy: true, ..LineOptions::default() };
            let answer = worker.ask(&case_line(case, runtime, options).to_string(), ANSWER);
            all.push(match answer {
                Answer::Line(line) => results(line.as_bytes()).map_err(|error| format!("{error}: {line}\n")),
                Answer::Broke(how) => Err(format!("the instance ended: {how}\n")),
            });
            first.get_or_insert(worker.started());
        }
        (all, first == Some(worker.started()))
    }
}
