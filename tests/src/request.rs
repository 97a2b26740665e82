//! The execution request for a case's script.

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

/// The execution request for a script, without its source.
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
    /// JSON text of the `context` variable, in a step with a fresh interpreter.
    pub context: Option<String>,
    /// The session ID that the execution must have.
    pub session_id: Option<String>,
}
