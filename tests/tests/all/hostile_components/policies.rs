//! Tests policies and requests that exceed a limit or are invalid.

use glovebox::Policy;
use glovebox_tests::puppet::Puppet;
use serde_json::{Map, Value, json};

use super::{assert_others_work, error, host, ok, puppet};

fn execute(puppet: &mut Puppet, policy: &Value) -> Value {
    puppet.call("execute", &json!(["javascript", { "source": "1" }, policy])).unwrap()
}

/// Returns the default policy's limits.
fn granted(puppet: &mut Puppet) -> Map<String, Value> {
    let policy = puppet.call("default-policy", &json!([])).unwrap();
    policy["limits"].as_object().unwrap().clone()
}

#[test]
fn excess_over_any_granted_limit_names_the_maximum() {
    let mut puppet = puppet();
    let limits = granted(&mut puppet);
    assert_eq!(limits.len(), 21);
    for (name, max) in &limits {
        let max = max.as_u64().unwrap();
        let widest = if ["open-files", "tool-calls-at-once", "session-count"].contains(&name.as_str()) {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        ok(&execute(&mut puppet, &json!({ "limits": { name: max } })));
        for requested in [max + 1, widest] {
            let answer = execute(&mut puppet, &json!({ "limits": { name: requested } }));
            let text = format!("`limits.{name}`: {requested} is requested, but the maximum is {max}");
            assert_eq!(error(&answer), ("invalid-policy", text.as_str()));
        }
        // Zero is valid for some limits and invalid for others. It never means unlimited.
        let nothing = execute(&mut puppet, &json!({ "limits": { name: 0 } }));
        assert!(nothing.get("ok").is_some() || error(&nothing).0 == "invalid-policy", "{name}: {nothing}");
    }
    let widest: Map<String, Value> = limits.keys().map(|name| (name.clone(), json!(u32::MAX))).collect();
    assert_eq!(error(&execute(&mut puppet, &json!({ "limits": widest }))).0, "invalid-policy");
    assert_others_work();
}

#[test]
fn session_limits_are_capped_by_the_grant() {
    let mut puppet = puppet();
    for (name, max) in [("checkpoint-auto-bytes", 4_194_304_u64), ("checkpoints-retained", 8)] {
        let open = |puppet: &mut Puppet, requested: u64| {
            puppet.call("session.open", &json!(["javascript", { "session": { name: requested } }, {}])).unwrap()
        };
        ok(&open(&mut puppet, max));
        let answer = open(&mut puppet, max + 1);
        let text = format!("`session.{name}`: {} is requested, but the maximum is {max}", max + 1);
        assert_eq!(error(&answer), ("invalid-policy", text.as_str()));
    }
    let every = json!({ "session": { "checkpoints": { "every": 0 } } });
    let answer = puppet.call("session.open", &json!(["javascript", every, {}])).unwrap();
    assert_eq!(error(&answer).0, "invalid-policy");
}

#[test]
fn arguments_and_environment_are_limited_in_bytes() {
    let mut puppet = puppet();
    // Each argument is charged one extra byte for its terminator.
    ok(&execute(&mut puppet, &json!({ "args": ["a".repeat(131_071)] })));
    assert_eq!(error(&execute(&mut puppet, &json!({ "args": ["a".repeat(131_072)] }))).0, "invalid-policy");
    ok(&execute(&mut puppet, &json!({ "env": [["k", "v".repeat(131_069)]] })));
    assert_eq!(error(&execute(&mut puppet, &json!({ "env": [["k", "v".repeat(131_070)]] }))).0, "invalid-policy");
    let many: Vec<&str> = vec![""; 131_073];
    assert_eq!(error(&execute(&mut puppet, &json!({ "args": many }))).0, "invalid-policy");
    for env in [json!([["", "x"]]), json!([["a=b", "x"]]), json!([["a", "x\0"]]), json!([["a\0", "x"]])] {
        assert_eq!(error(&execute(&mut puppet, &json!({ "env": env }))).0, "invalid-policy", "{env}");
    }
    let twice = execute(&mut puppet, &json!({ "env": [["k".repeat(100_000), "1"], ["k".repeat(100_000), "2"]] }));
    assert_eq!(error(&twice).0, "invalid-policy");
    assert!(error(&twice).1.len() < 1_000, "repeated input is truncated");
    assert_eq!(error(&execute(&mut puppet, &json!({ "args": ["a\0"] }))).0, "invalid-policy");
    assert_others_work();
}

#[test]
fn host_clock_and_entropy_require_a_grant() {
    let host = host(|policy: &mut Policy, _| glovebox_tests::fixed(policy));
    let mut puppet = Puppet::new(&host);
    ok(&execute(&mut puppet, &json!({ "clock": { "fixed": u64::MAX }, "entropy": { "seeded": u64::MAX } })));
    assert_eq!(error(&execute(&mut puppet, &json!({ "clock": "host" }))).0, "invalid-policy");
    assert_eq!(error(&execute(&mut puppet, &json!({ "entropy": "host" }))).0, "invalid-policy");
}

#[test]
fn arbitrary_deadlines_are_handled() {
    let mut puppet = puppet();
    let mut run = |source: &str, deadline_ms: u64| {
        let request = json!({ "source": source, "deadline-ms": deadline_ms });
        ok(&puppet.call("execute", &json!(["javascript", request, {}])).unwrap())["outcome"].clone()
    };
    assert_eq!(run("for (;;) {}", 0), "cancelled");
    for far in [u64::MAX, u64::MAX / 1_000, i64::MAX.cast_unsigned(), u64::MAX / 1_000_000] {
        assert_eq!(run("1", far), "completed");
    }
    assert_others_work();
}

#[test]
fn arbitrary_names_are_quoted_truncated() {
    let mut puppet = puppet();
    let mut run =
        |name: &str| puppet.call("execute", &json!(["javascript", { "source": "throw 1", "name": name }, {}])).unwrap();
    for name in ["../../etc/passwd", "", "\u{202e}", "a\nb", &"é".repeat(2_048)] {
        ok(&run(name));
    }
    for name in ["a\0b", &"x".repeat(4_097), &"x".repeat(1 << 20)] {
        let answer = run(name);
        assert_eq!(error(&answer).0, "invalid-argument");
        assert!(error(&answer).1.len() < 10_000, "repeated input is truncated");
    }
    let unknown = puppet.call("execute", &json!([{ "named": "../../x".repeat(100_000) }, { "source": "" }, {}]));
    let unknown = unknown.unwrap();
    assert_eq!(error(&unknown).0, "unknown-runtime");
    assert!(error(&unknown).1.len() < 1_000, "repeated input is truncated");
    assert_others_work();
}

#[test]
fn changing_policies_are_not_all_cached() {
    let mut puppet = puppet();
    for seed in 0..200_u64 {
        let policy = json!({ "entropy": { "seeded": seed }, "args": ["x".repeat(100_000)] });
        ok(&execute(&mut puppet, &policy));
    }
    assert_others_work();
}
