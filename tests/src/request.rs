//! The request for a script of a case.

use serde::Deserialize;

/// The operation of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Runs the script.
    #[default]
    Execute,
    /// Only parses the script.
    Validate,
}

/// The request for a script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Execute or validate.
    pub operation: Operation,
    /// Standard input; empty if absent.
    pub stdin: Option<String>,
    /// The script's file name; the sandbox's default if absent.
    pub name: Option<String>,
    /// JavaScript: `detect`, `script` or `module`.
    pub kind: Option<String>,
    /// JSON text of the variable `context`, in a step with an interpreter of its own.
    pub context: Option<String>,
    /// The expected session id of the execution.
    pub session_id: Option<String>,
}
