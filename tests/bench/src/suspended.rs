//! Measures suspended executions: suspending a script that waits for an answer, resuming it, and recording its inputs.

use std::time::Instant;

use anyhow::bail;
use glovebox::{Language, Request, Sandbox, Started, Step, Suspended, Tool, ToolAnswer, ToolRequest};
use serde_json::json;

use crate::samples::Samples;

/// The numbers of calls that the script makes before it is suspended, each with the names of its two cases.
const ANSWERED: [(u64, [&str; 2]); 3] =
    [(1, ["suspend_1", "resume_1"]), (10, ["suspend_10", "resume_10"]), (100, ["suspend_100", "resume_100"])];

/// The size of a suspended execution, and the times to suspend and to resume it.
#[derive(Debug)]
pub(crate) struct SuspendedSamples {
    /// The number of answered calls.
    pub(crate) answered: u64,
    pub(crate) bytes: u64,
    names: [&'static str; 2],
    suspend: Samples,
    resume: Samples,
}

/// Measures a script after each number of answered calls.
pub(crate) fn measure(sandbox: &Sandbox, turns: u64) -> anyhow::Result<Vec<SuspendedSamples>> {
    let sandbox = sandbox.with_tools(&[Tool::new("ask", "Asks.").stepped()])?;
    let measured =
        ANSWERED.into_iter().map(|(answered, names)| SuspendedSamples::measure(&sandbox, answered, names, turns));
    measured.collect()
}

/// The number of calls in the cases `calls` and `journal`.
const RECORDED: u64 = 100;

/// The times of a script with tool calls, without and with the journal that a suspension needs.
#[derive(Debug, Default)]
pub(crate) struct JournalSamples {
    pub(crate) calls: Samples,
    pub(crate) journal: Samples,
}

impl JournalSamples {
    /// Runs the script alternately without and with a journal. The first turn is not counted.
    pub(crate) fn measure(sandbox: &Sandbox, turns: u64) -> anyhow::Result<Self> {
        let sandbox = sandbox.with_tools(&[Tool::new("ask", "Asks.").stepped()])?;
        let mut measured = Self::default();
        for turn in 0..=turns {
            for (is_suspendable, samples) in [(false, &mut measured.calls), (true, &mut measured.journal)] {
                let start = Instant::now();
                let started = after_answers(&sandbox, RECORDED, is_suspendable)?;
                let elapsed = start.elapsed();
                // The next run must not overlap with the end of this one.
                started.cancel();
                started.advance(Vec::new(), None)?;
                if turn > 0 {
                    samples.push(elapsed);
                }
            }
        }
        Ok(measured)
    }
}

impl SuspendedSamples {
    pub(crate) fn cases(&self) -> [(&'static str, &Samples); 2] {
        let [suspend, resume] = self.names;
        [(suspend, &self.suspend), (resume, &self.resume)]
    }

    /// Resumes and suspends a script alternately. The first turn is not counted.
    fn measure(sandbox: &Sandbox, answered: u64, names: [&'static str; 2], turns: u64) -> anyhow::Result<Self> {
        let (mut suspend, mut resume) = (Samples::default(), Samples::default());
        let mut bytes = after_answers(sandbox, answered, true)?.suspend()?.to_bytes(None);
        for turn in 0..=turns {
            let start = Instant::now();
            let suspended = Suspended::from_bytes(&bytes, None)?;
            let started = sandbox.start(suspended.request())?;
            waiting(&started, Vec::new())?;
            let resumed = start.elapsed();
            let start = Instant::now();
            bytes = started.suspend()?.to_bytes(None);
            if turn > 0 {
                suspend.push(start.elapsed());
                resume.push(resumed);
            }
        }
        Ok(Self { answered, bytes: bytes.len() as u64, names, suspend, resume })
    }
}

/// Starts a script, and answers `answered` of its calls. The script then waits for another answer.
fn after_answers(sandbox: &Sandbox, answered: u64, is_suspendable: bool) -> anyhow::Result<Started> {
    let source = match sandbox.language() {
        Language::Python => format!("for i in range({answered} + 1): tools.ask(q=i)"),
        Language::JavaScript => format!("for (let i = 0; i <= {answered}; i++) await tools.ask({{q: i}})"),
    };
    let started = sandbox.start(Request::new(&source).suspendable(is_suspendable))?;
    let mut calls = waiting(&started, Vec::new())?;
    for _ in 0..answered {
        let answers = calls.iter().map(|call| ToolAnswer::value(call.id, &json!("answer"))).collect();
        calls = waiting(&started, answers)?;
    }
    Ok(started)
}

/// Passes answers, and returns the calls that the script waits for next.
fn waiting(started: &Started, answers: Vec<ToolAnswer>) -> anyhow::Result<Vec<ToolRequest>> {
    match started.advance(answers, None)? {
        Step::NeedsTools(calls) => Ok(calls),
        other => bail!("the script does not wait for an answer: {other:?}"),
    }
}
