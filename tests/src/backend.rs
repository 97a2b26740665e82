//! Backends that run cases.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Case;

/// How an execution was carried out, as far as cases check it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MetadataSeen {
    /// `python` or `javascript`.
    pub runtime: String,
    /// Whether a prepared image ran.
    pub prepared: bool,
    /// All bytes written to standard output, retained or not.
    pub stdout_total_bytes: u64,
    /// All bytes written to standard error, retained or not.
    pub stderr_total_bytes: u64,
}

/// An execution's result, with the names of `glovebox run --json`, so that a backend that only produces JSON needs no
/// conversion.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Whether the script succeeded.
    pub success: bool,
    /// The outcome: an object whose `kind` says which.
    pub outcome: serde_json::Map<String, serde_json::Value>,
    /// The process exit code for it.
    pub exit_code: i32,
    /// The exception that asked it to stop.
    pub interrupted: Option<serde_json::Value>,
    /// The value of the script's last expression, in a session.
    pub value: Option<serde_json::Value>,
    /// Standard output, as retained.
    pub stdout: String,
    /// Standard error, as retained.
    pub stderr: String,
    /// Whether standard output was cut.
    pub stdout_truncated: bool,
    /// Whether standard output was truncated.
    pub stderr_truncated: bool,
    /// What it showed.
    pub displays: Vec<serde_json::Value>,
    /// How much of that was dropped.
    pub displays_dropped: u64,
    /// Fuel used.
    pub fuel_consumed: u64,
    /// The most memory in use.
    pub memory_used_bytes: u64,
    /// Wall-clock time.
    pub duration_ms: f64,
    /// Files created.
    pub files_created: Vec<String>,
    /// Files modified.
    pub files_modified: Vec<String>,
    /// Files deleted.
    pub files_deleted: Vec<String>,
    /// The tools it called.
    pub tool_calls: Vec<serde_json::Value>,
    /// The host directory behind `/app`.
    pub workspace_path: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// What a session did after it was unwound.
    pub rolled_back_to: Option<serde_json::Value>,
    /// What it did with its fuel, and advice about a failure.
    pub guidance: serde_json::Value,
    /// How it was carried out.
    pub metadata: MetadataSeen,
}

/// One diagnostic of a validation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiagnosticSeen {
    /// Its line, counted from 1.
    pub line: u32,
    /// Its column, counted from 1.
    pub column: u32,
    /// Its message.
    pub message: String,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepResult {
    /// It ran.
    Executed {
        /// What it did.
        observed: Box<Observed>,
        /// The files that the step's expectations name, after the execution.
        files: BTreeMap<String, Vec<u8>>,
    },
    /// It was validated.
    Validated(Vec<DiagnosticSeen>),
    /// A variable was read: `{"repr": …, "json": …}`, or `None` if it does not exist.
    Variable(Option<serde_json::Value>),
    /// Files were listed: their paths.
    Listed(Vec<String>),
    /// It was done, with no result but the files that its expectations name.
    Done {
        /// By path.
        files: BTreeMap<String, Vec<u8>>,
    },
    /// The sandbox refused it, with this message.
    Refused(String),
}

/// A backend: the Rust engine, the same through a component, and providers in other hosts.
pub trait Backend: Send + Sync {
    /// Runs all steps of a case and returns a result for each.
    fn run(&self, case: &Case) -> Vec<StepResult>;
}
