//! The answer of `run_code`: what a model reads, and the same for programs.
//!
//! Pictures are contents of their own. They are never in the structured answer: clients give that to the model as text.

use glovebox::{Execution, GuestValue, Outcome, Output, Rollback};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    outputs::{OutputId, Outputs, StoredOutput},
    shorten::shortened,
};

/// How many file names of a kind are given. A script can make ten thousand; a model reads the first few.
const MAX_NAMES: usize = 100;

/// What `run_code` gives back for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunAnswer {
    /// `completed`, `exited`, `raised`, `exhausted`, `cancelled` or `trapped`.
    outcome: &'static str,
    /// What became of it, in a sentence, where it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// As a process would have exited: 0 for success.
    exit_code: i32,
    /// Standard output: its head and tail where it is long.
    stdout: String,
    /// Whether `stdout` is not the whole of it.
    stdout_truncated: bool,
    /// Standard error: its head and tail where it is long.
    stderr: String,
    /// Whether `stderr` is not the whole of it.
    stderr_truncated: bool,
    /// The value of the last expression, as the language shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The line of the script that raised the exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// How many pictures, tables and the like it showed.
    displays: u64,
    /// The session, where it ran in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Whether the session is as it was before this.
    rolled_back: bool,
    files: ChangedFiles,
    /// What can be done about a failure.
    guidance: Vec<Hint>,
    /// The work it did, in units of fuel.
    fuel: u64,
    duration_ms: f64,
}

/// The files that a script changed, relative to its working directory.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(inline)]
struct ChangedFiles {
    created: Vec<String>,
    modified: Vec<String>,
    deleted: Vec<String>,
    /// How many more there are than these lists have.
    more: u64,
}

/// A problem and what can be done about it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Hint {
    summary: String,
    steps: Vec<String>,
    /// The corrected line, where it is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
}

/// Makes the answer of an execution.
pub(super) struct Answering<'a> {
    pub(super) outputs: &'a Outputs,
    /// The id of its stored outputs.
    pub(super) id: OutputId,
    /// After how many milliseconds the caller had it cancelled.
    pub(super) cancelled_after_ms: Option<u64>,
}

impl Answering<'_> {
    /// The answer: an error where the script did not succeed.
    pub(super) fn answer(&self, execution: &Execution) -> CallToolResult {
        let mut content = Vec::new();
        let (stdout, stdout_truncated) = self.stream("stdout", &execution.stdout, &mut content);
        let (stderr, stderr_truncated) = self.stream("stderr", &execution.stderr, &mut content);
        let value = execution.value.as_ref().map(|value| self.value(value, &mut content));
        self.displays(execution, &mut content);
        let reason = self.reason(execution);
        let answer = RunAnswer {
            outcome: outcome(&execution.outcome),
            reason,
            exit_code: execution.outcome.exit_code(),
            stdout,
            stdout_truncated,
            stderr,
            stderr_truncated,
            value,
            line: execution.outcome.raised().and_then(|raised| raised.line),
            displays: u64::try_from(execution.displays.len()).unwrap_or(u64::MAX),
            session: execution.session_id.clone(),
            rolled_back: execution.rolled_back_to.is_some(),
            files: ChangedFiles::of(execution),
            guidance: hints(execution),
            fuel: execution.fuel_consumed,
            duration_ms: execution.duration.as_secs_f64() * 1e3,
        };
        let remarks = remarks(execution, &answer);
        if !remarks.is_empty() {
            content.push(ContentBlock::text(remarks));
        }
        if content.is_empty() {
            content.push(ContentBlock::text("The script completed. It printed nothing."));
        }
        let mut result = match execution.is_success() {
            true => CallToolResult::success(content),
            false => CallToolResult::error(content),
        };
        result.structured_content = serde_json::to_value(&answer).ok();
        result
    }

    /// Why it did not succeed.
    fn reason(&self, execution: &Execution) -> Option<String> {
        match (&execution.outcome, self.cancelled_after_ms) {
            (outcome, _) if outcome.is_success() => None,
            // Nobody else's cancellation has an answer.
            (Outcome::Cancelled, Some(after_ms)) if execution.duration.as_millis() >= u128::from(after_ms) => {
                Some(format!("out of time: more than the {after_ms} ms of `timeout_ms`"))
            }
            (outcome, _) => Some(outcome.describe()),
        }
    }

    /// What it wrote to a stream, whole or its head and tail, and whether that is not all.
    fn stream(&self, name: &str, output: &Output, content: &mut Vec<ContentBlock>) -> (String, bool) {
        let text = output.text();
        if text.is_empty() {
            return (text, false);
        }
        let (shown, is_shortened, link) = self.shown(name, text);
        let label = if name == "stdout" { "" } else { "stderr:\n" };
        content.push(ContentBlock::text(format!("{label}{shown}")));
        content.extend(link);
        (shown, is_shortened || output.is_truncated())
    }

    fn value(&self, value: &GuestValue, content: &mut Vec<ContentBlock>) -> String {
        let (shown, _, link) = self.shown("value", value.repr.clone());
        content.push(ContentBlock::text(format!("value: {shown}")));
        content.extend(link);
        shown
    }

    /// A text as it is shown, whether that is not all of it, and where the whole is to be had.
    fn shown(&self, name: &str, text: String) -> (String, bool, Option<ContentBlock>) {
        let uri = self.id.uri(name);
        let mut link = None;
        let short = shortened(&text, |left_out| {
            link = self.keep(name, "text/plain", text.as_bytes());
            match link {
                Some(_) => format!("{left_out} characters left out; the whole is the resource {uri}"),
                None => format!("{left_out} characters left out"),
            }
        });
        match short {
            Some(short) => (short, true, link),
            None => (text, false, None),
        }
    }

    /// Keeps something, and links to it.
    pub(super) fn keep(&self, name: &str, media_type: &str, bytes: &[u8]) -> Option<ContentBlock> {
        let held = StoredOutput {
            uri: self.id.uri(name),
            name: name.into(),
            media_type: media_type.into(),
            bytes: bytes.into(),
        };
        let link = ContentBlock::resource_link(held.resource());
        self.outputs.keep(held).then_some(link)
    }
}

impl ChangedFiles {
    fn of(execution: &Execution) -> Self {
        let mut more = 0;
        let mut first = |names: &[String]| {
            more += names.len().saturating_sub(MAX_NAMES);
            names.iter().take(MAX_NAMES).cloned().collect()
        };
        let (created, modified) = (first(&execution.files_created), first(&execution.files_modified));
        let deleted = first(&execution.files_deleted);
        Self { created, modified, deleted, more: u64::try_from(more).unwrap_or(u64::MAX) }
    }
}

fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Exited { .. } => "exited",
        Outcome::Raised(_) => "raised",
        Outcome::Exhausted { .. } => "exhausted",
        Outcome::Cancelled => "cancelled",
        Outcome::Trapped { .. } => "trapped",
    }
}

fn hints(execution: &Execution) -> Vec<Hint> {
    let advice = execution.guidance.advice.iter();
    advice
        .map(|advice| Hint {
            summary: advice.summary.clone(),
            steps: advice.steps.clone(),
            correction: advice
                .correction
                .as_ref()
                .map(|correction| format!("line {}: {}", correction.line, correction.text)),
        })
        .collect()
}

/// What a model is told beside what the script printed: why it failed, what changed, and what can be done.
fn remarks(execution: &Execution, answer: &RunAnswer) -> String {
    let mut lines = Vec::new();
    if let Some(reason) = &answer.reason {
        lines.push(format!("The script did not succeed: {reason}."));
    }
    if let Some(Rollback { executions_lost, .. }) = execution.rolled_back_to {
        lines.push(match executions_lost {
            0 => "The session is as it was before this.".to_owned(),
            lost => format!("The session is as it was before this and the {lost} executions before."),
        });
    }
    for (name, output) in [("stdout", &execution.stdout), ("stderr", &execution.stderr)] {
        if output.is_truncated() {
            lines.push(format!(
                "Of {name} only the first {} of {} bytes are there.",
                output.bytes.len(),
                output.total_bytes
            ));
        }
    }
    if execution.displays_dropped > 0 {
        lines.push(format!(
            "{} displays were dropped: they take too many bytes, or there are too many.",
            execution.displays_dropped
        ));
    }
    let files = &answer.files;
    for (what, names) in [("created", &files.created), ("modified", &files.modified), ("deleted", &files.deleted)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| glovebox::escaped(name).to_string()).collect();
            lines.push(format!("files {what}: {}", names.join(", ")));
        }
    }
    if files.more > 0 {
        lines.push(format!("and {} more files", files.more));
    }
    let is_gone = execution.session_id.is_none() && execution.workspace_path.is_none();
    if is_gone && !(files.created.is_empty() && files.modified.is_empty()) {
        lines.push("These files are gone: run code in a session (session_open) to keep them.".to_owned());
    }
    for hint in &answer.guidance {
        lines.push(format!("advice: {}", hint.summary));
        lines.extend(hint.steps.iter().map(|step| format!("- {step}")));
        lines.extend(hint.correction.iter().map(|correction| format!("  {correction}")));
    }
    lines.join("\n")
}
