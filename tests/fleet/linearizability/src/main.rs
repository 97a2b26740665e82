//! Reads session histories as JSON, `{SESSION: [{"begun": S, "ended": S | null, "kind": KIND, "count": N | null}]}`.
//! Writes the sessions whose history is not linearizable, `{"sessions": N, "operations": N, "refuted": [SESSION]}`.
//!
//! An operation with an unknown outcome has no end: it may have taken effect at any time after its start, or not at
//! all.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, error::Error, io};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OperationKind {
    /// Opens the session if it does not exist, increments the count and returns it.
    Execute,
    /// Like `Execute`, but with a tool call.
    Record,
    /// Returns the count, or 0 if the session does not exist.
    Info,
    /// Undoes the last execution and returns the new count. Fails if there is nothing to undo.
    Undo,
    /// Ends the session. Returns 1 if the session existed, otherwise 0.
    Close,
}

/// A client's operation and its answer.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Operation {
    begun: f64,
    /// `None` if the client received no answer.
    ended: Option<f64>,
    kind: OperationKind,
    /// `None` if the client received no answer or a refusal.
    count: Option<u64>,
}

/// The model of a session: a counter that supports a single undo after each execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Session {
    is_open: bool,
    count: u64,
    /// The count before the last execution, unless it has been undone.
    previous: Option<u64>,
}

impl Specification for Session {
    type State = Self;
    type Operation = Operation;

    fn init() -> Self {
        Self::default()
    }

    fn apply(operation: &Operation, session: &Self) -> (bool, Self) {
        let count = session.count;
        let (answer, next) = match operation.kind {
            OperationKind::Execute | OperationKind::Record => {
                (Some(count + 1), Self { is_open: true, count: count + 1, previous: Some(count) })
            }
            OperationKind::Info => (Some(count), *session),
            OperationKind::Undo => match session.previous {
                Some(previous) => (Some(previous), Self { count: previous, previous: None, ..*session }),
                None => (None, *session),
            },
            OperationKind::Close => (Some(u64::from(session.is_open)), Self::default()),
        };
        (operation.ended.is_none() || operation.count == answer, next)
    }
}

/// Returns `true` if some order of the operations is consistent with real time and with all answers.
fn is_linearizable(operations: &[Operation]) -> bool {
    if operations.is_empty() {
        return true;
    }
    // Simultaneous events are treated as concurrent: calls precede responses. An operation without an end responds
    // after all other events. Its result no longer matters then, so the operation might as well never have happened.
    let mut events = Vec::new();
    for (process, operation) in operations.iter().enumerate() {
        events.push((operation.begun, false, process, Action::Call(*operation)));
        events.push((operation.ended.unwrap_or(f64::INFINITY), true, process, Action::Response(*operation)));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let actions = events.into_iter().map(|(_, _, process, action)| (process, action)).collect();
    WGLChecker::<Session>::is_linearizable(History::from_actions(actions))
}

#[derive(Serialize)]
struct Verdict {
    sessions: usize,
    operations: usize,
    refuted: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let sessions: BTreeMap<String, Vec<Operation>> = serde_json::from_reader(io::stdin().lock())?;
    let verdict = Verdict {
        sessions: sessions.len(),
        operations: sessions.values().map(Vec::len).sum(),
        refuted: sessions
            .iter()
            .filter(|(_, operations)| !is_linearizable(operations))
            .map(|(id, _)| id.clone())
            .collect(),
    };
    serde_json::to_writer(io::stdout().lock(), &verdict)?;
    Ok(())
}
