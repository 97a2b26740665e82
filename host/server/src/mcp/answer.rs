//! Results of MCP tools, especially of `run_code`: content blocks for the model, and structured content for
//! programs.
//!
//! Each picture is a separate content block. The structured content never contains pictures, because clients pass it to
//! the model as text.

use glovebox::{Diagnostic, Execution, Outcome, Output, Rollback};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    McpServer,
    arguments::RunCode,
    outputs::{OutputId, StoredOutput},
};
use crate::{ServiceError, audit::outcome_name, text::quoted};

/// Maximum number of listed file names per kind of change. A script can create ten thousand files, but a model reads
/// only the first names.
const MAX_NAMES: usize = 100;

/// Maximum total length of the listed file names per kind of change, in bytes. A script can create files with names of
/// several thousand bytes.
const MAX_NAMES_BYTES: usize = 16 << 10;

/// The structured content of `run_code`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct RunAnswer {
    /// `completed`, `exited`, `raised`, `exhausted`, `cancelled` or `trapped`; `type-errors` if the script was not run.
    outcome: &'static str,
    /// A sentence that explains why the script did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The exit code that the script would have as a process: 0 for success.
    exit_code: i32,
    /// Standard output. Long output is shortened to its head and tail.
    stdout: String,
    /// True if `stdout` is incomplete.
    stdout_truncated: bool,
    /// Standard error. Long output is shortened to its head and tail.
    stderr: String,
    /// True if `stderr` is incomplete.
    stderr_truncated: bool,
    /// The value of the last expression, as the language prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The line of the script that raised the exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// The errors that `check_types` found. The script was not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    type_errors: Vec<TypeError>,
    /// The number of displays, such as pictures and tables.
    displays: u64,
    /// The session that the script ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// True if the session was restored to its state before the script, or to an earlier state.
    rolled_back: bool,
    files: ChangedFiles,
    /// Advice on a failure.
    guidance: Vec<Hint>,
    /// The work done, in units of fuel.
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
    /// The number of changed files that are not listed.
    more: u64,
}

/// A type error in a script.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct TypeError {
    line: u32,
    column: u32,
    message: String,
}

/// A problem and its possible solutions.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Hint {
    summary: String,
    steps: Vec<String>,
    /// The line with the suggested correction, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
}

/// Builder of the result of `run_code`.
pub(super) struct AnswerBuilder {
    server: McpServer,
    /// The random ID in the URIs of the execution's stored outputs.
    id: OutputId,
    /// The `timeout_ms` of a request to a session, after which the execution is cancelled. `None` outside sessions,
    /// where the policy limits the time.
    cancelled_after_ms: Option<u64>,
}

impl AnswerBuilder {
    pub(super) fn new(server: &McpServer, given: &RunCode) -> Result<Self, ServiceError> {
        let cancelled_after_ms = given.timeout_ms.filter(|_| given.session.is_some());
        Ok(Self { server: server.clone(), id: OutputId::random()?, cancelled_after_ms })
    }

    /// Builds the result, which is marked as an error if the script did not succeed.
    pub(super) fn answer(&self, execution: &Execution) -> CallToolResult {
        let mut content = Vec::new();
        let (stdout, stdout_truncated) = self.stream("stdout", &execution.stdout, &mut content);
        let (stderr, stderr_truncated) = self.stream("stderr", &execution.stderr, &mut content);
        let value = execution.value.as_ref();
        let value = value.map(|value| self.show("value", "value: ", value.repr.clone(), &mut content).0);
        self.displays(execution, &mut content);
        let reason = self.reason(execution);
        let answer = RunAnswer {
            outcome: outcome_name(&execution.outcome),
            reason,
            exit_code: execution.outcome.exit_code(),
            stdout,
            stdout_truncated,
            stderr,
            stderr_truncated,
            value,
            line: execution.outcome.raised().and_then(|raised| raised.line),
            type_errors: Vec::new(),
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
            self.show("remarks", "", remarks, &mut content);
        }
        if content.is_empty() {
            content.push(ContentBlock::text("The script completed. It printed nothing."));
        }
        match execution.is_success() {
            true => success(content, &answer),
            false => with_structure(CallToolResult::error(content), &answer),
        }
    }

    /// Returns the reason why the script failed, or `None` if it succeeded.
    fn reason(&self, execution: &Execution) -> Option<String> {
        match (&execution.outcome, self.cancelled_after_ms) {
            (outcome, _) if outcome.is_success() => None,
            // The timeout has passed. All other cancellations come from the client or from a shutdown.
            (Outcome::Cancelled, Some(after_ms)) if execution.duration.as_millis() >= u128::from(after_ms) => {
                Some(format!("out of time: the script ran longer than {after_ms} ms (`timeout_ms`)"))
            }
            (outcome, _) => Some(outcome.describe()),
        }
    }

    /// Adds an output stream. Returns the shown text, and `true` if it is incomplete.
    fn stream(&self, name: &str, output: &Output, content: &mut Vec<ContentBlock>) -> (String, bool) {
        let text = output.text();
        if text.is_empty() {
            return (text, false);
        }
        let label = if name == "stdout" { "" } else { "stderr:\n" };
        let (shown, is_shortened) = self.show(name, label, text, content);
        (shown, is_shortened || output.is_truncated())
    }

    /// Adds `text` after its label, shortened if necessary, with a link to the full text. Returns the shown text, and
    /// `true` if it is incomplete.
    fn show(&self, name: &str, label: &str, text: String, content: &mut Vec<ContentBlock>) -> (String, bool) {
        let uri = self.id.uri(name);
        let mut link = None;
        let short = shortened(&text, |left_out| {
            link = self.keep(name, "text/plain", text.as_bytes());
            match link {
                Some(_) => format!("{left_out} characters omitted; the full text is available as resource {uri}"),
                None => format!("{left_out} characters omitted"),
            }
        });
        let is_shortened = short.is_some();
        let shown = short.unwrap_or(text);
        content.push(ContentBlock::text(format!("{label}{shown}")));
        content.extend(link);
        (shown, is_shortened)
    }

    /// Stores an output and returns a link to it. Returns `None` if the output is too large to store.
    pub(super) fn keep(&self, name: &str, media_type: &str, bytes: &[u8]) -> Option<ContentBlock> {
        let output = StoredOutput::new(self.id.uri(name), name, media_type, bytes);
        let link = ContentBlock::resource_link(output.resource.clone());
        self.server.0.outputs.keep(output).then_some(link)
    }
}

/// Builds the result for a script that was not run because of these type errors.
pub(super) fn with_type_errors(errors: &[Diagnostic]) -> CallToolResult {
    let reason = "the script was not run, because it has type errors";
    let mut lines = vec![format!("{reason}:")];
    let type_errors = errors.iter().map(|Diagnostic { line, column, message }| {
        let message = quoted(glovebox::escaped_text(message));
        lines.push(format!("line {line}, column {column}: {message}"));
        TypeError { line: *line, column: *column, message }
    });
    let answer = RunAnswer {
        outcome: "type-errors",
        reason: Some(reason.to_owned()),
        exit_code: 1,
        type_errors: type_errors.collect(),
        ..RunAnswer::default()
    };
    with_structure(CallToolResult::error(vec![ContentBlock::text(lines.join("\n"))]), &answer)
}

impl ChangedFiles {
    fn of(execution: &Execution) -> Self {
        let mut more = 0;
        let mut first = |names: &[String]| {
            let mut bytes = 0;
            let fits = names.iter().take(MAX_NAMES).take_while(|name| {
                bytes += name.len();
                bytes <= MAX_NAMES_BYTES
            });
            let listed: Vec<String> = fits.cloned().collect();
            more += names.len() - listed.len();
            listed
        };
        let (created, modified) = (first(&execution.files_created), first(&execution.files_modified));
        let deleted = first(&execution.files_deleted);
        Self { created, modified, deleted, more: u64::try_from(more).unwrap_or(u64::MAX) }
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

/// Returns the text that follows the output: the failure, the changed files, and advice for the model.
fn remarks(execution: &Execution, answer: &RunAnswer) -> String {
    let mut lines = Vec::new();
    if let Some(reason) = &answer.reason {
        lines.push(format!("The script failed: {reason}."));
    }
    if let Some(Rollback { executions_lost, .. }) = execution.rolled_back_to {
        lines.push(match executions_lost {
            0 => "The session was restored to its state before this script.".to_owned(),
            lost => format!(
                "The session was restored to an earlier state: the changes of this script and of earlier executions \
                 ({lost}) are lost."
            ),
        });
    }
    for (name, output) in [("stdout", &execution.stdout), ("stderr", &execution.stderr)] {
        if output.is_truncated() {
            lines.push(format!(
                "{name} was truncated to the first {} of {} bytes.",
                output.bytes.len(),
                output.total_bytes
            ));
        }
    }
    if execution.displays_dropped > 0 {
        lines.push(format!(
            "Displays were dropped because they were too many or too large: {}.",
            execution.displays_dropped
        ));
    }
    let files = &answer.files;
    for (what, names) in [("created", &files.created), ("modified", &files.modified), ("deleted", &files.deleted)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| quoted(glovebox::escaped(name))).collect();
            lines.push(format!("files {what}: {}", names.join(", ")));
        }
    }
    if files.more > 0 {
        lines.push(format!("files not listed: {}", files.more));
    }
    let is_gone = execution.session_id.is_none() && execution.workspace_path.is_none();
    if is_gone && !(files.created.is_empty() && files.modified.is_empty()) {
        lines.push("These files were discarded: run code in a session (session_open) to keep them.".to_owned());
    }
    for hint in &answer.guidance {
        lines.push(format!("advice: {}", hint.summary));
        lines.extend(hint.steps.iter().map(|step| format!("- {step}")));
        lines.extend(hint.correction.iter().map(|correction| format!("  {correction}")));
    }
    lines.join("\n")
}

/// Returns the result of an MCP tool: content blocks for the model, and structured content for programs.
pub(super) fn success(content: Vec<ContentBlock>, structured: &impl Serialize) -> CallToolResult {
    with_structure(CallToolResult::success(content), structured)
}

/// Like [`success`], with a single text block.
pub(super) fn text(text: String, structured: &impl Serialize) -> CallToolResult {
    success(vec![ContentBlock::text(text)], structured)
}

fn with_structure(mut result: CallToolResult, structured: &impl Serialize) -> CallToolResult {
    result.structured_content = serde_json::to_value(structured).ok();
    result
}

/// The number of characters shown from the start of a long text, about a thousand tokens. Scripts usually print their
/// main result first.
pub(super) const HEAD_CHARS: usize = 4_000;

/// The number of characters shown from the end of a long text, where errors and final results usually appear.
pub(super) const TAIL_CHARS: usize = 4_000;

/// Shortens text to its start and end, separated by a line that `note` builds from the number of omitted characters.
/// Returns `None` if the text is short enough.
pub(super) fn shortened(text: &str, note: impl FnOnce(usize) -> String) -> Option<String> {
    // The byte length is an upper bound on the length in characters, so most texts need no counting.
    if text.len() <= HEAD_CHARS + TAIL_CHARS {
        return None;
    }
    let count = text.chars().count();
    let left_out = count.checked_sub(HEAD_CHARS + TAIL_CHARS).filter(|left_out| *left_out > 0)?;
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let head = text.get(..at(HEAD_CHARS)).unwrap_or_default();
    let tail = text.get(at(count - TAIL_CHARS)..).unwrap_or_default();
    Some(format!("{head}\n[… {} …]\n{tail}", note(left_out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_over_the_limit_is_shortened() {
        let max = HEAD_CHARS + TAIL_CHARS;
        let note = |left_out: usize| format!("{left_out} left out");
        for letter in ["x", "é", "🙂"] {
            assert_eq!(shortened(&letter.repeat(max - 1), note), None);
            assert_eq!(shortened(&letter.repeat(max), note), None);
            let short = shortened(&letter.repeat(max + 1), note).unwrap();
            let (head, tail) = short.split_once("\n[… 1 left out …]\n").unwrap();
            assert_eq!((head, tail), (&*letter.repeat(HEAD_CHARS), &*letter.repeat(TAIL_CHARS)));
        }
    }
}
