//! Tests of each limit: under, at and over it, and of calls afterwards.

use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Guest, TEST_TIMEOUT, echo, gate, restricted};
use crate::tools::{Tool, ToolThreads};

#[test]
fn number_of_calls_is_limited() {
    let mut guest = Guest::new(&[echo()], |limits| limits.tool_calls = 3);
    for id in 0..3 {
        guest.call(id, if id == 1 { "missing" } else { "echo" }, &json!({}));
        assert!(guest.read().unwrap()["error"]["type"] != "ToolLimit", "under and at");
    }
    guest.call(9, "echo", &json!({}));
    let (kind, message) = guest.error();
    assert_eq!(kind, "ToolLimit");
    assert!(message.contains("tool_calls") && message.contains('3'), "{message}");
    guest.send(&json!({"list": true}));
    assert_eq!(guest.read().unwrap()["tools"][0]["name"], "echo", "usable after");
    assert_eq!(guest.end().len(), 3, "refused calls are not recorded");
    let mut none = Guest::new(&[echo()], |limits| limits.tool_calls = 0);
    none.call(1, "echo", &json!({}));
    assert_eq!(none.error().0, "ToolLimit");
}

#[test]
fn calls_to_one_tool_are_limited_by_the_policy() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let counting = Tool::new("counting", "").schema(json!({ "required": ["a"] })).handler(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(json!(null))
    });
    let table = json!({ "counting": { "max_calls": 3 }, "missing": { "max_calls": 0 } });
    let (threads, toolbox) = (ToolThreads::new(64), restricted(&[counting, echo()], table));
    let mut guest = Guest::of("s1", &threads, &toolbox, |_| {});
    for (id, arguments) in [(0, json!({ "a": 1 })), (1, json!({})), (2, json!({ "a": 1 }))] {
        guest.call(id, "counting", &arguments);
        assert_ne!(guest.failure().as_deref(), Some("ToolLimit"), "under and at, call {id}");
    }
    guest.call(3, "counting", &json!({ "a": 1 }));
    let (kind, message) = guest.error();
    assert_eq!(kind, "ToolLimit");
    assert_eq!(message, "no more calls to `counting` are allowed: the maximum `tools.counting.max_calls` is 3");
    assert_eq!(reached.load(Ordering::SeqCst), 2, "neither the invalid nor the refused call reached the tool");
    guest.call(4, "echo", &json!({}));
    guest.ok();
    guest.call(5, "missing", &json!({}));
    assert_eq!(guest.failure().as_deref(), Some("UnknownTool"), "a restriction does not create a tool");
    assert_eq!(guest.end().len(), 6, "a call that the policy refuses is recorded");
    let mut next = Guest::of("s1", &threads, &toolbox, |_| {});
    next.call(0, "counting", &json!({ "a": 1 }));
    next.ok();
}

#[test]
fn policy_can_forbid_a_tool() {
    let toolbox = restricted(&[], json!({ "echo": { "max_calls": 0 } }));
    let toolbox = Arc::new(toolbox.with(&[echo()]).unwrap());
    let mut guest = Guest::of("s1", &ToolThreads::new(64), &toolbox, |_| {});
    guest.call(0, "echo", &json!({}));
    assert_eq!(guest.error().0, "ToolLimit", "restrictions apply to tools that are added later");
}

#[test]
fn call_that_needs_an_approval_is_denied_without_an_approver() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let pay = Tool::new("pay", "").schema(json!({ "required": ["euros"] })).handler(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(json!(null))
    });
    let table = json!({ "pay": { "approve": "always", "max_calls": 2 }, "echo": { "approve": "never" } });
    let toolbox = restricted(&[pay, echo()], table);
    assert!(!toolbox.has_handler("pay") && toolbox.has_handler("echo"));
    let mut guest = Guest::of("s1", &ToolThreads::new(64), &toolbox, |_| {});
    guest.call(0, "pay", &json!({}));
    assert_eq!(guest.error().0, "InvalidArguments", "invalid calls need no approval");
    guest.call(1, "pay", &json!({ "euros": 20 }));
    let (kind, message) = guest.error();
    assert_eq!(kind, "ToolDenied");
    assert_eq!(
        message,
        "calls to `pay` need an approval (`tools.pay.approve`), and this execution has no approver; use `glovebox run` \
         for a single script, use `glovebox mcp`, or start it with `Request::approvals`"
    );
    guest.call(2, "pay", &json!({ "euros": 20 }));
    assert_eq!(guest.error().0, "ToolLimit", "denied calls count");
    guest.call(3, "echo", &json!({}));
    guest.ok();
    assert_eq!(reached.load(Ordering::SeqCst), 0, "no call reached the tool");
}

#[test]
fn arguments_must_match_the_policys_schema_too() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let weather = Tool::new("weather", "")
        .schema(json!({ "properties": { "city": { "type": "string" } }, "required": ["city"] }))
        .handler(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(json!(null))
        });
    let schema = json!({ "properties": { "city": { "maxLength": 5 }, "days": false } });
    let toolbox = restricted(&[weather], json!({ "weather": { "schema": schema } }));
    let mut guest = Guest::of("s1", &ToolThreads::new(64), &toolbox, |_| {});
    for city in ["Oslo", "Turku"] {
        guest.call(1, "weather", &json!({ "city": city }));
        guest.ok();
    }
    let policy = "the policy restricts calls to `weather` (`tools.weather.schema`): ";
    for (arguments, expected) in [
        (json!({ "city": "Bergen" }), format!("{policy}`/city`: the number of characters is 6; the maximum is 5")),
        (json!({ "city": "Oslo", "days": 1 }), format!("{policy}`/days`: no value is allowed here")),
        (json!({ "days": 1 }), "\"city\" is a required property".to_owned()),
        (json!({ "city": 12_345 }), "`/city`: value is not of type \"string\"".to_owned()),
    ] {
        guest.call(2, "weather", &arguments);
        assert_eq!(guest.error(), ("InvalidArguments".to_owned(), expected), "{arguments}");
    }
    assert_eq!(reached.load(Ordering::SeqCst), 2, "a refused call does not reach the tool");
}

#[test]
fn concurrent_calls_are_limited_and_queued() {
    let highest = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let (seen, running) = (Arc::clone(&highest), now);
    let together = Barrier::new(3);
    let tool = Tool::new("count", "").handler(move |_, _| {
        seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        together.wait();
        thread::sleep(Duration::from_millis(20));
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(json!(null))
    });
    let mut guest = Guest::new(&[tool], |limits| limits.tool_calls_at_once = 3);
    for id in 0..9 {
        guest.call(id, "count", &json!({}));
    }
    let mut ids: Vec<u64> = (0..9).map(|_| guest.read().unwrap()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..9).collect::<Vec<_>>());
    assert_eq!(highest.load(Ordering::SeqCst), 3);
}

#[test]
fn unread_results_occupy_their_slot() {
    let (gate, open, begun) = gate();
    let mut guest = Guest::new(&[gate], |limits| limits.tool_calls_at_once = 2);
    for id in 0..4 {
        guest.call(id, "gate", &json!({}));
        open.send(()).unwrap();
    }
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    let end = Instant::now() + TEST_TIMEOUT;
    while !guest.calls.has_answer() {
        assert!(Instant::now() < end);
    }
    guest.calls.collect();
    assert!(begun.recv_timeout(Duration::from_millis(50)).is_err(), "the third call waits until a result is read");
    for _ in 0..4 {
        guest.ok();
    }
}

#[test]
fn size_of_arguments_is_limited() {
    let mut guest = Guest::new(&[echo()], |limits| limits.tool_bytes = 100);
    for (text, fits) in [(91, true), (92, true), (93, false)] {
        guest.call(1, "echo", &json!({"a": "x".repeat(text)}));
        if fits {
            guest.ok();
            continue;
        }
        let (kind, message) = guest.error();
        assert_eq!(kind, "ToolLimit");
        assert!(message.contains("101") && message.contains("tool_bytes"), "{message}");
    }
}

#[test]
fn size_of_results_is_limited() {
    let long = Tool::new("long", "").handler(|_, arguments| {
        let length = arguments["length"].as_u64().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        Ok(json!("x".repeat(length)))
    });
    let mut guest = Guest::new(&[long], |limits| limits.tool_bytes = 100);
    for (length, fits) in [(97, true), (98, true), (99, false)] {
        guest.call(1, "long", &json!({"length": length}));
        if fits {
            assert_eq!(guest.ok().as_str().unwrap().len(), length);
            continue;
        }
        let (kind, message) = guest.error();
        assert_eq!(kind, "ToolLimit");
        assert!(message.contains("101") && message.contains("tool_bytes"), "{message}");
    }
}

#[test]
fn bytes_held_for_calls_count_as_guest_memory() {
    let (finish, finished) = mpsc::channel();
    let finished = Mutex::new(finished);
    let long = Tool::new("long", "").handler(move |_, _| {
        finished.lock().unwrap().recv_timeout(TEST_TIMEOUT).ok();
        Ok(json!("x".repeat(998)))
    });
    let (gate, open, begun) = gate();
    let mut guest = Guest::new(&[long, gate], |_| {});
    assert_eq!(guest.calls.account().held_bytes(), 0);
    guest.call(1, "gate", &json!({"a": "x".repeat(1000)}));
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    let with_arguments = guest.calls.account().held_bytes();
    assert!((3000..5000).contains(&with_arguments), "{with_arguments}");
    open.send(()).unwrap();
    guest.ok();
    assert_eq!(guest.calls.account().held_bytes(), 0, "the memory is released when the result is read");

    // The charge is about 2 KiB for the arguments `{}`, and 1,000 bytes plus overhead for the result.
    for (room, fits) in [(1255, false), (1256, true), (1257, true)] {
        guest.calls.account().set_room(1 << 20);
        guest.call(1, "long", &json!({}));
        guest.calls.account().set_room(room);
        finish.send(()).unwrap();
        assert_eq!(guest.read().unwrap().get("ok").is_some(), fits, "{room}");
    }
    guest.calls.account().set_room(100);
    guest.call(1, "long", &json!({}));
    let (kind, message) = guest.error();
    assert_eq!(kind, "ToolLimit");
    assert!(message.contains("memory_bytes"), "{message}");
    guest.calls.account().set_room(1 << 20);
    guest.call(1, "long", &json!({}));
    finish.send(()).unwrap();
    guest.ok();
}

#[test]
fn concurrent_calls_of_an_engine_are_limited() {
    let threads = ToolThreads::new(2);
    let (gate, open, begun) = gate();
    let mut guest = Guest::on(&threads, std::slice::from_ref(&gate), |_| {});
    let mut other = Guest::on(&threads, &[gate], |_| {});
    guest.call(1, "gate", &json!({}));
    other.call(1, "gate", &json!({}));
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    other.call(2, "gate", &json!({}));
    let (kind, message) = other.error();
    assert_eq!(kind, "ToolLimit");
    assert!(message.contains("try again"), "{message}");
    open.send(()).unwrap();
    open.send(()).unwrap();
    guest.ok();
    other.ok();
    open.send(()).unwrap();
    other.call(3, "gate", &json!({}));
    other.ok();
}
