//! One call on its thread.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use serde_json::Value;

use super::{
    ToolCall, ToolErrorKind,
    abandoned::{Abandoned, Origin},
    account::Held,
    error::Failure,
    exchange::{Done, Exchange},
    reply::Answer,
    toolbox::Entry,
};

/// How many threads of tools an engine runs at once.
#[derive(Debug)]
pub(crate) struct ToolThreads {
    running: AtomicUsize,
    most: usize,
}

/// One thread's place among them.
struct Place(Arc<ToolThreads>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ToolThreads {
    pub(crate) fn new(most: u32) -> Arc<Self> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Arc::new(Self { running: AtomicUsize::new(0), most })
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        let next = |running| (running < self.most).then_some(running + 1);
        let taken = self.running.try_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok();
        taken.then(|| Place(Arc::clone(self)))
    }
}

/// A call that is to run.
pub(super) struct Job {
    pub(super) call: ToolCall,
    pub(super) entry: Arc<Entry>,
    pub(super) arguments: Value,
    /// What is held for the arguments.
    pub(super) held: Held,
    pub(super) bytes_most: u64,
    /// Where it is counted if it is given up.
    pub(super) abandoned: Arc<Abandoned>,
}

/// Whether anybody waits for a call's answer.
#[derive(Debug)]
pub(super) struct Fate {
    state: Mutex<State>,
    entry: Arc<Entry>,
    abandoned: Arc<Abandoned>,
    origin: Origin,
    /// What its arguments hold.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Answered,
    Abandoned,
}

impl Fate {
    fn of(job: &Job) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Running),
            entry: Arc::clone(&job.entry),
            abandoned: Arc::clone(&job.abandoned),
            origin: job.call.session_id.clone(),
            bytes: job.held.bytes(),
        })
    }

    /// What the call's arguments hold.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Nobody waits any longer: unless it has answered, the handler counts as abandoned until it returns.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Running {
            *state = State::Abandoned;
            self.entry.abandoned().fetch_add(1, Ordering::SeqCst);
            self.abandoned.add(&self.origin, self.bytes);
        }
    }

    /// The handler has returned; says whether somebody waits for that.
    fn answer(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Abandoned {
            self.entry.abandoned().fetch_sub(1, Ordering::SeqCst);
            self.abandoned.remove(&self.origin, self.bytes);
            return false;
        }
        *state = State::Answered;
        true
    }
}

/// Starts a call.
pub(super) fn start(threads: &Arc<ToolThreads>, exchange: &Arc<Exchange>, job: Job) -> Result<Arc<Fate>, Failure> {
    let busy = |message: &str| Failure::new(ToolErrorKind::Limit, message);
    let place = threads.enter().ok_or_else(|| busy("the host runs as many tools as it may; try again later"))?;
    let fate = Fate::of(&job);
    let (exchange, ticket) = (Arc::clone(exchange), Arc::clone(&fate));
    thread::Builder::new()
        .name(format!("tool {}", job.call.name))
        .spawn(move || run(&exchange, &ticket, job, place))
        .map_err(|_| busy("the host has no thread to run it on; try again later"))?;
    Ok(fate)
}

fn run(exchange: &Arc<Exchange>, fate: &Fate, job: Job, place: Place) {
    let Job { call, entry, arguments, held, bytes_most, .. } = job;
    // A handler's panic is its own: it has been reported by the panic hook, and the script gets an error.
    let answered = panic::catch_unwind(AssertUnwindSafe(|| answer(&call, &entry, arguments, bytes_most)));
    let panicked = |_| Err(Failure::new(ToolErrorKind::Failed, format!("`{}` broke down", call.name)));
    let answer = answered.unwrap_or_else(panicked);
    let ended = Instant::now();
    drop(held);
    // Before the answer can be seen: whoever sees it may count on the place being free.
    drop(place);
    if fate.answer() {
        let (answer, held) = exchange.hold_answer(answer);
        exchange.put(Done { index: call.index, answer, held, ended });
    }
}

fn answer(call: &ToolCall, entry: &Entry, arguments: Value, bytes_most: u64) -> Answer {
    entry.check(&arguments)?;
    let result = (entry.handler)(call, arguments);
    let result = result.map_err(|error| Failure::new(ToolErrorKind::Failed, error.message()))?;
    let text = result.to_string();
    let bytes = text.len() as u64;
    if bytes > bytes_most {
        let message = format!("the result is {bytes} bytes; `limits.tool_bytes` is {bytes_most}");
        return Err(Failure::new(ToolErrorKind::Limit, message));
    }
    Ok(text)
}
