//! Tests started executions that are abandoned, dropped in large numbers, or answered incorrectly.

use std::{thread, time::Duration};

use glovebox_tests::{process::in_child, puppet::Puppet};
use serde_json::{Value, json};

use super::{LONG, MIB, assert_others_work, error, grown, ok, open, puppet, puppet_with, start, threads, trap};

const ENDLESS: &str = "for (;;) {}";

fn try_start(puppet: &mut Puppet, source: &str) -> Value {
    puppet.call("start", &json!(["javascript", { "source": source }, {}, []])).unwrap()
}

/// Steps through an execution until it has ended.
fn end(puppet: &mut Puppet, started: &Value) -> Value {
    let step = puppet.call("started.continue", &json!([started, [], u64::MAX])).unwrap();
    ok(&step)["done"].clone()
}

/// Polls a condition for up to a minute. Returns `true` if it becomes true.
fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    (0..6_000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        is_so()
    })
}

#[test]
fn started_executions_are_limited_by_their_quota() {
    let mut puppet = puppet_with(|quotas| quotas.started = 2);
    let first = start(&mut puppet, ENDLESS);
    start(&mut puppet, ENDLESS);
    assert_eq!(
        error(&try_start(&mut puppet, "1")),
        (
            "quota-exceeded",
            "`started` would be exceeded: the maximum is 2; drop unused resources, or raise the quota in the host"
        )
    );
    let session = open(&mut puppet);
    let in_session = puppet.call("session.start", &json!([session, { "source": "1" }])).unwrap();
    assert_eq!(error(&in_session).0, "quota-exceeded");
    // The session is free again after the rejected execution.
    ok(&puppet.call("session.execute", &json!([session, { "source": "1" }])).unwrap());
    puppet.call("started.cancel", &json!([first])).unwrap();
    puppet.call("started.cancel", &json!([first])).unwrap();
    assert_eq!(end(&mut puppet, &first)["outcome"], "cancelled");
    assert!(eventually(|| try_start(&mut puppet, "1").get("ok").is_some()), "the cancelled execution frees its place");
    assert_others_work();
}

#[test]
fn dropped_started_executions_leave_no_threads() {
    if !in_child("hostile_components::started::dropped_started_executions_leave_no_threads", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet_with(|quotas| quotas.started = 8);
    let before = threads();
    let (mut highest, mut begun) = (0, 0);
    let grown = grown(|| {
        for _ in 0..2_000 {
            if let Some(started) = try_start(&mut puppet, ENDLESS).get("ok").cloned() {
                begun += 1;
                puppet.call("started.drop", &json!([started])).unwrap();
            }
            highest = highest.max(threads());
        }
    });
    println!("{begun} begun, {highest} threads at most of {before} before, {} MiB", grown / MIB);
    assert!(begun > 8, "dropped executions free their places");
    // A thread per execution, plus a few for other tests' sandboxes.
    assert!(highest <= before + 8 + 4, "{highest} threads");
    assert!(eventually(|| puppet.store.data().usage().started == 0), "every execution is unwound");
    assert!(eventually(|| threads() <= before + 4), "{} threads at the end", threads());
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn uncontinued_executions_end_at_their_limits() {
    let mut puppet = puppet();
    let policy = json!({ "limits": { "fuel": 10_000_000, "fuel-reserve": 0 } });
    for _ in 0..16 {
        ok(&puppet.call("start", &json!(["javascript", { "source": ENDLESS }, policy, []])).unwrap());
    }
    // Executions are charged until they have ended, even if the component never steps them.
    assert!(eventually(|| puppet.store.data().usage().started == 0), "every execution has run out of fuel");
    assert_others_work();
}

#[test]
fn dropped_store_ends_its_started_executions() {
    if !in_child("hostile_components::started::dropped_store_ends_its_started_executions", LONG) {
        return;
    }
    assert_others_work();
    let before = threads();
    for _ in 0..20 {
        let mut puppet = puppet();
        let session = open(&mut puppet);
        ok(&puppet.call("session.start", &json!([session, { "source": ENDLESS }])).unwrap());
        for _ in 0..5 {
            start(&mut puppet, ENDLESS);
        }
        trap(&mut puppet, "blob.size", &json!([12_345]));
    }
    assert!(eventually(|| threads() <= before + 2), "{} threads of {before} before", threads());
    assert_others_work();
}

#[test]
fn arbitrary_wait_timeouts_are_handled() {
    let mut puppet = puppet();
    let started = start(&mut puppet, ENDLESS);
    for wait in [0, 1] {
        let step = puppet.call("started.continue", &json!([started, [], wait])).unwrap();
        assert_eq!(ok(&step), "running");
    }
    puppet.call("started.cancel", &json!([started])).unwrap();
    for wait in [json!(u64::MAX), json!(u64::MAX / 1_000), Value::Null, json!(0)] {
        let step = puppet.call("started.continue", &json!([started, [], wait])).unwrap();
        assert_eq!(ok(&step)["done"]["outcome"], "cancelled", "{wait}");
    }
    assert_others_work();
}

#[test]
fn output_is_readable_at_any_offset() {
    let mut puppet = puppet();
    let started = start(&mut puppet, "console.log('x'.repeat(99))");
    end(&mut puppet, &started);
    let mut read = |offset: u64, len: u64| {
        let bytes = puppet.call("started.read-output", &json!([started, "stdout", offset, len])).unwrap();
        bytes.as_str().unwrap().len()
    };
    let far =
        [(0, u64::MAX, 100), (99, u64::MAX, 1), (100, 1, 0), (u64::MAX, u64::MAX, 0), (u64::MAX, 1, 0), (5, 0, 0)];
    for (offset, len, bytes) in far {
        assert_eq!(read(offset, len), bytes, "{offset} {len}");
    }
}

#[test]
fn busy_session_rejects_further_calls() {
    let mut puppet = puppet();
    let session = open(&mut puppet);
    ok(&puppet.call("session.execute", &json!([session, { "source": "var a = 1" }])).unwrap());
    let started = puppet.call("session.start", &json!([session, { "source": ENDLESS }])).unwrap();
    let started = ok(&started).clone();
    let rest = [
        ("session.execute", json!([session, { "source": "1" }])),
        ("session.start", json!([session, { "source": "1" }])),
        ("session.get-variable", json!([session, "a"])),
        ("session.set-variable", json!([session, "a", "1"])),
        ("session.files", json!([session])),
        ("session.write-file", json!([session, "f", "x", "fail"])),
        ("session.rename-file", json!([session, "f", "g", "fail"])),
        ("session.delete-file", json!([session, "f", true])),
        ("session.fork", json!([session])),
        ("session.checkpoint", json!([session])),
        ("session.checkpoints", json!([session])),
        ("session.undo", json!([session])),
        ("session.undo-to", json!([session, 1])),
        ("session.hibernate", json!([session])),
        ("session.close", json!([session])),
    ];
    for (function, arguments) in rest {
        let answer = puppet.call(function, &arguments).unwrap();
        assert_eq!(error(&answer).0, "session-busy", "{function}");
    }
    puppet.call("session.info", &json!([session])).unwrap();
    // The session waits until the dropped execution has ended, is then rolled back, and remains open.
    puppet.call("started.drop", &json!([started])).unwrap();
    let read = puppet.call("session.get-variable", &json!([session, "a"])).unwrap();
    assert_eq!(ok(&read)["json"], "1");
    assert_others_work();
}

/// Starts a script that calls a tool twice and prints the answers.
fn asking(puppet: &mut Puppet) -> Value {
    let source = "print(tools.ask(q=1))\nprint(tools.ask(q=2))";
    let tools = json!([{ "name": "ask", "description": "" }]);
    let answer = puppet.call("start", &json!(["python", { "source": source }, {}, tools])).unwrap();
    let started = ok(&answer).clone();
    let step = puppet.call("started.continue", &json!([started, [], null])).unwrap();
    assert_eq!(ok(&step)["needs-tools"][0]["id"], 0, "{step}");
    started
}

#[test]
fn invalid_answers_are_rejected_as_a_whole() {
    let mut puppet = puppet();
    let started = asking(&mut puppet);
    let good = json!({ "id": 0, "answer": { "ok": "1" } });
    let deep = "[".repeat(1 << 20);
    let wrong = [
        json!([good, { "id": 1, "answer": { "ok": "1" } }]),
        json!([good, { "id": u64::MAX, "answer": { "ok": "1" } }]),
        json!([good, { "id": 0, "answer": { "ok": "{" } }]),
        json!([good, { "id": 0, "answer": { "ok": "" } }]),
        json!([good, { "id": 0, "answer": { "ok": "1 2" } }]),
        json!([good, { "id": 0, "answer": { "ok": deep } }]),
    ];
    for answers in wrong {
        let step = puppet.call("started.continue", &json!([started, answers, 0])).unwrap();
        let (name, text) = error(&step);
        assert!(name == "invalid-argument" && text.starts_with("`answers`: ") && text.len() < 1_000, "{text}");
    }
    let many: Vec<Value> = (0..10_000).map(|n| json!({ "id": 0, "answer": { "ok": n.to_string() } })).collect();
    let step = puppet.call("started.continue", &json!([started, many, null])).unwrap();
    assert_eq!(ok(&step)["needs-tools"][0]["id"], 1, "the first answer was used and the script asks again");
    // An answer to an answered call is ignored. An oversized answer makes the call fail in the script.
    let huge = format!("\"{}\"", "x".repeat(1 << 20));
    let answers = json!([{ "id": 0, "answer": { "ok": "7" } }, { "id": 1, "answer": { "ok": huge } }]);
    let step = puppet.call("started.continue", &json!([started, answers, null])).unwrap();
    let done = &ok(&step)["done"];
    assert_eq!(done["stdout"]["bytes"], "0\n", "{done}");
    assert_eq!(done["outcome"]["raised"]["type-name"], "ToolLimit", "{done}");
    assert_others_work();
}

#[test]
fn failure_messages_are_truncated() {
    let mut puppet = puppet();
    let started = asking(&mut puppet);
    let failure = json!({ "kind": "failed", "message": "é\u{0}\u{202e}".repeat(1 << 18) });
    let answers = json!([{ "id": 0, "answer": { "err": failure } }]);
    let step = puppet.call("started.continue", &json!([started, answers, null])).unwrap();
    let raised = &ok(&step)["done"]["outcome"]["raised"];
    assert_eq!(raised["type-name"], "ToolError", "{step}");
    assert!(raised["message"].as_str().unwrap().len() <= 4_200, "the message is truncated");
    assert_others_work();
}
