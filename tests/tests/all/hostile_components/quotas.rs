//! Tests quotas below, at and above their limits. Also tests quotas on concurrent resources after a release.
//! `started.rs` tests the quota on started executions.

use glovebox_tests::{process::in_child, puppet::Puppet};
use serde_json::{Value, json};

use super::{LONG, MIB, assert_others_work, error, grown, host, ok, open, puppet, puppet_with, start, trap};

const QUOTA: &str = "quota-exceeded";

fn try_open(puppet: &mut Puppet) -> Value {
    puppet.call("session.open", &json!(["javascript", {}, {}])).unwrap()
}

#[test]
fn sessions_are_limited_by_their_quota() {
    let mut puppet = puppet_with(|quotas| quotas.sessions = 3);
    let first = open(&mut puppet);
    open(&mut puppet);
    // Forked and resumed sessions are charged to the session quota.
    let fork = ok(&puppet.call("session.fork", &json!([first])).unwrap()).clone();
    let saved = ok(&puppet.call("session.hibernate", &json!([first])).unwrap()).clone();
    let over = [
        try_open(&mut puppet),
        puppet.call("session.fork", &json!([first])).unwrap(),
        puppet.call("session.resume", &json!(["javascript", saved, {}, {}])).unwrap(),
    ];
    for answer in over {
        assert_eq!(
            error(&answer),
            (
                QUOTA,
                "`sessions` would be exceeded: the maximum is 3; drop unused resources, or raise the quota in the host"
            )
        );
    }
    // A closed session is charged until its handle is dropped.
    ok(&puppet.call("session.close", &json!([fork])).unwrap());
    assert_eq!(error(&try_open(&mut puppet)).0, QUOTA);
    puppet.call("session.drop", &json!([fork])).unwrap();
    ok(&puppet.call("session.resume", &json!(["javascript", saved, {}, {}])).unwrap());
    assert_eq!(puppet.store.data().usage().sessions, 3);
    assert_others_work();
}

#[test]
fn sessions_over_the_quota_cost_nothing() {
    if !in_child("hostile_components::quotas::sessions_over_the_quota_cost_nothing", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let mut opened = 0;
    let grown = grown(|| {
        for _ in 0..5_000 {
            opened += u32::from(try_open(&mut puppet).get("ok").is_some());
        }
        assert_others_work();
    });
    assert_eq!(opened, 64, "the default session quota");
    // An open session has only a few private pages.
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    println!("64 sessions: {} MiB", grown / MIB);
}

#[test]
fn opened_and_closed_sessions_leak_nothing() {
    if !in_child("hostile_components::quotas::opened_and_closed_sessions_leak_nothing", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet_with(|quotas| quotas.sessions = 1);
    let mut come_and_go = |times| {
        for _ in 0..times {
            let session = open(&mut puppet);
            puppet.call("session.drop", &json!([session])).unwrap();
        }
    };
    come_and_go(50);
    let grown = grown(|| come_and_go(500));
    assert!(grown < 64 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn handles_are_limited_by_their_quota() {
    let mut puppet = puppet_with(|quotas| quotas.handles = 5);
    let session = open(&mut puppet);
    let files = puppet.call("session.files", &json!([session])).unwrap();
    let blobs: Vec<Value> = (0..3).map(|_| puppet.call("blob.new", &json!([])).unwrap()).collect();
    let over = [
        puppet.call("session.files", &json!([session])).unwrap(),
        puppet.call("session.hibernate", &json!([session])).unwrap(),
        puppet.call("session.start", &json!([session, { "source": "1" }])).unwrap(),
        try_open(&mut puppet),
    ];
    for answer in over {
        assert_eq!(
            error(&answer),
            (
                QUOTA,
                "`handles` would be exceeded: the maximum is 5; drop unused resources, or raise the quota in the host"
            )
        );
    }
    // The session is still usable after the rejected calls.
    ok(&puppet.call("session.execute", &json!([session, { "source": "1" }])).unwrap());
    puppet.call("files.drop", &json!([ok(&files)])).unwrap();
    let started = puppet.call("session.start", &json!([session, { "source": "1" }])).unwrap();
    puppet.call("started.drop", &json!([ok(&started)])).unwrap();
    puppet.call("blob.drop", &json!([blobs[0]])).unwrap();
    // A constructor cannot return an error, so it traps.
    for _ in 0..2 {
        puppet.call("blob.new", &json!([])).unwrap();
    }
    let words = trap(&mut puppet, "blob.new", &json!([]));
    assert!(words.contains("`handles` would be exceeded: the maximum is 5; drop unused resources"), "{words}");
    assert_others_work();
}

#[test]
fn ten_thousand_blobs_fit_and_one_more_traps() {
    if !in_child("hostile_components::quotas::ten_thousand_blobs_fit_and_one_more_traps", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let grown = grown(|| {
        for _ in 0..10_000 {
            puppet.call("blob.new", &json!([])).unwrap();
        }
    });
    assert!(trap(&mut puppet, "blob.new", &json!([])).contains("`handles`"));
    assert!(grown < 32 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn held_bytes_are_limited_by_their_quota() {
    let mut puppet = puppet_with(|quotas| quotas.held_bytes = 1 << 20);
    let blob = puppet.call("blob.new", &json!([])).unwrap();
    let mut append = |len: usize| puppet.call("blob.append", &json!([blob, "x".repeat(len)])).unwrap();
    ok(&append((1 << 20) - 1));
    ok(&append(1));
    assert_eq!(
        error(&append(1)),
        (
            QUOTA,
            "`held-bytes` would be exceeded: the maximum is 1048576; drop unused resources, or raise the quota in the host"
        )
    );
    ok(&append(0));
    assert_eq!(puppet.call("blob.size", &json!([blob])).unwrap(), json!(1 << 20));
    // No handles or executions remain.
    let session = open(&mut puppet);
    let run = puppet.call("session.execute", &json!([session, { "source": "globalThis.a = 'x'" }])).unwrap();
    ok(&run);
    let saved = puppet.call("session.hibernate", &json!([session])).unwrap();
    assert_eq!(error(&saved).0, QUOTA);
    let started = puppet.call("start", &json!(["javascript", { "source": "1" }, {}, []])).unwrap();
    assert_eq!(error(&started).0, QUOTA);
    puppet.call("blob.drop", &json!([blob])).unwrap();
    assert_eq!(puppet.store.data().usage().held_bytes, 0);
    ok(&puppet.call("session.hibernate", &json!([session])).unwrap());
    assert_others_work();
}

#[test]
fn snapshots_of_files_count_in_full_each() {
    let mut puppet = puppet_with(|quotas| quotas.held_bytes = 10 << 20);
    let session = open(&mut puppet);
    let written = puppet.call("session.write-file", &json!([session, "f", "x".repeat(3 << 20), "fail"])).unwrap();
    ok(&written);
    let taken = (0..1_000).take_while(|_| puppet.call("session.files", &json!([session])).unwrap().get("ok").is_some());
    assert_eq!(taken.count(), 3, "a fourth would exceed the ten MiB");
    assert_others_work();
}

#[test]
fn million_one_byte_appends_hold_one_megabyte() {
    if !in_child("hostile_components::quotas::million_one_byte_appends_hold_one_megabyte", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let blob = puppet.call("blob.new", &json!([])).unwrap().as_u64().unwrap();
    let before = puppet.store.data().usage().held_bytes;
    let grown = grown(|| {
        for _ in 0..1_000_000 {
            puppet.call_flat("blob.append", &[blob, 64, 1]).unwrap();
        }
    });
    assert_eq!(puppet.call("blob.size", &json!([blob])).unwrap(), json!(1_000_000));
    let held = puppet.store.data().usage().held_bytes - before;
    assert!((1_000_000..=3 << 20).contains(&held), "{held} bytes are counted");
    assert!(grown < 16 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn executions_are_limited_by_their_quota() {
    let mut puppet = puppet_with(|quotas| quotas.executions = 7);
    let session = open(&mut puppet);
    let request = json!({ "source": "1" });
    ok(&puppet.call("execute", &json!(["javascript", request, {}])).unwrap());
    ok(&puppet.call("validate", &json!(["javascript", request, {}])).unwrap());
    ok(&puppet.call("session.execute", &json!([session, request])).unwrap());
    ok(&puppet.call("session.get-variable", &json!([session, "a"])).unwrap());
    ok(&puppet.call("session.set-variable", &json!([session, "a", "1"])).unwrap());
    start(&mut puppet, "1");
    let over = [
        puppet.call("execute", &json!(["javascript", request, {}])).unwrap(),
        puppet.call("validate", &json!(["javascript", request, {}])).unwrap(),
        puppet.call("start", &json!(["javascript", request, {}, []])).unwrap(),
        puppet.call("session.execute", &json!([session, request])).unwrap(),
        puppet.call("session.start", &json!([session, request])).unwrap(),
        puppet.call("session.get-variable", &json!([session, "a"])).unwrap(),
        puppet.call("session.fork", &json!([session])).unwrap(),
        puppet.call("session.undo", &json!([session])).unwrap(),
        try_open(&mut puppet),
    ];
    assert_eq!(puppet.store.data().usage().executions, 7, "rejected calls are not counted");
    for answer in over {
        assert_eq!(
            error(&answer),
            (QUOTA, "`executions` would be exceeded: the maximum is 7; raise the quota in the host")
        );
    }
    // Existing resources can still be read and closed.
    ok(&puppet.call("session.files", &json!([session])).unwrap());
    ok(&puppet.call("session.close", &json!([session])).unwrap());
    assert_others_work();
}

#[test]
fn total_fuel_is_limited_by_its_quota() {
    let mut puppet = puppet_with(|quotas| quotas.fuel = 100_000_000);
    let policy = json!({ "limits": { "fuel": 60_000_000, "fuel-reserve": 0 } });
    let endless = json!(["javascript", { "source": "for (;;) {}" }, policy]);
    for left in [60_000_000, 40_000_000] {
        let ran = puppet.call("execute", &endless).unwrap();
        let exhausted = &ok(&ran)["outcome"]["exhausted"];
        assert_eq!((&exhausted["resource"], &exhausted["limit"]), (&json!("fuel"), &json!(left)), "{ran}");
    }
    assert_eq!(
        error(&puppet.call("execute", &endless).unwrap()),
        (QUOTA, "`fuel` would be exceeded: the maximum is 100000000; raise the quota in the host")
    );
    assert_eq!(error(&puppet.call("session.open", &json!(["javascript", policy, {}])).unwrap()).0, QUOTA);
    assert_eq!(puppet.store.data().usage().fuel, 100_000_000);
    assert_others_work();
}

#[test]
fn component_at_its_quotas_does_not_affect_others() {
    let host = host(|_, quotas| {
        (quotas.sessions, quotas.handles, quotas.executions, quotas.held_bytes) = (1, 1, 2, 10);
    });
    let mut greedy = Puppet::new(&host);
    open(&mut greedy);
    assert_eq!(error(&try_open(&mut greedy)).0, QUOTA);
    let mut modest = Puppet::new(&host);
    let session = open(&mut modest);
    ok(&modest.call("session.execute", &json!([session, { "source": "1" }])).unwrap());
    assert_others_work();
}
