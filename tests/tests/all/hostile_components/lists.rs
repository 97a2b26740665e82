//! Tests lists and strings that are too long, whether or not they are in bounds.

use glovebox_component_host::LIFT_BYTES;
use glovebox_tests::{
    process::in_child,
    puppet::{END, Puppet},
};
use serde_json::{Value, json};

use super::{LONG, MIB, assert_others_work, error, grown, host, ok, open, puppet, start, trap};

/// Maximum growth of the host's memory in bytes: the data of one call in both its lifted and processed forms, plus the
/// guests of [`assert_others_work`].
const GROWN_BYTES: u64 = 2 * LIFT_BYTES as u64 + 128 * MIB;

/// The start of a range in the puppet's memory that is never written and contains only zeros.
const ZEROS: u32 = 64 << 20;

const TOO_MUCH: &str = "fuel allocated for hostcalls has been exhausted";

/// Returns a list or string with `len` elements.
fn zeros(len: usize) -> Value {
    json!({ "raw": [ZEROS, len] })
}

/// A list parameter of a function, and the host's size of one element.
struct ListParameter {
    name: &'static str,
    element_bytes: usize,
    function: &'static str,
    arguments: fn(&mut Puppet, Value) -> Value,
    /// The host's answer to a list of the maximum size.
    at: &'static str,
}

fn list_parameters() -> Vec<ListParameter> {
    let string = size_of::<String>();
    let parameter =
        |name, element_bytes, function, arguments, at| ListParameter { name, element_bytes, function, arguments, at };
    vec![
        parameter("source", 1, "execute", |_, list| json!(["javascript", { "source": list }, {}]), "source-too-large"),
        parameter(
            "stdin",
            1,
            "execute",
            |_, list| json!(["javascript", { "source": "", "stdin": list }, {}]),
            "stdin-too-large",
        ),
        parameter(
            "name",
            1,
            "execute",
            |_, list| json!(["javascript", { "source": "", "name": list }, {}]),
            "invalid-argument",
        ),
        parameter(
            "runtime",
            1,
            "execute",
            |_, list| json!([{ "named": list }, { "source": "" }, {}]),
            "unknown-runtime",
        ),
        parameter(
            "args",
            string,
            "execute",
            |_, list| json!(["javascript", { "source": "" }, { "args": list }]),
            "invalid-policy",
        ),
        parameter(
            "env",
            2 * string,
            "execute",
            |_, list| json!(["javascript", { "source": "" }, { "env": list }]),
            "invalid-policy",
        ),
        parameter(
            "tools",
            3 * string,
            "start",
            |_, list| json!(["javascript", { "source": "" }, {}, list]),
            "invalid-argument",
        ),
        parameter(
            "context",
            1,
            "session.open",
            |_, list| json!(["javascript", {}, { "context": list }]),
            "invalid-argument",
        ),
        parameter(
            "variable",
            1,
            "session.set-variable",
            |puppet, list| json!([open(puppet), "a", list]),
            "invalid-argument",
        ),
        parameter("variable's name", 1, "session.get-variable", |puppet, list| json!([open(puppet), list]), "ok"),
        parameter("path", 1, "session.delete-file", |puppet, list| json!([open(puppet), list, true]), "file"),
        parameter("file", 1, "session.write-file", |puppet, list| json!([open(puppet), "a", list, "fail"]), "ok"),
        parameter(
            "pattern",
            1,
            "files.list",
            |puppet, list| {
                let session = open(puppet);
                json!([ok(&puppet.call("session.files", &json!([session])).unwrap()), list])
            },
            "file",
        ),
        parameter(
            "blob",
            1,
            "blob.append",
            |puppet, list| json!([puppet.call("blob.new", &json!([])).unwrap(), list]),
            "ok",
        ),
    ]
}

#[test]
fn bytes_passed_per_call_are_limited_exactly() {
    if !in_child("hostile_components::lists::bytes_passed_per_call_are_limited_exactly", LONG) {
        return;
    }
    assert_others_work();
    let host = host(|_, _| ());
    let grown = grown(|| {
        for ListParameter { name, element_bytes, function, arguments, at } in list_parameters() {
            let mut puppet = Puppet::new(&host);
            // Text in the other arguments is charged as well.
            let beside = usize::from(function.starts_with("session.write") || function.starts_with("session.set"));
            let max = (LIFT_BYTES - beside) / element_bytes;
            let given = arguments(&mut puppet, zeros(max));
            let answer = puppet.call(function, &given).unwrap_or_else(|trap| panic!("{name} of {max}: {trap:#}"));
            let outcome = if answer.get("ok").is_some() { "ok" } else { error(&answer).0 };
            assert_eq!(outcome, at, "{name}: {answer}");
            let given = arguments(&mut puppet, zeros(max + 1));
            let words = trap(&mut puppet, function, &given);
            assert!(words.contains(TOO_MUCH), "{name} of {}: {words}", max + 1);
        }
        assert_others_work();
    });
    assert!(grown < GROWN_BYTES, "the host grew by {} MiB", grown / MIB);
}

#[test]
fn huge_list_of_empty_strings_is_rejected_before_lifting() {
    if !in_child("hostile_components::lists::huge_list_of_empty_strings_is_rejected_before_lifting", LONG) {
        return;
    }
    assert_others_work();
    let host = host(|_, _| ());
    let grown = grown(|| {
        for ListParameter { name, function, arguments, .. } in list_parameters() {
            let mut puppet = Puppet::new(&host);
            // 2 GiB of zeros for strings. For other element types, the range is out of bounds.
            let given = arguments(&mut puppet, zeros(1 << 28));
            let words = trap(&mut puppet, function, &given);
            assert!(words.contains(TOO_MUCH) || words.contains("out of bounds of memory"), "{name}: {words}");
        }
        let mut puppet = Puppet::new(&host);
        let started = start(&mut puppet, "1");
        let words = trap(&mut puppet, "started.continue", &json!([started, zeros(1 << 26), 0]));
        assert!(words.contains(TOO_MUCH), "answers: {words}");
    });
    assert!(grown < GROWN_BYTES, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn length_beyond_memory_traps() {
    let host = host(|_, _| ());
    for ListParameter { name, function, arguments, .. } in list_parameters() {
        for (pointer, len) in [(END, 1_u32), (END - 1, 2), (0, u32::MAX), (u32::MAX, u32::MAX), (ZEROS, 0xd000_0000)] {
            let mut puppet = Puppet::new(&host);
            let given = arguments(&mut puppet, json!({ "raw": [pointer, len] }));
            let words = trap(&mut puppet, function, &given);
            let is_named = words.contains("out of bounds of memory") || words.contains("pointer is not aligned");
            assert!(is_named, "{name} at {pointer:#x} of {len:#x}: {words}");
        }
    }
    assert_others_work();
}

#[test]
fn strings_within_lists_share_one_limit() {
    let mut puppet = puppet();
    // Eight strings, each half the maximum size of a call, exceed the maximum fourfold, even though they share memory.
    let args: Vec<Value> = (0..8).map(|_| zeros(LIFT_BYTES / 2)).collect();
    let words = trap(&mut puppet, "execute", &json!(["javascript", { "source": "" }, { "args": args }]));
    assert!(words.contains(TOO_MUCH), "{words}");
    assert_others_work();
}

#[test]
fn invalid_unicode_traps() {
    for bytes in [&b"\xff"[..], b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82"] {
        let mut puppet = puppet();
        puppet.write(ZEROS, bytes);
        let words = trap(&mut puppet, "execute", &json!(["javascript", { "source": zeros(bytes.len()) }, {}]));
        assert!(words.contains("invalid utf-8") || words.contains("incomplete utf-8"), "{bytes:x?}: {words}");
    }
    assert_others_work();
}

#[test]
fn invalid_variant_case_traps() {
    let mut puppet = puppet();
    let session = open(&mut puppet).as_u64().unwrap();
    let zeros = u64::from(ZEROS);
    // `if-exists` has only two cases, so 7 is an invalid discriminant.
    let trap = puppet.call_flat("session.write-file", &[session, zeros, 1, zeros, 1, 7]).unwrap_err();
    assert!(format!("{trap:#}").contains("discriminant"), "{trap:#}");
    assert_others_work();
}
