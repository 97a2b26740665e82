//! The calls of tools in one execution.
//!
//! Everything here happens while the guest writes to the device and while it reads. How a tool is run, on a thread of its own or to its
//! end at once, is the platform's ([`ToolRunner`]).

use std::{collections::VecDeque, fmt, ops::Deref, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    Account, Answer, Begun, Checked, Failure, Held, Message, NO_ROOM, Reply, Size, Tally, ToolRecord, Toolset,
    answered, hold_answer, not_understood, timeout, weight,
};
use crate::{Limits, Watch};

/// How many replies a guest may leave unread. What it writes beyond that is dropped without an answer: a guest that reads
/// what it asked for never comes near.
const UNREAD_MAX: usize = 1 << 16;

/// What runs tools.
pub trait ToolRunner {
    /// What counts the time.
    type Watch: Watch;
    /// A tool, ready to be called.
    type Tool: Clone + Deref<Target: AsRef<Checked>>;
    /// A call that runs.
    type Running;
    /// Says for as long as it lives that the guest waits.
    type Wait;

    /// Whether tools run to their end when they are started, and the guest's time with them.
    const RUN_INLINE: bool = false;

    /// The tools that scripts may call.
    fn tools(&self) -> &Toolset<Self::Tool>;

    /// What a name means that is none of scripts' tools, and is called as they are.
    fn reserved(&self, _name: &str) -> Option<Self::Tool> {
        None
    }

    /// The most bytes of a call's arguments and of its result, where those of `limits.tool_bytes` are not this tool's.
    fn max_bytes(&self, _tool: &Self::Tool) -> Option<u64> {
        None
    }

    /// Starts a call.
    fn start(&mut self, call: ReadyCall<Self::Tool>) -> Result<Start<Self::Running>, Failure>;

    /// Whether the next call may start beside those that run.
    fn turn(&self, _next: &QueuedCall<Self::Tool>, _running: &[RunningCall<Self::Running>]) -> Result<Turn, Failure> {
        Ok(Turn::Now)
    }

    /// Takes what running calls have answered, in the order in which they did.
    fn answers(&mut self) -> Vec<Done> {
        Vec::new()
    }

    /// Whether a running call has answered.
    fn has_answer(&self) -> bool {
        false
    }

    /// Tells a call that nobody will want its result.
    fn cancel(&self, _running: &Self::Running) {}

    /// Nobody waits for a call any longer, which may still run.
    fn give_up(&self, _index: usize, _running: &Self::Running) {}

    /// The guest waits for replies. `is_look`: it only looks whether there are any.
    fn begin_wait(&mut self, _is_look: bool, _running: &[RunningCall<Self::Running>]) -> Option<Self::Wait> {
        None
    }

    /// The guest does something else than to look for replies.
    fn end_wait(&mut self) {}

    /// A call was counted.
    fn began(&self, _name: &str, _index: usize) {}

    /// A call has ended.
    fn ended(&self, _record: &ToolRecord, _index: usize) {}

    /// So many calls were refused that are not written down.
    fn refused(&self, _count: u64) {}
}

/// When a call may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Now.
    Now,
    /// When one of those that run has ended.
    Later,
}

/// What starting a call came to.
#[derive(Debug)]
pub enum Start<R> {
    /// It runs.
    Running(R),
    /// It ran to its end.
    Answered(Answer),
}

/// A call whose turn has not come.
#[derive(Debug)]
pub struct QueuedCall<T> {
    id: u64,
    /// Which call of the execution it is.
    pub index: usize,
    /// The tool's name.
    pub name: String,
    /// The tool.
    pub tool: T,
    /// An object.
    pub arguments: Value,
    /// The arguments as JSON text, with all digits and the order of keys.
    pub text: String,
    /// What is held for the arguments.
    pub held: Held,
}

/// A call that is to run.
#[derive(Debug)]
pub struct ReadyCall<T> {
    /// What is called.
    pub call: QueuedCall<T>,
    /// Until when, counted from the execution's beginning.
    pub deadline: Duration,
    /// The most bytes that its result may have.
    pub max_bytes: u64,
}

/// A call that runs.
#[derive(Debug)]
pub struct RunningCall<R> {
    id: u64,
    /// Which call of the execution it is.
    pub index: usize,
    /// What runs it.
    pub running: R,
    deadline: Duration,
}

/// What a call has answered.
#[derive(Debug)]
pub struct Done {
    /// Which call of the execution it is.
    pub index: usize,
    /// What its tool said.
    pub answer: Answer,
    /// What is held for the answer.
    pub held: Held,
    /// When, counted from the execution's beginning.
    pub ended: Duration,
}

/// What reading from the device comes to.
#[derive(Debug)]
pub enum Received {
    /// A reply, as JSON text.
    Reply(String),
    /// No reply is due.
    NothingDue,
    /// A reply is due; look again when there is an answer, or at this time, counted from the execution's beginning.
    Pending(Duration),
}

/// The calls of one execution.
pub struct ToolCalls<R: ToolRunner> {
    runner: R,
    account: Arc<Account>,
    watch: R::Watch,
    at_once: usize,
    call_timeout_ms: u64,
    /// The execution's.
    timeout: Duration,
    queued: VecDeque<QueuedCall<R::Tool>>,
    running: Vec<RunningCall<R::Running>>,
    unread: VecDeque<Reply>,
    /// Those of `unread` whose call ran.
    unread_ran: usize,
    /// What is held for the reply that was taken last, until somebody else counts it.
    taken: Option<Held>,
    patience: Option<Duration>,
    tally: Tally,
}

impl<R: ToolRunner> fmt::Debug for ToolCalls<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCalls").field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl<R: ToolRunner> Drop for ToolCalls<R> {
    fn drop(&mut self) {
        self.give_up_running();
    }
}

impl<R: ToolRunner> ToolCalls<R> {
    /// None yet. `account`: what is held for them.
    pub fn new(runner: R, account: Arc<Account>, limits: &Limits, watch: R::Watch) -> Self {
        Self {
            runner,
            account,
            watch,
            at_once: usize::try_from(limits.tool_calls_at_once).unwrap_or(usize::MAX),
            call_timeout_ms: limits.tool_timeout_ms,
            timeout: limits.timeout(),
            queued: VecDeque::new(),
            running: Vec::new(),
            unread: VecDeque::new(),
            unread_ran: 0,
            taken: None,
            patience: None,
            tally: Tally::new(limits),
        }
    }

    /// What is held for the calls.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Whether a reply is there to be taken.
    pub(crate) fn has_reply(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether a running call has answered.
    pub fn has_answer(&self) -> bool {
        self.runner.has_answer()
    }

    /// The reply that was taken last is counted as the guest's from here on.
    pub fn settle(&mut self) {
        self.taken = None;
    }

    /// How long the read that now begins may wait, if the guest has said so.
    pub fn patience(&mut self) -> Option<Duration> {
        self.patience.take()
    }

    /// The guest waits until then, for as long as what is returned lives.
    pub(crate) fn begin_wait(&mut self, until: Duration) -> Option<R::Wait> {
        let is_look = until <= self.watch.elapsed();
        self.runner.begin_wait(is_look, &self.running)
    }

    /// Takes a message of the guest's, and says whether it was a call.
    pub fn send(&mut self, text: &[u8]) -> bool {
        if self.unread.len() >= UNREAD_MAX {
            return false;
        }
        // Counted before it is made: a few bytes of text can be a hundred times their size as values.
        // The arguments are held as values and as text.
        let Some(held) = self.account.hold(weight(text).saturating_add(text.len() as u64)) else {
            self.refuse(text);
            return false;
        };
        match Message::parse(text) {
            Ok(Message::List) => self.unread.push_back(Reply::Catalogue),
            Ok(Message::Wait(patience)) => self.patience = patience,
            Ok(Message::Call { id, name, arguments, text }) => {
                self.runner.end_wait();
                self.call(id, name, (arguments, text), held);
                return true;
            }
            Err(reason) => self.unread.push_back(Reply::NotUnderstood(reason)),
        }
        false
    }

    /// Answers a message that there is no room for.
    fn refuse(&mut self, text: &[u8]) {
        let failure = self.tally.refuse();
        match Message::id(text) {
            Some(id) => self.answer(id, Err(failure)),
            None => self.unread.push_back(Reply::NotUnderstood(NO_ROOM)),
        }
    }

    fn call(&mut self, id: u64, name: String, (arguments, text): (Value, String), held: Held) {
        if self.running.iter().any(|call| call.id == id) || self.queued.iter().any(|call| call.id == id) {
            self.unread.push_back(Reply::NotUnderstood("a call with this `id` has not been answered yet"));
            return;
        }
        let Begun { index, bytes } = match self.tally.begin(&name, &text, self.watch.elapsed()) {
            Ok(begun) => begun,
            Err(failure) => return self.answer(id, Err(failure)),
        };
        self.runner.began(&name, index);
        let tool = self.runner.reserved(&name).or_else(|| self.runner.tools().find(&name).cloned());
        let max_bytes = tool.as_ref().and_then(|tool| self.runner.max_bytes(tool));
        match self.tally.admit(&name, tool, &arguments, Size { bytes, max_bytes }) {
            Ok(tool) => {
                self.queued.push_back(QueuedCall { id, index, name, tool, arguments, text, held });
                self.start();
            }
            Err(failure) => {
                drop((arguments, text, held));
                self.finish(id, index, Err(failure), self.watch.elapsed());
            }
        }
    }

    /// Starts calls while there are turns.
    fn start(&mut self) {
        while self.running.len() + self.unread_ran < self.at_once {
            let Some(next) = self.queued.front() else { return };
            // Now, not when it was made: calls before it may have been given up meanwhile.
            let turn = self.runner.turn(next, &self.running);
            if turn == Ok(Turn::Later) {
                return;
            }
            let Some(call) = self.queued.pop_front() else { return };
            let QueuedCall { id, index, .. } = call;
            let now = self.watch.elapsed();
            let deadline = now.saturating_add(Duration::from_millis(self.call_timeout_ms)).min(self.timeout);
            let max_bytes = self.runner.max_bytes(&call.tool).unwrap_or(self.tally.max_bytes());
            let ready = ReadyCall { call, deadline, max_bytes };
            match turn.and_then(|_| self.runner.start(ready)) {
                Ok(Start::Running(running)) => self.running.push(RunningCall { id, index, running, deadline }),
                Ok(Start::Answered(answer)) => {
                    let (answer, held) = hold_answer(&self.account, answer);
                    let done = Done { index, answer, held, ended: self.watch.elapsed() };
                    self.ran(id, deadline, done);
                }
                Err(failure) => self.finish(id, index, Err(failure), now),
            }
        }
    }

    /// Takes the next reply, if there is one.
    pub fn take(&mut self) -> Received {
        self.collect();
        self.start();
        match self.unread.pop_front() {
            Some(reply) => {
                self.runner.end_wait();
                Received::Reply(match reply {
                    Reply::Catalogue => self.catalogue(),
                    Reply::NotUnderstood(reason) => not_understood(reason),
                    Reply::Answer { id, answer, ran, held } => {
                        self.taken = Some(held);
                        self.unread_ran -= usize::from(ran);
                        self.start();
                        answered(id, answer)
                    }
                })
            }
            None => match self.running.iter().map(|call| call.deadline).min() {
                Some(deadline) => Received::Pending(deadline),
                None => Received::NothingDue,
            },
        }
    }

    fn catalogue(&mut self) -> String {
        let text = self.runner.tools().catalogue();
        self.taken = self.account.hold(text.len() as u64);
        if self.taken.is_some() {
            return text;
        }
        not_understood("the host has no room for the list of tools: `limits.memory_bytes` counts it")
    }

    /// Takes what running calls have answered, and gives up those whose time is over.
    pub fn collect(&mut self) {
        if self.running.is_empty() {
            return;
        }
        for done in self.runner.answers() {
            let Some(at) = self.running.iter().position(|call| call.index == done.index) else { continue };
            let RunningCall { id, deadline, .. } = self.running.remove(at);
            self.ran(id, deadline, done);
        }
        let now = self.watch.elapsed();
        while let Some(at) = self.running.iter().position(|call| call.deadline <= now) {
            let call = self.running.remove(at);
            self.runner.give_up(call.index, &call.running);
            self.finish(call.id, call.index, Err(timeout(self.call_timeout_ms)), now);
        }
    }

    /// Tells the calls that run that nobody will want their results.
    pub fn cancel(&self) {
        for call in &self.running {
            self.runner.cancel(&call.running);
        }
    }

    /// Ends the calls with the execution, and says what became of each.
    #[must_use]
    pub fn end(mut self) -> Vec<ToolRecord> {
        self.collect();
        let now = self.watch.elapsed();
        let left = self.running.iter().map(|call| call.index).chain(self.queued.iter().map(|call| call.index));
        for index in left.collect::<Vec<_>>() {
            self.tally.leave(index, now);
            self.report(index);
        }
        self.give_up_running();
        if self.tally.refused() > 0 {
            self.runner.refused(self.tally.refused());
        }
        self.tally.take()
    }

    fn give_up_running(&mut self) {
        for call in std::mem::take(&mut self.running) {
            self.runner.give_up(call.index, &call.running);
        }
    }

    /// Ends a call that ran. One that nobody looked at while it was late was late all the same.
    fn ran(&mut self, id: u64, deadline: Duration, done: Done) {
        let Done { index, answer, held, ended } = done;
        let answer = if ended > deadline { Err(timeout(self.call_timeout_ms)) } else { answer };
        self.write_down(index, &answer, ended);
        self.unread_ran += 1;
        self.unread.push_back(Reply::Answer { id, answer, ran: true, held });
    }

    /// Ends a call that gave no answer.
    fn finish(&mut self, id: u64, index: usize, answer: Answer, ended: Duration) {
        self.write_down(index, &answer, ended);
        self.answer(id, answer);
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        let (answer, held) = hold_answer(&self.account, answer);
        self.unread.push_back(Reply::Answer { id, answer, ran: false, held });
    }

    fn write_down(&mut self, index: usize, answer: &Answer, ended: Duration) {
        self.tally.finish(index, answer, ended);
        self.report(index);
    }

    fn report(&self, index: usize) {
        if let Some(record) = self.tally.get(index) {
            self.runner.ended(record, index);
        }
    }
}
