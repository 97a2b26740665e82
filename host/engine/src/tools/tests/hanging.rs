//! Tests of handlers that do not return.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Guest, TEST_TIMEOUT, echo, gate};
use crate::{
    Limits,
    tools::{ToolThreads, Toolbox},
};

/// A sandbox with a tool that hangs.
struct HangingSandbox {
    threads: Arc<ToolThreads>,
    toolbox: Arc<Toolbox>,
    open: mpsc::Sender<()>,
    begun: mpsc::Receiver<()>,
}

impl HangingSandbox {
    fn new() -> Self {
        let (gate, open, begun) = gate();
        let toolbox = Arc::new(Toolbox::new(&[gate, echo()]).unwrap());
        Self { threads: ToolThreads::new(200), toolbox, open, begun }
    }

    /// Starts an execution in the session. Its calls time out after 1 ms.
    fn guest(&self, session_id: &str) -> Guest {
        self.guest_with(session_id, |limits| limits.tool_timeout_ms = 1)
    }

    fn guest_with(&self, session_id: &str, edit: impl FnOnce(&mut Limits)) -> Guest {
        Guest::of(session_id, &self.threads, &self.toolbox, |limits| {
            limits.tool_calls = 1_000_000;
            limits.tool_calls_at_once = 100;
            edit(limits);
        })
    }

    /// Calls the hanging tool and waits until the call is abandoned.
    fn hang(&self, guest: &mut Guest, text_bytes: usize) {
        guest.call(1, "gate", &json!({ "a": "x".repeat(text_bytes) }));
        self.begun.recv_timeout(TEST_TIMEOUT).unwrap();
        assert_eq!(guest.error().0, "ToolTimeout");
    }

    /// Lets one call return, and waits until the session can make calls again.
    fn recover(&self, guest: &mut Guest, text_bytes: usize) {
        self.open.send(()).unwrap();
        let end = Instant::now() + TEST_TIMEOUT;
        loop {
            guest.call(2, "gate", &json!({ "a": "x".repeat(text_bytes) }));
            match guest.failure().as_deref() {
                Some("ToolTimeout") => return,
                Some(_) => {}
                // This call received the permit before it timed out: send another permit.
                None => self.open.send(()).unwrap(),
            }
            assert!(Instant::now() < end, "calls are still refused");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for HangingSandbox {
    fn drop(&mut self) {
        for _ in 0..100 {
            self.open.send(()).ok();
        }
    }
}

#[test]
fn session_with_many_abandoned_calls_is_refused() {
    let sandbox = HangingSandbox::new();
    for _ in 0..16 {
        sandbox.hang(&mut sandbox.guest("a"), 0);
    }
    let mut again = sandbox.guest("a");
    for tool in ["gate", "echo"] {
        again.call(1, tool, &json!({}));
        let (kind, message) = again.error();
        assert_eq!(
            (kind.as_str(), message.contains("16 of this session's abandoned calls")),
            ("ToolLimit", true),
            "{message}"
        );
    }
    sandbox.hang(&mut sandbox.guest("b"), 0);
    let mut unhurried = sandbox.guest_with("b", |_| {});
    unhurried.call(1, "echo", &json!({"a": 1}));
    assert_eq!(unhurried.ok(), json!({"a": 1}));
    sandbox.recover(&mut again, 0);
}

#[test]
fn hanging_tool_is_refused_and_others_continue() {
    let sandbox = HangingSandbox::new();
    for call in 0..64 {
        sandbox.hang(&mut sandbox.guest(&format!("s{}", call / 16)), 0);
    }
    let mut guest = sandbox.guest("other");
    guest.call(64, "gate", &json!({}));
    let (kind, message) = guest.error();
    assert_eq!((kind.as_str(), message.contains("64 abandoned calls to `gate`")), ("ToolLimit", true), "{message}");
    let mut unhurried = sandbox.guest_with("other", |_| {});
    unhurried.call(1, "echo", &json!({}));
    unhurried.ok();
    sandbox.recover(&mut guest, 0);
}

#[test]
fn bytes_left_with_handlers_are_limited() {
    const MIB: usize = 1 << 20;
    let sandbox = HangingSandbox::new();
    let guest = || {
        sandbox.guest_with("a", |limits| {
            limits.tool_timeout_ms = 1;
            limits.tool_bytes = 16 << 20;
        })
    };
    // Each call belongs to a separate execution, whose memory no longer includes the arguments after its end.
    sandbox.hang(&mut guest(), 4 * MIB);
    sandbox.hang(&mut guest(), 3 * MIB);
    let mut over = guest();
    over.call(1, "gate", &json!({ "a": "x".repeat(MIB) }));
    let (kind, message) = over.error();
    assert_eq!(
        (kind.as_str(), message.contains("of abandoned calls need more than 16777216 bytes")),
        ("ToolLimit", true),
        "{message}"
    );
    sandbox.hang(&mut over, MIB / 2);
    // The call with the smallest arguments may return first, which frees too little. Here and in `recover`, two calls
    // return, and at least one of them frees 3 MiB or more.
    sandbox.open.send(()).unwrap();
    sandbox.recover(&mut over, MIB);
}

#[test]
fn calls_with_large_arguments_run_sequentially() {
    let sandbox = HangingSandbox::new();
    let mut guest = sandbox.guest_with("a", |limits| limits.tool_bytes = 16 << 20);
    let large = json!({ "a": "x".repeat(7 << 19) });
    for id in 0..3 {
        guest.call(id, "gate", &large);
    }
    for _ in 0..2 {
        sandbox.begun.recv_timeout(TEST_TIMEOUT).unwrap();
    }
    assert!(sandbox.begun.recv_timeout(Duration::from_millis(50)).is_err(), "the third call waits");
    for _ in 0..3 {
        sandbox.open.send(()).unwrap();
        assert_eq!(guest.ok(), large);
    }
    assert_eq!(guest.end().len(), 3);
}

#[test]
fn queued_calls_are_refused_after_abandoned_ones() {
    let sandbox = HangingSandbox::new();
    let mut guest = sandbox.guest_with("a", |limits| {
        limits.tool_timeout_ms = 1;
        limits.tool_calls_at_once = 1;
    });
    for id in 0..17 {
        guest.call(id, "gate", &json!({}));
    }
    for id in 0..17 {
        assert_eq!(guest.error().0, if id < 16 { "ToolTimeout" } else { "ToolLimit" }, "{id}");
    }
    assert_eq!(guest.end()[16].outcome.word(), "ToolLimit");
}
