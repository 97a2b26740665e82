//! The calls of one execution.
//!
//! Everything here happens on the guest's thread: when it writes to the device, and when it reads. Threads of tools only
//! put their answers down.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox_core::tools::{self as protocol, Answer, Begun, Failure, Held, Message, Reply, Tally, hold_answer};
use serde_json::Value;

use super::{
    Account, ToolCall, ToolRecord, ToolThreads, Toolbox,
    abandoned::Turn,
    desk::{Desk, Waiting as GuestWaits},
    exchange::Exchange,
    lookout::Lookout,
    toolbox::Entry,
    worker::{self, Fate, Job},
};
use crate::{CancelToken, Limits, events};

/// How many replies a guest may leave unread. What it writes beyond that is dropped without an answer: a guest that reads
/// what it asked for never comes near.
const MAX_UNREAD: usize = 1 << 16;

/// What reading from the device comes to.
#[derive(Debug)]
pub(crate) enum Taken {
    /// A reply, as JSON text.
    Reply(String),
    /// No reply is due.
    NothingDue,
    /// A reply is due; look again when there is an answer, or at this time.
    Pending(Instant),
}

/// The calls of one execution.
#[derive(Debug)]
pub(crate) struct Calls {
    toolbox: Arc<Toolbox>,
    threads: Arc<ToolThreads>,
    exchange: Arc<Exchange>,
    lookout: Lookout,
    bounds: Bounds,
    session_id: Option<String>,
    deadline: Instant,
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    unread: VecDeque<Reply>,
    /// Those of `unread` whose call ran.
    unread_ran: usize,
    /// What is held for the reply that was taken last, until somebody else counts it.
    taken: Option<Held>,
    patience: Option<Duration>,
    begun: Instant,
    tally: Tally,
}

/// What of the limits bounds calls.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    at_once: usize,
    timeout: Duration,
}

/// A call whose turn has not come.
#[derive(Debug)]
struct Waiting {
    id: u64,
    index: usize,
    name: String,
    entry: Arc<Entry>,
    arguments: Value,
    held: Held,
}

/// A call whose handler runs.
#[derive(Debug)]
struct Running {
    id: u64,
    index: usize,
    fate: Arc<Fate>,
    cancel: CancelToken,
    deadline: Instant,
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Calls {
    /// `wake`: the execution's token, which whoever waits for an answer waits for.
    pub(crate) fn new(
        toolbox: Arc<Toolbox>,
        threads: Arc<ToolThreads>,
        limits: &Limits,
        session_id: Option<String>,
        begun: Instant,
        wake: CancelToken,
    ) -> Self {
        Self {
            toolbox,
            threads,
            exchange: Exchange::new(wake),
            lookout: Lookout::default(),
            bounds: Bounds {
                at_once: usize::try_from(limits.tool_calls_at_once).unwrap_or(usize::MAX),
                timeout: Duration::from_millis(limits.tool_timeout_ms),
            },
            session_id,
            deadline: begun + limits.timeout(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            unread: VecDeque::new(),
            unread_ran: 0,
            taken: None,
            patience: None,
            begun,
            tally: Tally::new(limits),
        }
    }

    /// Lets whoever steps through the execution answer.
    pub(crate) fn with_desk(mut self, desk: Option<Arc<Desk>>) -> Self {
        self.lookout = Lookout::new(desk);
        self
    }

    /// Tells whoever steps through the execution that the guest waits until then, and for which calls of the caller's, for as long as
    /// what is returned lives.
    pub(crate) fn begin_wait(&mut self, until: Instant) -> Option<GuestWaits> {
        let calls = self.running.iter().filter(|call| call.fate.is_the_callers());
        self.lookout.begin_wait(until, calls.map(|call| call.index))
    }

    /// What the host holds for the calls.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.exchange.account
    }

    /// Whether a reply is there to be taken.
    pub(crate) fn has_reply(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The reply that was taken last is counted as the guest's from here on.
    pub(crate) fn settle(&mut self) {
        self.taken = None;
    }

    /// A test of whether an answer is there, for waiting.
    pub(crate) fn has_answer(&self) -> impl Fn() -> bool + use<> {
        let exchange = Arc::clone(&self.exchange);
        move || exchange.has_answer()
    }

    /// How long the read that now begins may wait, if the guest has said so.
    pub(crate) fn patience(&mut self) -> Option<Duration> {
        self.patience.take()
    }

    /// Takes a message of the guest's, and says whether it was a call.
    pub(crate) fn send(&mut self, text: &[u8]) -> bool {
        if self.unread.len() >= MAX_UNREAD {
            return false;
        }
        // Counted before it is made: a few bytes of text can be a hundred times their size as values.
        let Some(held) = self.exchange.account.hold(protocol::weight(text)) else {
            self.refuse(text);
            return false;
        };
        match Message::parse(text) {
            Ok(Message::List) => self.unread.push_back(Reply::Catalogue),
            Ok(Message::Wait(patience)) => self.patience = patience,
            Ok(Message::Call { id, name, arguments }) => {
                self.lookout.stop_looking();
                self.call(id, name, arguments, held);
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
            None => self.unread.push_back(Reply::NotUnderstood(protocol::NO_ROOM)),
        }
    }

    fn call(&mut self, id: u64, name: String, arguments: Value, held: Held) {
        if self.running.iter().any(|call| call.id == id) || self.waiting.iter().any(|call| call.id == id) {
            self.unread.push_back(Reply::NotUnderstood("a call with this `id` has not been answered yet"));
            return;
        }
        let Begun { index, bytes } = match self.tally.begin(&name, &arguments, self.begun.elapsed()) {
            Ok(begun) => begun,
            Err(failure) => return self.answer(id, Err(failure)),
        };
        events::tool_start(self.session_id.as_deref(), &name, index);
        match self.tally.admit(&name, self.toolbox.get(&name).cloned(), &arguments, bytes) {
            Ok(entry) => {
                self.waiting.push_back(Waiting { id, index, name, entry, arguments, held });
                self.start();
            }
            Err(failure) => {
                drop((arguments, held));
                self.finish(id, index, Err(failure), Instant::now());
            }
        }
    }

    /// Starts calls while there are turns.
    fn start(&mut self) {
        while self.running.len() + self.unread_ran < self.bounds.at_once {
            let Some(next) = self.waiting.front() else { return };
            // Now, not when it was made: calls before it may have been given up meanwhile.
            let turn = self.turn(next);
            if turn == Ok(Turn::Later) {
                return;
            }
            let Some(Waiting { id, index, name, entry, arguments, held }) = self.waiting.pop_front() else { return };
            let now = Instant::now();
            let deadline = now.checked_add(self.bounds.timeout).map_or(self.deadline, |end| end.min(self.deadline));
            let cancel = CancelToken::new();
            let (session_id, token) = (self.session_id.clone(), cancel.clone());
            let call = ToolCall { name, index, session_id, cancel: token, deadline };
            let (max_bytes, abandoned) = (self.tally.max_bytes(), Arc::clone(self.toolbox.abandoned()));
            let job = Job { call, entry, arguments, held, max_bytes, abandoned, desk: self.lookout.desk().cloned() };
            match turn.and_then(|_| worker::start(&self.threads, &self.exchange, job)) {
                Ok(fate) => self.running.push(Running { id, index, fate, cancel, deadline }),
                Err(failure) => self.finish(id, index, Err(failure), now),
            }
        }
    }

    /// Whether the next call may start beside those that run, and those that were given up and still do.
    fn turn(&self, next: &Waiting) -> Result<Turn, Failure> {
        next.entry.admit(&next.name)?;
        let running_bytes = self.running.iter().map(|call| call.fate.bytes()).sum();
        self.toolbox.abandoned().admit(&self.session_id, next.held.bytes(), running_bytes)
    }

    /// Takes the next reply, if there is one.
    pub(crate) fn take(&mut self) -> Taken {
        self.collect();
        self.start();
        match self.unread.pop_front() {
            Some(reply) => {
                self.lookout.stop_looking();
                let text = match reply {
                    Reply::Catalogue => self.catalogue(),
                    Reply::NotUnderstood(reason) => protocol::not_understood(reason),
                    Reply::Answer { id, answer, ran, held } => {
                        self.taken = Some(held);
                        self.unread_ran -= usize::from(ran);
                        self.start();
                        protocol::answered(id, answer)
                    }
                };
                Taken::Reply(text)
            }
            None => match self.running.iter().map(|call| call.deadline).min() {
                Some(deadline) => Taken::Pending(deadline),
                None => Taken::NothingDue,
            },
        }
    }

    fn catalogue(&mut self) -> String {
        let text = self.toolbox.catalogue();
        self.taken = self.exchange.account.hold(text.len() as u64);
        if self.taken.is_some() {
            return text;
        }
        protocol::not_understood("the host has no room for the list of tools: `limits.memory_bytes` counts it")
    }

    /// Takes what the handlers have answered, and gives up those whose time is over.
    pub(crate) fn collect(&mut self) {
        if self.running.is_empty() {
            return;
        }
        for done in self.exchange.take() {
            let Some(at) = self.running.iter().position(|call| call.index == done.index) else { continue };
            let call = self.running.remove(at);
            // One that nobody looked at while it was late was late all the same.
            let answer = if done.ended > call.deadline { Err(self.timeout()) } else { done.answer };
            self.write_down(call.index, &answer, done.ended);
            self.unread_ran += 1;
            self.unread.push_back(Reply::Answer { id: call.id, answer, ran: true, held: done.held });
        }
        let now = Instant::now();
        while let Some(at) = self.running.iter().position(|call| call.deadline <= now) {
            let call = self.running.remove(at);
            self.give_up(&call);
            self.finish(call.id, call.index, Err(self.timeout()), now);
        }
    }

    /// Tells the handlers that run that nobody will want their results.
    pub(crate) fn cancel(&self) {
        for call in &self.running {
            call.cancel.cancel();
        }
    }

    /// Ends the calls with the execution, and says what became of each.
    pub(crate) fn end(mut self) -> Vec<ToolRecord> {
        self.collect();
        let now = Instant::now();
        let left = self.running.iter().map(|call| call.index).chain(self.waiting.iter().map(|call| call.index));
        for index in left.collect::<Vec<_>>() {
            self.tally.leave(index, self.since_begun(now));
            self.report(index);
        }
        self.abandon();
        if self.tally.refused() > 0 {
            events::tools_refused(self.session_id.as_deref(), self.tally.refused());
        }
        self.tally.take()
    }

    fn abandon(&mut self) {
        for call in std::mem::take(&mut self.running) {
            self.give_up(&call);
        }
    }

    fn give_up(&self, call: &Running) {
        call.cancel.cancel();
        call.fate.abandon();
        if let Some(desk) = self.lookout.desk() {
            desk.withdraw(call.index);
        }
    }

    fn timeout(&self) -> Failure {
        protocol::timeout(u64::try_from(self.bounds.timeout.as_millis()).unwrap_or(u64::MAX))
    }

    fn since_begun(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.begun)
    }

    /// Ends a call whose handler gave no answer.
    fn finish(&mut self, id: u64, index: usize, answer: Answer, ended: Instant) {
        self.write_down(index, &answer, ended);
        self.answer(id, answer);
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        let (answer, held) = hold_answer(&self.exchange.account, answer);
        self.unread.push_back(Reply::Answer { id, answer, ran: false, held });
    }

    fn write_down(&mut self, index: usize, answer: &Answer, ended: Instant) {
        self.tally.finish(index, answer, self.since_begun(ended));
        self.report(index);
    }

    fn report(&self, index: usize) {
        if let Some(record) = self.tally.get(index) {
            events::tool_complete(self.session_id.as_deref(), record, index);
        }
    }
}
