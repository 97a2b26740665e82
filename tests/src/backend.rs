//! Backends run cases and report the results.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Case;

/// The metadata of an execution that cases check.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MetadataSeen {
    /// The language of the runtime: `python` or `javascript`.
    pub runtime: String,
    /// `true` if the execution used a prepared image.
    pub prepared: bool,
    /// The number of bytes written to standard output, including dropped bytes.
    pub stdout_total_bytes: u64,
    /// The number of bytes written to standard error, including dropped bytes.
    pub stderr_total_bytes: u64,
}

/// The result of an execution. The field names are the keys of `glovebox run --json`, so a backend that produces JSON
/// needs no conversion.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedExecution {
    /// `true` if the script succeeded.
    pub success: bool,
    /// The outcome: an object with a `kind` key.
    pub outcome: serde_json::Map<String, serde_json::Value>,
    /// The process exit code for the outcome.
    pub exit_code: i32,
    /// The exception that ended the interrupted script.
    pub interrupted: Option<serde_json::Value>,
    /// The value of the script's last expression, in a session.
    pub value: Option<serde_json::Value>,
    /// The retained standard output.
    pub stdout: String,
    /// The retained standard error.
    pub stderr: String,
    /// `true` if standard output was truncated.
    pub stdout_truncated: bool,
    /// `true` if standard error was truncated.
    pub stderr_truncated: bool,
    /// The displays, in order.
    pub displays: Vec<serde_json::Value>,
    /// The number of dropped displays.
    pub displays_dropped: u64,
    /// The fuel that the script used.
    pub fuel_consumed: u64,
    /// The peak memory of the execution, in bytes.
    pub memory_used_bytes: u64,
    /// The wall-clock time of the execution, in milliseconds.
    pub duration_ms: f64,
    /// The paths of the files that the script created, sorted.
    pub files_created: Vec<String>,
    /// The paths of the files that the script modified, sorted.
    pub files_modified: Vec<String>,
    /// The paths of the files that the script deleted, sorted.
    pub files_deleted: Vec<String>,
    /// The records of the tool calls, in order.
    pub tool_calls: Vec<serde_json::Value>,
    /// The host directory behind `/app`.
    pub workspace_path: Option<String>,
    /// The session's ID.
    pub session_id: Option<String>,
    /// The checkpoint that the session was rolled back to after the script was unwound.
    pub rolled_back_to: Option<serde_json::Value>,
    /// The fuel use, and advice about a failure.
    pub guidance: serde_json::Value,
    /// The runtime that executed the script, and the output sizes.
    pub metadata: MetadataSeen,
}

/// A diagnostic from a validation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiagnosticSeen {
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
    /// The parser's message.
    pub message: String,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepResult {
    /// The step executed a script.
    Executed {
        /// The result of the execution.
        observed: Box<ObservedExecution>,
        /// The files that the step's expectations name, after the execution.
        files: BTreeMap<String, Vec<u8>>,
    },
    /// The step parsed a script and returned its diagnostics.
    Validated(Vec<DiagnosticSeen>),
    /// The step read a variable: `{"repr": …, "json": …}`, or `None` if the variable does not exist.
    Variable(Option<serde_json::Value>),
    /// The step listed these paths.
    Listed(Vec<String>),
    /// The step has no result except the files that its expectations name.
    Done {
        /// The contents of the files by path.
        files: BTreeMap<String, Vec<u8>>,
    },
    /// The sandbox rejected the step, with this message.
    Refused(String),
}

/// A backend: the Rust engine, the engine through a component, or a provider in another host.
pub trait Backend: Send + Sync {
    /// Runs all steps of a case and returns a result for each.
    fn run(&self, case: &Case) -> Vec<StepResult>;
}
