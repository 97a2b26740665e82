//! The tool calls of one execution.
//!
//! This code runs while the guest writes to the tool device or reads from it. The platform decides whether a tool runs
//! on its own thread, or inline to completion ([`ToolRunner`]).

mod journaled;
mod runner;

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    Answer, CallFailure, Message, NO_ROOM, Reply, ReservedMemory, Size, StartedCall, Tally, ToolErrorKind, ToolMemory,
    ToolRecord, answered, hold_answer, not_understood, timeout, weight,
};
use crate::{Limits, Watch};
use journaled::JournaledCalls;

pub use runner::ToolRunner;

/// Maximum number of unread replies. Further messages are dropped without an answer. A guest that reads its replies
/// never reaches the limit.
const UNREAD_MAX: usize = 1 << 16;

/// The failure of a call whose arguments repeat a key. The tool and a person who approves the call could see different
/// values.
const REPEATED_KEY: &str = "the arguments contain an object that repeats a key; use each key once";

struct CallArguments {
    value: Value,
    text: String,
    repeats_key: bool,
}

/// The decision about starting a queued call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The call starts immediately.
    Now,
    /// The call starts after a running call has ended.
    Later,
}

/// The result of starting a call.
#[derive(Debug)]
pub enum CallStart<R> {
    /// The call is running.
    Running(R),
    /// The call has finished.
    Answered(Answer),
}

/// A call that waits in the queue.
#[derive(Debug)]
pub struct QueuedCall<T> {
    id: u64,
    /// The call's position in the execution, from 0.
    pub index: usize,
    /// The tool's name.
    pub name: String,
    /// The embedder's entry for the tool.
    pub tool: T,
    /// The arguments, normally a JSON object.
    pub arguments: Value,
    /// The arguments as JSON text, with all digits and the original key order.
    pub text: String,
    /// The memory reserved for the arguments.
    pub held: ReservedMemory,
}

/// A call that is about to start.
#[derive(Debug)]
pub struct ReadyCall<T> {
    /// The call to start.
    pub call: QueuedCall<T>,
    /// The deadline, relative to the start of the execution.
    pub deadline: Duration,
    /// Maximum size of the result in bytes.
    pub max_bytes: u64,
}

/// A running call.
#[derive(Debug)]
pub struct RunningCall<R> {
    id: u64,
    /// The call's position in the execution, from 0.
    pub index: usize,
    /// The runner's handle.
    pub running: R,
    deadline: Duration,
}

/// A call's answer, with the time of its arrival.
#[derive(Debug)]
pub struct FinishedCall {
    /// The call's position in the execution, from 0.
    pub index: usize,
    /// The tool's result or failure.
    pub answer: Answer,
    /// The memory reserved for the answer.
    pub held: ReservedMemory,
    /// The time of the answer, relative to the start of the execution.
    pub ended: Duration,
}

/// The result of a read from the device.
#[derive(Debug)]
pub enum NextReply {
    /// A reply, as JSON text.
    Reply(String),
    /// No reply is due.
    NothingDue,
    /// A reply will become available. Read again when a call has answered, or at this time, relative to the start of
    /// the execution.
    Pending(Duration),
}

/// The queue, the running calls and the unread replies of one execution.
pub struct ToolCalls<R: ToolRunner> {
    runner: R,
    account: Arc<ToolMemory>,
    watch: R::Watch,
    at_once: usize,
    call_timeout_ms: u64,
    /// The execution's timeout.
    timeout: Duration,
    queued: VecDeque<QueuedCall<R::Tool>>,
    running: Vec<RunningCall<R::Running>>,
    unread: VecDeque<Reply>,
    /// The number of unread replies to calls that ran.
    unread_ran: usize,
    /// The memory of the last reply that the guest read, until its WASI state counts it.
    taken: Option<ReservedMemory>,
    read_timeout: Option<Duration>,
    tally: Tally,
    /// The state for the journal. `None` if the execution has no journal.
    journaled: Option<JournaledCalls<R::Tool>>,
}

impl<R: ToolRunner> fmt::Debug for ToolCalls<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCalls").field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl<R: ToolRunner> Drop for ToolCalls<R> {
    fn drop(&mut self) {
        self.abandon_running();
    }
}

impl<R: ToolRunner> ToolCalls<R> {
    /// Creates the state of an execution without calls. `account` counts the memory of its calls.
    pub fn new(runner: R, account: Arc<ToolMemory>, limits: &Limits, watch: R::Watch) -> Self {
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
            read_timeout: None,
            tally: Tally::new(limits),
            journaled: None,
        }
    }

    /// Returns the account that counts the calls' memory.
    pub fn account(&self) -> &Arc<ToolMemory> {
        &self.account
    }

    pub(crate) fn has_reply(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Returns `true` if the answer to a running call is available.
    pub fn has_answer(&self) -> bool {
        self.runner.has_answer()
    }

    /// Releases the reservation for the last reply that the guest read. From now on, the guest's WASI state counts the
    /// memory.
    pub fn settle(&mut self) {
        self.taken = None;
    }

    /// Takes the timeout that the guest has set for its next read.
    pub fn read_timeout(&mut self) -> Option<Duration> {
        self.read_timeout.take()
    }

    /// Registers that the guest waits until `until`. The wait ends when the returned guard is dropped.
    pub(crate) fn begin_wait(&mut self, until: Duration) -> Option<R::Wait> {
        let is_poll = until <= self.watch.elapsed();
        self.runner.begin_wait(is_poll, &self.running)
    }

    /// Handles a guest's message. Returns `true` if the message is a tool call.
    pub(super) fn take_message(&mut self, text: &[u8]) -> bool {
        if self.unread.len() >= UNREAD_MAX {
            return false;
        }
        // Count before parsing: parsed values can take a hundred times the size of the text. The arguments are stored
        // both as values and as text.
        let Some(held) = self.account.hold(weight(text).saturating_add(text.len() as u64)) else {
            self.refuse(text);
            return false;
        };
        match Message::parse(text) {
            Ok(Message::List) => self.unread.push_back(Reply::Catalogue),
            Ok(Message::Wait(read_timeout)) => self.read_timeout = read_timeout,
            Ok(Message::Call { id, name, arguments, text, repeats_key }) => {
                self.runner.end_wait();
                let arguments = CallArguments { value: arguments, text, repeats_key };
                self.call(id, name, arguments, held);
                return true;
            }
            Err(reason) => self.unread.push_back(Reply::NotUnderstood(reason)),
        }
        false
    }

    /// Answers a message that does not fit into the available memory.
    fn refuse(&mut self, text: &[u8]) {
        let failure = self.tally.refuse();
        match Message::id(text) {
            Some(id) => self.answer(id, Err(failure)),
            None => self.unread.push_back(Reply::NotUnderstood(NO_ROOM)),
        }
    }

    fn call(&mut self, id: u64, name: String, arguments: CallArguments, held: ReservedMemory) {
        let CallArguments { value: arguments, text, repeats_key } = arguments;
        let repeated = self.repeated().is_some_and(|calls| calls.iter().any(|call| call.id == id));
        if repeated || self.running.iter().any(|call| call.id == id) || self.queued.iter().any(|call| call.id == id) {
            self.unread.push_back(Reply::NotUnderstood("a call with this `id` has not been answered yet"));
            return;
        }
        let made = self.time_of_call();
        let StartedCall { index, bytes } = match self.tally.begin(&name, &text, made) {
            Ok(begun) => begun,
            Err(failure) => return self.answer(id, Err(failure)),
        };
        if self.repeated().is_none() {
            self.runner.on_start(&name, index);
        }
        let tool = self.runner.reserved(&name).or_else(|| self.runner.tools().find(&name).cloned());
        let max_bytes = tool.as_ref().and_then(|tool| self.runner.max_bytes(tool));
        let admitted = self.tally.admit(&name, tool, &arguments, Size { bytes, max_bytes });
        let admitted = admitted.and_then(|tool| match repeats_key {
            false => Ok(tool),
            true => Err(CallFailure::new(ToolErrorKind::InvalidArguments, REPEATED_KEY)),
        });
        match admitted {
            Ok(tool) => {
                self.queued.push_back(QueuedCall { id, index, name, tool, arguments, text, held });
                self.start();
            }
            Err(failure) => {
                drop((arguments, text, held));
                self.finish(id, index, Err(failure), made);
            }
        }
    }

    /// Starts queued calls until `tool_calls_at_once` calls are running or have unread replies.
    fn start(&mut self) {
        if self.repeated().is_some() {
            while self.repeat_start() {}
            return;
        }
        while self.running.len() + self.unread_ran < self.at_once {
            let Some(next) = self.queued.front() else { return };
            // Decide now and not when the call was queued: earlier calls may have been abandoned in the meantime.
            let turn = self.runner.turn(next, &self.running);
            if turn == Ok(Admission::Later) {
                return;
            }
            let Some(call) = self.queued.pop_front() else { return };
            match turn {
                Ok(_) => self.start_call(call),
                Err(failure) => self.ended_unrun(call.id, call.index, failure, self.watch.elapsed()),
            }
        }
    }

    fn start_call(&mut self, call: QueuedCall<R::Tool>) {
        let QueuedCall { id, index, .. } = call;
        if let Some(journaled) = &mut self.journaled {
            journaled.started.insert(index, (call.name.clone(), call.text.clone()));
        }
        let now = self.watch.elapsed();
        let deadline = now.saturating_add(Duration::from_millis(self.call_timeout_ms)).min(self.timeout);
        let max_bytes = self.runner.max_bytes(&call.tool).unwrap_or(self.tally.max_bytes());
        match self.runner.start(ReadyCall { call, deadline, max_bytes }) {
            Ok(CallStart::Running(running)) => self.running.push(RunningCall { id, index, running, deadline }),
            Ok(CallStart::Answered(answer)) => {
                let (answer, held) = hold_answer(&self.account, answer);
                let done = FinishedCall { index, answer, held, ended: self.watch.elapsed() };
                self.record_finished(id, deadline, done);
            }
            Err(failure) => self.ended_unrun(id, index, failure, now),
        }
    }

    /// Takes the next reply, if one is available, and starts queued calls.
    pub fn take(&mut self) -> NextReply {
        self.collect();
        self.start();
        match self.unread.pop_front() {
            Some(reply) => {
                self.runner.end_wait();
                NextReply::Reply(match reply {
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
                Some(deadline) => NextReply::Pending(deadline),
                None => NextReply::NothingDue,
            },
        }
    }

    fn catalogue(&mut self) -> String {
        let text = self.runner.tools().catalogue();
        self.taken = self.account.hold(text.len() as u64);
        if self.taken.is_some() {
            return text;
        }
        not_understood("the list of tools does not fit into the remaining `limits.memory_bytes`")
    }

    /// Takes the answers to running calls, and abandons calls after their timeout.
    pub fn collect(&mut self) {
        if self.running.is_empty() {
            return;
        }
        for done in self.runner.answers() {
            let Some(at) = self.running.iter().position(|call| call.index == done.index) else { continue };
            let RunningCall { id, deadline, .. } = self.running.remove(at);
            self.record_finished(id, deadline, done);
        }
        let now = self.watch.elapsed();
        while let Some(at) = self.running.iter().position(|call| call.deadline <= now) {
            let call = self.running.remove(at);
            self.runner.abandon(call.index, &call.running);
            self.ended_unrun(call.id, call.index, timeout(self.call_timeout_ms), now);
        }
    }

    /// Asks all running calls to stop, because their results are no longer needed.
    pub fn cancel(&self) {
        for call in &self.running {
            self.runner.cancel(&call.running);
        }
    }

    /// Ends all calls when the execution ends, and returns their records.
    pub fn end(self) -> Vec<ToolRecord> {
        self.end_and_report(true)
    }

    /// Like [`end`](Self::end). Without `reports_unfinished`, calls without an answer are not reported to the runner.
    pub(crate) fn end_and_report(mut self, reports_unfinished: bool) -> Vec<ToolRecord> {
        self.collect();
        let now = self.recorded_time(self.watch.elapsed());
        let refused = self.tally.refused().saturating_sub(self.repeated_refusals());
        let repeated = self.journaled.take().and_then(|journaled| journaled.repeated).unwrap_or_default();
        let left = self.running.iter().map(|call| call.index).chain(self.queued.iter().map(|call| call.index));
        for index in left.chain(repeated.iter().map(|call| call.index)).collect::<Vec<_>>() {
            self.tally.record_unfinished(index, now);
            if reports_unfinished {
                self.report(index);
            }
        }
        self.abandon_running();
        if refused > 0 {
            self.runner.on_refused(refused);
        }
        self.tally.take()
    }

    fn abandon_running(&mut self) {
        for call in std::mem::take(&mut self.running) {
            self.runner.abandon(call.index, &call.running);
        }
    }

    /// Records a call that has run. An answer after the deadline is a timeout, even if the host noticed the delay only
    /// now.
    fn record_finished(&mut self, id: u64, deadline: Duration, done: FinishedCall) {
        let FinishedCall { index, answer, held, ended } = done;
        let answer = if ended > deadline { Err(timeout(self.call_timeout_ms)) } else { answer };
        let ended = self.recorded_time(ended);
        self.journal_end(index, &answer, true, ended);
        self.reply(id, FinishedCall { index, answer, held, ended });
    }

    /// Records a tool's answer and queues the reply. `done.ended` excludes the duration of a replay.
    fn reply(&mut self, id: u64, done: FinishedCall) {
        let FinishedCall { index, answer, held, ended } = done;
        self.record_answer(index, &answer, ended);
        self.unread_ran += 1;
        self.unread.push_back(Reply::Answer { id, answer, ran: true, held });
    }

    /// Records a call that ended without an answer from its tool. `ended` excludes the duration of a replay.
    fn finish(&mut self, id: u64, index: usize, answer: Answer, ended: Duration) {
        self.record_answer(index, &answer, ended);
        self.answer(id, answer);
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        let (answer, held) = hold_answer(&self.account, answer);
        self.unread.push_back(Reply::Answer { id, answer, ran: false, held });
    }

    fn record_answer(&mut self, index: usize, answer: &Answer, ended: Duration) {
        self.tally.finish(index, answer, ended);
        self.report(index);
    }

    fn report(&self, index: usize) {
        let repeats = self.journaled.as_ref().is_some_and(|journaled| journaled.repeated.is_some());
        if let Some(record) = self.tally.get(index).filter(|_| !repeats) {
            self.runner.on_end(record, index);
        }
    }
}
