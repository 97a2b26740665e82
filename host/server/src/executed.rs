//! Results of executions, as recorded in metrics and in the audit log.

use glovebox::{Execution, Language, Outcome};
use serde::{Deserialize, Serialize};

use crate::ServiceError;

/// The recorded result of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Executed {
    pub(crate) language: Language,
    pub(crate) runtime: String,
    pub(crate) outcome: String,
    pub(crate) fuel: u64,
    pub(crate) duration_ms: f64,
}

impl From<&Execution> for Executed {
    fn from(execution: &Execution) -> Self {
        Self {
            language: execution.metadata.runtime,
            runtime: execution.metadata.runtime_name.clone(),
            outcome: outcome(&execution.outcome).to_owned(),
            fuel: execution.fuel_consumed,
            duration_ms: execution.duration.as_secs_f64() * 1e3,
        }
    }
}

/// An execution that failed, or whose answer was lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) code: String,
    /// True if the script may have run nevertheless.
    pub(crate) has_run: bool,
}

impl From<&ServiceError> for Failed {
    fn from(error: &ServiceError) -> Self {
        Self { code: error.code().to_owned(), has_run: error.has_run() }
    }
}

pub(crate) type Ended = Result<Executed, Failed>;

/// The name of an outcome.
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
