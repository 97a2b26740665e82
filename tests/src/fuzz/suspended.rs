//! Resumes forged suspended executions.

use std::{sync::OnceLock, time::Duration};

use glovebox::{
    AdvanceError, ExecuteError, Language, Request, ResumeOptions, Sandbox, Started, Step, Suspended,
    SuspendedBytesError, Tool, ToolAnswer,
};
use serde_json::json;

use super::{
    Bytes,
    hibernated::{SEAL_BYTES, sealed},
};
use crate::sandbox;

/// The size of the parts before the body, in bytes.
const HEAD_BYTES: usize = 12;

const FUEL: u64 = 20_000_000;
const STDOUT_BYTES: u64 = 1_000;

/// A script whose journal contains an answer, a random number and a time. It waits for two calls.
const SOURCE: &str = "\
print(await tools.ask({q: 1}), Math.random(), Date.now());
print(await Promise.all([2, 3].map(q => tools.ask({q}))));";

/// Resumes an execution from arbitrary bytes. The result must be a meaningful error, or an execution that obeys its
/// policy.
///
/// The first byte selects the kind of forgery: unchanged bytes; bytes with a matching checksum; or the bytes of a real
/// execution, whose body is overwritten with the remaining input.
pub fn suspended(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    let forged = match mode % 3 {
        0 => rest.to_vec(),
        1 => sealed(rest),
        _ => forged(real(), rest),
    };
    let peeked = Suspended::peek(&forged);
    match Suspended::from_bytes(&forged, None) {
        Ok(suspended) => {
            assert!(peeked.is_some(), "the bytes can be decoded");
            resume(&base().0, &suspended);
        }
        // Without a key, invalid bytes must never be reported as unauthenticated.
        Err(SuspendedBytesError::NotAuthentic | SuspendedBytesError::Unauthenticated) => panic!("there is no key"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn resume(sandbox: &Sandbox, suspended: &Suspended) {
    for call in suspended.tool_requests() {
        let _ = call.values();
    }
    if !suspended.is_in_session() {
        return advance(sandbox.start(suspended.request()));
    }
    match sandbox.resume_suspended_session(suspended, ResumeOptions::default()) {
        Ok(session) => advance(session.start(suspended.request())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Answers the calls of a resumed execution until it ends. The number of steps is limited by `limits.tool_calls`.
fn advance(started: Result<Started, ExecuteError>) {
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut answers = Vec::new();
    loop {
        match started.advance(answers, Some(Duration::from_secs(60))) {
            Ok(Step::NeedsTools(calls)) => {
                answers = calls.iter().map(|call| ToolAnswer::value(call.id, &json!("answer"))).collect();
            }
            Ok(Step::Done(execution)) => {
                assert!(execution.fuel_consumed <= FUEL);
                assert!(execution.stdout.bytes.len() as u64 <= STDOUT_BYTES);
                return;
            }
            Ok(Step::Running) => panic!("the execution exceeds its timeout"),
            Err(AdvanceError::Execute(error)) => {
                assert!(!error.to_string().is_empty());
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns a sandbox with small limits, and the bytes of an execution that was suspended in it.
fn base() -> &'static (Sandbox, Vec<u8>) {
    static BASE: OnceLock<(Sandbox, Vec<u8>)> = OnceLock::new();
    BASE.get_or_init(|| {
        let sandbox = sandbox(Language::JavaScript, |policy| {
            policy.limits.fuel = FUEL;
            policy.limits.memory_bytes = 16 << 20;
            policy.limits.stdout_bytes = STDOUT_BYTES;
            policy.limits.timeout_ms = 2_000;
            policy.limits.tool_calls = 20;
        });
        let schema = json!({ "properties": { "q": {} }, "required": ["q"] });
        let sandbox = sandbox.with_tools(&[Tool::new("ask", "").schema(schema).stepped()]).expect("the tool is valid");
        let request = Request::new(SOURCE).stdin(b"in").context(&json!({ "n": 1 })).suspendable(true);
        let started = sandbox.start(request).expect("the script starts");
        for answers in [Vec::new(), vec![ToolAnswer::value(0, &json!([1.5, "one"]))]] {
            let step = started.advance(answers, Some(Duration::from_secs(60))).expect("the script waits");
            assert!(matches!(step, Step::NeedsTools(_)), "{step:?}");
        }
        let suspended = started.suspend().expect("the execution waits for its last two calls");
        assert_eq!(suspended.tool_requests().len(), 2);
        (sandbox, suspended.to_bytes(None))
    })
}

/// Returns a real execution's bytes.
fn real() -> &'static [u8] {
    &base().1
}

/// Applies `edits` to the body of a suspended execution, then seals it again.
fn forged(real: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = real.to_vec();
    let mut edits = Bytes(edits);
    while !edits.is_empty() && bytes.len() > HEAD_BYTES + 2 * SEAL_BYTES {
        let end = bytes.len() - SEAL_BYTES;
        let at = HEAD_BYTES + ((edits.below(256) << 8) | edits.below(256)) % (end - HEAD_BYTES);
        let run = edits.run(9);
        match edits.below(4) {
            0 => bytes[at] ^= edits.byte(),
            1 => drop(bytes.splice(at..at, run.iter().copied())),
            2 => drop(bytes.drain(at..(at + run.len()).min(end))),
            _ => bytes[at..end].iter_mut().zip(run).for_each(|(byte, new)| *byte = *new),
        }
    }
    sealed(&bytes)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let whole = |mode: u8| [&[mode], real()].concat();
    vec![
        whole(0),
        whole(1),
        vec![2],
        // Overwrites a length with a number close to the maximum.
        vec![2, 0, 64, 9, 255, 255, 255, 255, 255, 255, 255, 255, 255, 3],
        vec![2, 1, 30, 1, 7, 1, 1, 90, 2, 8, 8, 2],
    ]
}
