//! Reads histories of sessions as JSON, `{SESSION: [{"begun": S, "ended": S | null, "kind": KIND, "count": N | null}]}`, and writes the sessions
//! whose history is not linearizable, `{"sessions": N, "operations": N, "refuted": [SESSION]}`.
//!
//! An operation with an unknown outcome has no end: it may have taken effect at any time after its start, or never.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Opens the session if it does not exist, increments the count and returns it.
    Execute,
    /// As `Execute`, with a tool call.
    Record,
    /// Returns the count, or 0 if there is no session.
    Info,
    /// Undoes the last execution and returns the count, or refuses.
    Undo,
    /// Ends the session and returns 1 if there was one, otherwise 0.
    Close,
}

/// An operation of a client, with its answer.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Operation {
    begun: f64,
    /// `None` if no answer came.
    ended: Option<f64>,
    kind: Kind,
    /// `None` with an `ended` value means that the operation was refused.
    count: Option<u64>,
}

/// The model: a counter that can be undone once in succession.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Session {
    is_open: bool,
    count: u64,
    /// The count before the last execution.
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
            Kind::Execute | Kind::Record => {
                (Some(count + 1), Self { is_open: true, count: count + 1, previous: Some(count) })
            }
            Kind::Info => (Some(count), *session),
            Kind::Undo => match session.previous {
                Some(previous) => (Some(previous), Self { count: previous, previous: None, ..*session }),
                None => (None, *session),
            },
            Kind::Close => (Some(u64::from(session.is_open)), Self::default()),
        };
        (operation.ended.is_none() || operation.count == answer, next)
    }
}

/// Returns `true` if some order of the operations is consistent with real time and with all answers.
fn is_linearizable(operations: &[Operation]) -> bool {
    if operations.is_empty() {
        return true;
    }
    // Simultaneous events count as concurrent: calls come first. The response of an operation without an end comes
    // after all others, when no answer depends on it. This is equivalent to an operation that never happened.
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
