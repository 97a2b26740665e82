//! Calls the host's tools for one execution.

use std::{
    cell::RefCell,
    fmt,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use glovebox_core::{
    Watch as _,
    tools::{
        Answer, CallFailure, CallStart, CheckedDefinition, FinishedCall, QueuedCall, ReadyCall, ReservedMemory,
        ToolError, ToolErrorKind, ToolMemory, ToolRunner, hold_answer, json_text, within,
    },
};

use crate::{HostCall, HostCallFuture, Stopwatch, ToolHost, Toolbox, World, bindings::types, wait};

/// Calls the host's tools for one execution.
///
/// If the host's calls block the component, a call has its answer when it has started, and the guest waits meanwhile.
/// Otherwise, calls run concurrently, and their answers arrive while the guest waits. As in the engine, a guest that
/// reads no replies can start only a limited number of calls.
pub struct CallRunner {
    toolbox: Rc<Toolbox>,
    host: Option<Rc<dyn ToolHost>>,
    session_id: Option<String>,
    watch: Stopwatch,
    account: Arc<ToolMemory>,
    running: RefCell<Vec<HostCallInProgress>>,
    finished: RefCell<Vec<FinishedCall>>,
}

/// A call that the host has not answered yet.
struct HostCallInProgress {
    index: usize,
    future: HostCallFuture,
    max_bytes: u64,
    /// The memory charged for the arguments.
    _held: ReservedMemory,
}

/// A guard for a waiting guest. No value exists, because the runner needs none.
#[derive(Debug)]
pub enum Never {}

impl fmt::Debug for CallRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRunner").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}

impl CallRunner {
    /// Creates a runner for these tools. `account` counts the memory of the calls.
    #[must_use]
    pub fn new(
        toolbox: Rc<Toolbox>,
        world: &World,
        session_id: Option<String>,
        watch: Stopwatch,
        account: Arc<ToolMemory>,
    ) -> Self {
        let (running, finished) = (RefCell::default(), RefCell::default());
        Self { toolbox, host: world.tools.clone(), session_id, watch, account, running, finished }
    }

    /// Collects the answers that the host has given.
    fn poll(&self) {
        let waker = wait::waker();
        let mut context = Context::from_waker(&waker);
        let mut finished = self.finished.borrow_mut();
        self.running.borrow_mut().retain_mut(|call| {
            let Poll::Ready(result) = call.future.as_mut().poll(&mut context) else { return true };
            let (answer, held) = hold_answer(&self.account, answer(result, call.max_bytes));
            finished.push(FinishedCall { index: call.index, answer, held, ended: self.watch.elapsed() });
            false
        });
    }
}

impl ToolRunner for CallRunner {
    type Watch = Stopwatch;
    type Tool = Rc<CheckedDefinition>;
    type Running = ();
    type Wait = Never;

    const RUN_INLINE: bool = true;

    fn tools(&self) -> &Toolbox {
        &self.toolbox
    }

    fn start(&mut self, ready: ReadyCall<Rc<CheckedDefinition>>) -> Result<CallStart<()>, CallFailure> {
        let ReadyCall { call, deadline, max_bytes } = ready;
        let QueuedCall { index, name, tool, arguments, text, held, .. } = call;
        if let Err(failure) = tool.check(&arguments) {
            return Ok(CallStart::Answered(Err(failure)));
        }
        let Some(host) = &self.host else {
            let message = "the tool cannot be called: the provider has no tool host";
            return Ok(CallStart::Answered(Err(CallFailure::new(ToolErrorKind::Failed, message))));
        };
        let timeout = deadline.saturating_sub(self.watch.elapsed());
        let session_id = self.session_id.clone();
        let mut future = host.call(HostCall { name, arguments: text, index, session_id, timeout });
        let waker = wait::waker();
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(CallStart::Answered(answer(result, max_bytes)));
        }
        self.running.borrow_mut().push(HostCallInProgress { index, future, max_bytes, _held: held });
        Ok(CallStart::Running(()))
    }

    fn answers(&mut self) -> Vec<FinishedCall> {
        self.poll();
        self.finished.take()
    }

    fn has_answer(&self) -> bool {
        self.poll();
        !self.finished.borrow().is_empty()
    }

    fn abandon(&self, index: usize, (): &()) {
        let at = self.running.borrow().iter().position(|call| call.index == index);
        let call = at.map(|at| self.running.borrow_mut().remove(at));
        // Cancels the call, without a borrow.
        drop(call);
    }
}

/// Checks a tool's result.
fn answer(result: Result<String, types::CallFailure>, max_bytes: u64) -> Answer {
    let result = result.map_err(|failure| CallFailure::from(ToolError::from(failure)))?;
    json_text(within(result, max_bytes)?)
}
