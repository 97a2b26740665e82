//! The part of a result that is reproducible under a fixed clock and seeded entropy. It is equal in all hosts and
//! backends.

use serde_json::Value;

use crate::{Case, Step, StepResult};

/// Returns `true` if this result and the case's later results depend on real time despite a fixed clock. The causes are
/// an interruption shortly before the timeout, and concurrent tool calls.
pub fn depends_on_time(case: &Case, step: &Step, result: &StepResult) -> bool {
    let StepResult::Executed { observed, .. } = result else { return false };
    let limits = &case.policy.limits;
    step.concurrent || observed.duration_ms >= limits.timeout_ms.saturating_sub(limits.timeout_reserve_ms) as f64
}

/// Returns the part of a result that is reproducible under a fixed clock and seeded entropy.
pub fn comparable(result: &StepResult, by_time: bool) -> StepResult {
    match result.clone() {
        StepResult::Executed { mut observed, files } => {
            observed.duration_ms = 0.0;
            // The host chooses the session IDs.
            observed.session_id = None;
            if !observed.tool_calls.is_empty() {
                // The host's memory for tool calls is charged while they run, so the peak depends on their timing.
                observed.memory_used_bytes = 0;
            }
            if by_time {
                (observed.fuel_consumed, observed.memory_used_bytes) = (0, 0);
                observed.outcome.remove("used");
                observed.guidance = Value::Null;
                (observed.interrupted, observed.stderr, observed.metadata.stderr_total_bytes) =
                    (None, String::new(), 0);
            }
            for call in &mut observed.tool_calls {
                for time in ["started_ms", "duration_ms"] {
                    call.as_object_mut().expect("a call is an object").remove(time);
                }
            }
            StepResult::Executed { observed, files }
        }
        // The error messages of the engine and of the contract differ.
        StepResult::Refused(_) => StepResult::Refused(String::new()),
        other => other,
    }
}
