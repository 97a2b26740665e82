//! The calls of tools in one execution.
//!
//! There is one thread, and a call of a tool is a call of the component's host, which returns when the tool has answered. So a call
//! runs when its turn comes, while the guest writes or reads, and nothing ever runs beside the guest. A guest that does not read
//! its replies runs out of turns, as it would in the engine.

use std::{collections::VecDeque, fmt, rc::Rc, sync::Arc, time::Duration};

use glovebox_core::{
    Limits,
    tools::{
        Account, Answer, Begun, Checked, Failure, Held, Message, NO_ROOM, Reply, Tally, ToolError, ToolErrorKind,
        ToolRecord, answered, hold_answer, json_text, not_understood, timeout, weight, within,
    },
};
use serde_json::Value;

use crate::{Stopwatch, ToolHost, Toolbox, bindings::types};

/// How many replies a guest may leave unread. What it writes beyond that is dropped without an answer: a guest that reads
/// what it asked for never comes near.
const UNREAD_MOST: usize = 1 << 16;

/// The calls of one execution.
pub struct Calls {
    toolbox: Rc<Toolbox>,
    host: Option<Rc<dyn ToolHost>>,
    account: Arc<Account>,
    at_once: usize,
    timeout_ms: u64,
    watch: Stopwatch,
    waiting: VecDeque<Waiting>,
    unread: VecDeque<Reply>,
    /// Those of `unread` whose call ran.
    unread_ran: usize,
    /// What is held for the reply that was taken last, until somebody else counts it.
    taken: Option<Held>,
    tally: Tally,
}

/// A call whose turn has not come.
struct Waiting {
    id: u64,
    index: usize,
    name: String,
    arguments: Value,
    held: Held,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("toolbox", &self.toolbox).field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl Calls {
    /// None yet.
    #[must_use]
    pub fn new(toolbox: Rc<Toolbox>, host: Option<Rc<dyn ToolHost>>, limits: &Limits, watch: Stopwatch) -> Self {
        Self {
            toolbox,
            host,
            account: Arc::default(),
            at_once: usize::try_from(limits.tool_calls_at_once).unwrap_or(usize::MAX),
            timeout_ms: limits.tool_timeout_ms,
            watch,
            waiting: VecDeque::new(),
            unread: VecDeque::new(),
            unread_ran: 0,
            taken: None,
            tally: Tally::new(limits),
        }
    }

    /// What is held for the calls.
    #[must_use]
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The reply that was taken last is counted as the guest's from here on.
    pub fn settle(&mut self) {
        self.taken = None;
    }

    /// Takes a message of the guest's, and says whether it was a call.
    pub fn send(&mut self, text: &[u8]) -> bool {
        if self.unread.len() >= UNREAD_MOST {
            return false;
        }
        // Counted before it is made: a few bytes of text can be a hundred times their size as values.
        let Some(held) = self.account.hold(weight(text)) else {
            self.refuse(text);
            return false;
        };
        match Message::parse(text) {
            Ok(Message::List) => self.unread.push_back(Reply::Catalogue),
            // No reply is ever waited for.
            Ok(Message::Wait(_)) => {}
            Ok(Message::Call { id, name, arguments }) => {
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
            Some(id) => self.answer(id, Err(failure), false),
            None => self.unread.push_back(Reply::NotUnderstood(NO_ROOM)),
        }
    }

    fn call(&mut self, id: u64, name: String, arguments: Value, held: Held) {
        if self.waiting.iter().any(|call| call.id == id) {
            self.unread.push_back(Reply::NotUnderstood("a call with this `id` has not been answered yet"));
            return;
        }
        let Begun { index, bytes } = match self.tally.begin(&name, &arguments, self.watch.elapsed()) {
            Ok(begun) => begun,
            Err(failure) => return self.answer(id, Err(failure), false),
        };
        match self.tally.admit(&name, self.toolbox.get(&name), &arguments, bytes) {
            Ok(_) => {
                self.waiting.push_back(Waiting { id, index, name, arguments, held });
                self.start();
            }
            Err(failure) => {
                drop((arguments, held));
                self.finish(id, index, Err(failure), false);
            }
        }
    }

    /// Runs calls while there are turns.
    fn start(&mut self) {
        while self.unread_ran < self.at_once {
            let Some(Waiting { id, index, name, arguments, held }) = self.waiting.pop_front() else { return };
            let begun = self.watch.elapsed();
            let answer = match self.toolbox.get(&name) {
                Some(tool) => self.run(tool, &name, &arguments),
                None => Err(Failure::new(ToolErrorKind::Unknown, format!("no tool is called `{name}`"))),
            };
            drop((arguments, held));
            // What took too long did so though nobody could end it.
            let is_late = self.watch.elapsed().saturating_sub(begun) > Duration::from_millis(self.timeout_ms);
            let answer = if is_late { Err(timeout(self.timeout_ms)) } else { answer };
            self.unread_ran += 1;
            self.finish(id, index, answer, true);
        }
    }

    fn run(&self, tool: &Checked, name: &str, arguments: &Value) -> Answer {
        tool.check(arguments)?;
        let Some(host) = &self.host else {
            return Err(Failure::new(ToolErrorKind::Failed, "the tool could not be run"));
        };
        let result = host.call(name, &arguments.to_string()).map_err(failure)?;
        json_text(within(result, self.tally.bytes_most())?)
    }

    /// Takes the next reply, if there is one.
    pub fn take(&mut self) -> Option<String> {
        let reply = self.unread.pop_front()?;
        Some(match reply {
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

    fn catalogue(&mut self) -> String {
        let text = self.toolbox.catalogue();
        self.taken = self.account.hold(text.len() as u64);
        if self.taken.is_some() {
            return text;
        }
        not_understood("the host has no room for the list of tools: `limits.memory_bytes` counts it")
    }

    /// Ends the calls with the execution, and says what became of each.
    #[must_use]
    pub fn end(mut self) -> Vec<ToolRecord> {
        let now = self.watch.elapsed();
        for call in &self.waiting {
            self.tally.leave(call.index, now);
        }
        self.tally.take()
    }

    fn finish(&mut self, id: u64, index: usize, answer: Answer, ran: bool) {
        self.tally.finish(index, &answer, self.watch.elapsed());
        self.answer(id, answer, ran);
    }

    fn answer(&mut self, id: u64, answer: Answer, ran: bool) {
        let (answer, held) = hold_answer(&self.account, answer);
        self.unread.push_back(Reply::Answer { id, answer, ran, held });
    }
}

/// Why a tool has no result.
fn failure(failure: types::CallFailure) -> Failure {
    ToolError::from(failure).into()
}
