//! Tests invalid handles, and handles that belong to other components.

use glovebox_component_host::SandboxHost;
use glovebox_tests::{lone_engine, puppet::Puppet};
use serde_json::{Value, json};

use super::{assert_others_work, error, host, host_on, ok, open, puppet, start, trap};

/// Returns every function that takes a handle, with its other arguments.
fn takers() -> Vec<(&'static str, Value)> {
    vec![
        ("session.id", json!([])),
        ("session.info", json!([])),
        ("session.execute", json!([{ "source": "1" }])),
        ("session.start", json!([{ "source": "1" }])),
        ("session.get-variable", json!(["a"])),
        ("session.set-variable", json!(["a", "1"])),
        ("session.files", json!([])),
        ("session.write-file", json!(["a", "b", "fail"])),
        ("session.rename-file", json!(["a", "b", "fail"])),
        ("session.delete-file", json!(["a", true])),
        ("session.fork", json!([])),
        ("session.checkpoint", json!([])),
        ("session.checkpoints", json!([])),
        ("session.undo", json!([])),
        ("session.undo-to", json!([1])),
        ("session.hibernate", json!([])),
        ("session.close", json!([])),
        ("session.drop", json!([])),
        ("started.continue", json!([[], 0])),
        ("started.read-output", json!(["stdout", 0, 1])),
        ("started.files", json!([])),
        ("started.cancel", json!([])),
        ("started.drop", json!([])),
        ("files.list", json!(["*"])),
        ("files.stat", json!(["a"])),
        ("files.read", json!(["a", 0, 1])),
        ("files.drop", json!([])),
        ("blob.append", json!(["x"])),
        ("blob.size", json!([])),
        ("blob.read", json!([0, 1])),
        ("blob.drop", json!([])),
    ]
}

fn with_handle(handle: &Value, rest: &Value) -> Value {
    [handle.clone()].into_iter().chain(rest.as_array().unwrap().iter().cloned()).collect()
}

#[test]
fn forged_handles_trap_in_every_function() {
    let host = host(|_, _| ());
    for (function, rest) in takers() {
        for forged in [0_u32, 1, 9, 1 << 20, u32::MAX] {
            let mut puppet = Puppet::new(&host);
            let words = trap(&mut puppet, function, &with_handle(&json!(forged), &rest));
            assert!(words.contains("unknown handle index"), "{function} {forged}: {words}");
            assert_eq!(puppet.store.data().usage(), host.ctx().usage(), "a rejected call must not count");
        }
    }
    assert_others_work();
}

#[test]
fn mistyped_handle_traps() {
    let host = host(|_, _| ());
    for (function, rest) in takers() {
        let mut puppet = Puppet::new(&host);
        // Each function accepts one of the four kinds of handles and must reject the other three.
        let session = open(&mut puppet);
        let blob = puppet.call("blob.new", &json!([])).unwrap();
        let wrong = if function.starts_with("session") { blob } else { session };
        let words = trap(&mut puppet, function, &with_handle(&wrong, &rest));
        assert!(words.contains("used with the wrong type"), "{function}: {words}");
    }
    assert_others_work();
}

#[test]
fn dropped_handles_are_invalid_and_double_drop_traps() {
    let host = host(|_, _| ());
    type Make = fn(&mut Puppet) -> Value;
    let kinds: [(&str, &str, Value, Make); 4] = [
        ("session.drop", "session.info", json!([]), open),
        ("blob.drop", "blob.size", json!([]), |puppet| puppet.call("blob.new", &json!([])).unwrap()),
        ("started.drop", "started.continue", json!([[], 0]), |puppet| start(puppet, "1")),
        ("files.drop", "files.list", json!(["*"]), |puppet| {
            let session = open(puppet);
            ok(&puppet.call("session.files", &json!([session])).unwrap()).clone()
        }),
    ];
    for (drop, using, rest, make) in kinds {
        for again in [drop, using] {
            let mut puppet = Puppet::new(&host);
            let handle = make(&mut puppet);
            puppet.call(drop, &json!([handle])).unwrap();
            let rest = if again == drop { json!([]) } else { rest.clone() };
            let words = trap(&mut puppet, again, &with_handle(&handle, &rest));
            assert!(words.contains("unknown handle index"), "{again}: {words}");
        }
    }
    assert_others_work();
}

#[test]
fn handles_are_private_to_their_instance() {
    let mut first = puppet();
    let session = open(&mut first);
    ok(&first.call("session.set-variable", &json!([session, "secret", "7"])).unwrap());
    // The second instance shares the sandbox and its quotas, but has its own handle table.
    let mut second = first.beside();
    assert_eq!(second.store.data().usage().sessions, 1);
    let blob = second.call("blob.new", &json!([])).unwrap();
    assert_eq!(blob, session, "both handle tables start at the same number");
    assert_eq!(second.call("blob.size", &json!([blob])).unwrap(), 0);
    let words = trap(&mut second, "session.get-variable", &json!([session, "secret"]));
    assert!(words.contains("used with the wrong type"), "{words}");
    assert_others_work();
}

#[test]
fn handle_numbers_are_private_to_their_store() {
    let host = host(|_, _| ());
    let (mut one, mut other) = (Puppet::new(&host), Puppet::new(&host));
    let (of_one, of_other) = (open(&mut one), open(&mut other));
    assert_eq!(of_one, of_other);
    let set = one.call("session.set-variable", &json!([of_one, "secret", "7"])).unwrap();
    ok(&set);
    let read = other.call("session.get-variable", &json!([of_one, "secret"])).unwrap();
    assert_eq!(ok(&read), &Value::Null);
    let ids = [&mut one, &mut other].map(|puppet| puppet.call("session.id", &json!([of_one])).unwrap());
    assert_ne!(ids[0], ids[1]);
    // A session's ID grants no access: no function accepts an ID.
    drop(one);
    let info = other.call("session.info", &json!([of_other])).unwrap();
    assert_eq!(info["ended"], Value::Null);
}

/// Returns a host whose engine allows only one session.
fn host_of_one_session() -> SandboxHost {
    host_on(&lone_engine(None), |policy, _| policy.limits.session_count = 1)
}

#[test]
fn trapped_component_is_freed_with_its_sessions() {
    let host = host_of_one_session();
    let mut attacker = Puppet::new(&host);
    let session = open(&mut attacker);
    for n in 0..100 {
        let blob = attacker.call("blob.new", &json!([])).unwrap();
        ok(&attacker.call("blob.append", &json!([blob, "x".repeat(n * 100)])).unwrap());
        ok(&attacker.call("session.files", &json!([session])).unwrap());
    }
    let started = attacker.call("session.start", &json!([session, { "source": "for (;;) {}" }])).unwrap();
    ok(&started);
    start(&mut attacker, "for (;;) {}");
    trap(&mut attacker, "blob.size", &json!([77_777]));
    // An instance that trapped cannot be entered again.
    let again = attacker.call("blob.new", &json!([])).unwrap_err();
    assert!(format!("{again:#}").contains("cannot enter component instance"), "{again:#}");
    let mut other = Puppet::new(&host);
    let refused = other.call("session.open", &json!(["javascript", {}, {}])).unwrap();
    assert_eq!(error(&refused).0, "too-many-sessions");
    // The execution is unwound in the background, and then its session is freed.
    drop(attacker);
    let opened = (0..2_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        other.call("session.open", &json!(["javascript", {}, {}])).unwrap().get("ok").is_some()
    });
    assert!(opened, "the session was freed with its store");
    assert_others_work();
}
