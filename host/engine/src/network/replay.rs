//! Requests that are answered from recorded calls.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use glovebox_core::{Entropy, PolicyError};

use super::{
    NetworkPolicy,
    message::{Code, Fault},
    secrets::Secrets,
};
use crate::{
    ToolError, ToolOutcome, ToolRecord,
    tools::{NETWORK_TOOL, ReservedTool},
};

/// The recorded answers, by the recorded request.
type Answers = BTreeMap<String, VecDeque<ToolOutcome>>;

/// Like [`open`](super::open), but answers requests from `records`. Each answer is used once, and equal requests get
/// their answers in order. Sends no requests and reads no secrets.
pub(crate) fn replay(
    policy: &NetworkPolicy,
    entropy: Entropy,
    records: &[ToolRecord],
) -> Result<(ReservedTool, BTreeMap<String, String>), PolicyError> {
    let nothing = |_: &str| Some("replayed".to_owned());
    let environment = Secrets::read_from(&policy.secrets, entropy, &nothing)?.environment();
    let mut answers = Answers::new();
    for record in records.iter().filter(|record| record.name == NETWORK_TOOL) {
        if let Some(arguments) = &record.arguments {
            answers.entry(sorted(arguments)).or_default().push_back(record.outcome.clone());
        }
    }
    let answers = Mutex::new(answers);
    let tool = ReservedTool {
        answerer: Arc::new(move |_call, arguments| answer(&answers, &arguments)),
        max_bytes: policy.message_bytes(),
        max_calls: policy.request_count,
    };
    Ok((tool, environment))
}

/// Normalizes a request for the lookup: older records have their keys in another order.
fn sorted(arguments: &str) -> String {
    serde_json::from_str::<serde_json::Value>(arguments)
        .map_or_else(|_| arguments.to_owned(), |value| value.to_string())
}

fn answer(answers: &Mutex<Answers>, arguments: &str) -> Result<String, ToolError> {
    let missing = |why: &str| ToolError::from(Fault::new(Code::Broken, format!("this is a replay, and {why}")));
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let next = answers.get_mut(&sorted(arguments)).and_then(VecDeque::pop_front);
    match next.ok_or_else(|| missing("no such request was recorded"))? {
        ToolOutcome::Returned(Some(result)) => Ok(result),
        ToolOutcome::Failed { kind, message: Some(message) } => Err(ToolError::of(kind, message)),
        ToolOutcome::Returned(None) | ToolOutcome::Failed { message: None, .. } => {
            Err(missing("the record has no contents (`limits.tool_record_bytes`)"))
        }
        ToolOutcome::Unfinished => Err(missing("the execution had ended before there was an answer")),
    }
}
