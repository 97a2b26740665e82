//! Tests of tool calls without a guest, through the guest's side of the device.

mod bounds;
mod hanging;
mod hostile;
mod protocol;

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use glovebox_core::tools::NextReply;
use serde_json::{Value, json};

use super::{ThreadRunner, Tool, ToolRecord, ToolRules, ToolThreads, Toolbox, runner::Calls};
use crate::{CancelToken, Limits, exec::platform::Stopwatch};

/// The timeout of one step: longer than any step takes, but short enough to detect a hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The guest's side of the tools device.
struct Guest {
    calls: Calls,
    begun: Stopwatch,
    wake: CancelToken,
}

impl Guest {
    fn new(tools: &[Tool], edit: impl FnOnce(&mut Limits)) -> Self {
        Self::on(&ToolThreads::new(64), tools, edit)
    }

    fn on(threads: &Arc<ToolThreads>, tools: &[Tool], edit: impl FnOnce(&mut Limits)) -> Self {
        Self::of("s1", threads, &Arc::new(Toolbox::new(tools).unwrap()), edit)
    }

    /// Starts an execution in a session.
    fn of(
        session_id: &str,
        threads: &Arc<ToolThreads>,
        toolbox: &Arc<Toolbox>,
        edit: impl FnOnce(&mut Limits),
    ) -> Self {
        let mut limits = Limits::default();
        limits.timeout_ms = 60_000;
        edit(&mut limits);
        let wake = CancelToken::new();
        let (toolbox, threads, session) = (Arc::clone(toolbox), Arc::clone(threads), Some(session_id.to_owned()));
        let begun = Stopwatch(Instant::now());
        let calls = ThreadRunner::calls(toolbox, threads, &limits, session, begun, wake.clone(), None);
        calls.account().set_room(limits.memory_bytes);
        Self { calls, begun, wake }
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    fn send_text(&mut self, message: &str) {
        self.calls.send(message.as_bytes());
    }

    fn call(&mut self, id: u64, name: &str, arguments: &Value) {
        self.send(&json!({ "id": id, "name": name, "arguments": arguments }));
    }

    /// Waits for the next reply. Returns `None` if no reply is due.
    fn read(&mut self) -> Option<Value> {
        let end = Instant::now() + TEST_TIMEOUT;
        loop {
            let due = match self.calls.take() {
                NextReply::Reply(text) => {
                    self.calls.settle();
                    return Some(serde_json::from_str(&text).unwrap());
                }
                NextReply::NothingDue => return None,
                NextReply::Pending(due) => due,
            };
            assert!(Instant::now() < end, "no reply came");
            self.wake.wait(self.begun.instant(due), true, || self.calls.has_answer());
        }
    }

    /// Returns the next reply if it is already available.
    fn peek(&mut self) -> Option<Value> {
        match self.calls.take() {
            NextReply::Reply(text) => {
                self.calls.settle();
                Some(serde_json::from_str(&text).unwrap())
            }
            NextReply::NothingDue | NextReply::Pending(_) => None,
        }
    }

    fn ok(&mut self) -> Value {
        let reply = self.read().expect("a reply");
        reply.get("ok").unwrap_or_else(|| panic!("{reply}")).clone()
    }

    /// Reads the next reply. Returns the type of its error, or `None` for a successful call.
    fn failure(&mut self) -> Option<String> {
        let reply = self.read().expect("a reply");
        reply["error"]["type"].as_str().map(str::to_owned)
    }

    /// Reads the next reply. Returns the type and the message of its error.
    fn error(&mut self) -> (String, String) {
        let reply = self.read().expect("a reply");
        let text = |key: &str| reply["error"][key].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned();
        (text("type"), text("message"))
    }

    fn end(self) -> Vec<ToolRecord> {
        self.calls.end()
    }
}

/// Creates a toolbox with the restrictions of a policy's `tools` table.
fn restricted(tools: &[Tool], table: Value) -> Arc<Toolbox> {
    let rules = ToolRules::new(&serde_json::from_value(table).unwrap()).unwrap();
    Arc::new(Toolbox::new(tools).unwrap().restricted(rules))
}

/// Creates a tool that returns its arguments.
fn echo() -> Tool {
    Tool::new("echo", "Gives back its arguments.").handler(|_, arguments| Ok(arguments))
}

/// Creates a tool. Each call reports its start on the receiver, then waits for one message from the sender.
fn gate() -> (Tool, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (open, opened) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let opened = std::sync::Mutex::new(opened);
    let tool = Tool::new("gate", "Waits.").handler(move |_, arguments| {
        begin.send(()).ok();
        opened.lock().unwrap().recv_timeout(TEST_TIMEOUT).ok();
        Ok(arguments)
    });
    (tool, open, begun)
}
