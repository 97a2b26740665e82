//! Runs a single call on a thread of its own.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use glovebox_core::tools::{Answer, Done, Failure, Held, hold_answer, json_text, within};
use serde_json::Value;

use super::{
    ToolCall, ToolErrorKind,
    abandoned::Abandoned,
    call_status::CallStatus,
    pending::{PendingCall, PendingCalls},
    runner::CompletionQueue,
    tool::Answerer,
    toolbox::Entry,
};

/// Stack size of a call's thread: several times the need of validating the deepest arguments with the deepest schema.
/// Only touched pages take memory.
const STACK_BYTES: usize = 16 << 20;

/// The tool threads of an engine, and the limit on their number.
#[derive(Debug)]
pub(crate) struct ToolThreads {
    running: AtomicUsize,
    most: usize,
}

/// Slot of a running thread.
struct ThreadPermit(Arc<ToolThreads>);

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ToolThreads {
    pub(crate) fn new(most: u32) -> Arc<Self> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Arc::new(Self { running: AtomicUsize::new(0), most })
    }

    fn enter(self: &Arc<Self>) -> Option<ThreadPermit> {
        let next = |running| (running < self.most).then_some(running + 1);
        let taken = self.running.try_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok();
        taken.then(|| ThreadPermit(Arc::clone(self)))
    }
}

/// A call to run.
pub(super) struct Job {
    pub(super) call: ToolCall,
    pub(super) entry: Arc<Entry>,
    pub(super) arguments: Value,
    /// The arguments as JSON text, with all digits and the original order of keys.
    pub(super) text: String,
    /// Memory charged for the arguments.
    pub(super) held: Held,
    pub(super) max_bytes: u64,
    /// Counts the call if it is abandoned.
    pub(super) abandoned: Arc<Abandoned>,
    /// Receives the call if the caller answers it. `None` if no caller steps through the execution.
    pub(super) pending: Option<Arc<PendingCalls>>,
}

/// Result of a call's thread.
enum Work {
    Answered(Answer),
    /// The validated arguments as JSON text, for the caller to answer.
    Checked(Arc<PendingCalls>, String),
}

pub(super) fn start(
    threads: &Arc<ToolThreads>,
    completions: &Arc<CompletionQueue>,
    job: Job,
) -> Result<Arc<CallStatus>, Failure> {
    let busy = |message: &str| Failure::new(ToolErrorKind::Limit, message);
    let place = threads.enter().ok_or_else(|| busy("the host runs the maximum number of tools; try again later"))?;
    let status = CallStatus::new(&job.entry, &job.abandoned, job.call.session_id.clone(), job.held.bytes());
    let (completions, ticket) = (Arc::clone(completions), Arc::clone(&status));
    thread::Builder::new()
        .name(format!("tool {}", job.call.name))
        .stack_size(STACK_BYTES)
        .spawn(move || run(&completions, &ticket, job, place))
        .map_err(|_| busy("the host cannot start a thread for the tool; try again later"))?;
    Ok(status)
}

fn run(completions: &Arc<CompletionQueue>, status: &Arc<CallStatus>, job: Job, place: ThreadPermit) {
    let Job { call, entry, arguments, text, held, max_bytes, pending, .. } = job;
    // Catch a panic of the handler: the panic hook has reported it, and the script gets an error.
    let worked = panic::catch_unwind(AssertUnwindSafe(|| work(&call, &entry, (arguments, text), max_bytes, pending)));
    let panicked = |_| Work::Answered(Err(Failure::new(ToolErrorKind::Failed, format!("`{}` panicked", call.name))));
    let worked = worked.unwrap_or_else(panicked);
    let ended = completions.elapsed();
    let index = call.index;
    // Released before the answer becomes visible, so that a caller who sees the answer can rely on a free slot.
    drop(place);
    match worked {
        Work::Answered(answer) => {
            drop(held);
            if status.answer() {
                let (answer, held) = hold_answer(&completions.account, answer);
                completions.put(Done { index, answer, held, ended });
            }
        }
        Work::Checked(pending, arguments) => {
            let (status_there, completions) = (Arc::clone(status), Arc::clone(completions));
            pending.push(
                index,
                PendingCall { name: call.name, arguments, held, max_bytes, status: status_there, completions },
            );
            // If the call was abandoned meanwhile, it must be removed again.
            if !status.hand_over() {
                pending.withdraw(index);
            }
        }
    }
}

fn work(
    call: &ToolCall,
    entry: &Entry,
    (arguments, text): (Value, String),
    max_bytes: u64,
    pending: Option<Arc<PendingCalls>>,
) -> Work {
    if let Err(failure) = entry.checked.check(&arguments) {
        return Work::Answered(Err(failure));
    }
    Work::Answered(match (&entry.answerer, pending) {
        (Answerer::Handler(handler), _) => {
            handler(call, arguments).map_err(Failure::from).and_then(|result| within(result.to_string(), max_bytes))
        }
        (Answerer::TextHandler(handler), _) => {
            handler(call, text).map_err(Failure::from).and_then(|text| within(text, max_bytes)).and_then(json_text)
        }
        (Answerer::Caller, Some(pending)) => return Work::Checked(pending, text),
        (Answerer::Caller, None) => {
            let message = format!("`{}` is only answered in started executions", call.name);
            Err(Failure::new(ToolErrorKind::Failed, message))
        }
    })
}
