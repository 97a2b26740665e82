//! Tests invalid blobs, files and hibernated sessions.

use glovebox_tests::{process::in_child, puppet::Puppet};
use serde_json::{Value, json};

use super::{LONG, MIB, assert_others_work, error, grown, ok, open, puppet};

/// The address of bytes that are not text, in the puppet's memory.
const PLACE: u32 = 256 << 20;

fn blob(puppet: &mut Puppet, bytes: &[u8]) -> Value {
    let blob = puppet.call("blob.new", &json!([])).unwrap();
    puppet.write(PLACE, bytes);
    let appended = puppet.call("blob.append", &json!([blob, { "raw": [PLACE, bytes.len()] }])).unwrap();
    ok(&appended);
    blob
}

/// Returns the next pseudo-random number.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn blobs_are_readable_at_any_offset() {
    let mut puppet = puppet();
    let blob = blob(&mut puppet, b"0123456789");
    let table = [
        (0, u64::MAX, "0123456789"),
        (9, u64::MAX, "9"),
        (10, 1, ""),
        (11, 1, ""),
        (u64::MAX, u64::MAX, ""),
        (u64::MAX, 1, ""),
        (u64::MAX - 5, 10, ""),
        (3, 0, ""),
    ];
    for (offset, len, bytes) in table {
        assert_eq!(puppet.call("blob.read", &json!([blob, offset, len])).unwrap(), bytes, "{offset} {len}");
    }
}

#[test]
fn read_returns_at_most_sixteen_mebibytes() {
    if !in_child("hostile_components::bytes::read_returns_at_most_sixteen_mebibytes", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let grown = grown(|| {
        let blob = puppet.call("blob.new", &json!([])).unwrap();
        for _ in 0..8 {
            ok(&puppet.call("blob.append", &json!([blob, { "raw": [PLACE, 4 << 20] }])).unwrap());
        }
        let read = puppet.call("blob.read", &json!([blob, 0, u64::MAX])).unwrap();
        assert_eq!(read.as_str().unwrap().len(), 16 << 20);
        let session = open(&mut puppet);
        ok(&puppet.call("session.write-file-from", &json!([session, "f", blob, "fail"])).unwrap());
        let files = puppet.call("session.files", &json!([session])).unwrap();
        let read = puppet.call("files.read", &json!([ok(&files), "f", 1, u64::MAX])).unwrap();
        assert_eq!(ok(&read).as_str().unwrap().len(), 16 << 20);
    });
    assert!(grown < 400 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn file_lookups_stay_inside() {
    let mut puppet = puppet();
    let session = open(&mut puppet);
    ok(&puppet.call("session.write-file", &json!([session, "f", "0123", "fail"])).unwrap());
    let files = puppet.call("session.files", &json!([session])).unwrap();
    let files = ok(&files).clone();
    let long = "a/".repeat(100_000);
    for path in ["..", "../f", "/etc/passwd", "a/../../f", "", "f\0", "\0", &long, "/app/f", "//etc"] {
        let reads = [
            puppet.call("files.read", &json!([files, path, 0, 1])).unwrap(),
            puppet.call("session.write-file", &json!([session, path, "x", "replace"])).unwrap(),
            puppet.call("session.rename-file", &json!([session, "f", path, "replace"])).unwrap(),
            puppet.call("session.rename-file", &json!([session, path, "f", "replace"])).unwrap(),
            puppet.call("session.delete-file", &json!([session, path, true])).unwrap(),
        ];
        for answer in reads {
            assert_eq!(error(&answer).0, "file", "{}", path.chars().take(30).collect::<String>());
            let repeated = answer["err"]["file"]["path"].as_str().unwrap();
            assert!(repeated.len() <= 4_096, "repeated input is truncated");
        }
    }
    for (offset, len, bytes) in [(0, u64::MAX, "0123"), (3, u64::MAX, "3"), (4, 1, ""), (u64::MAX, u64::MAX, "")] {
        let read = puppet.call("files.read", &json!([files, "f", offset, len])).unwrap();
        assert_eq!(ok(&read), bytes, "{offset} {len}");
    }
    assert_others_work();
}

#[test]
fn slow_patterns_are_matched_or_rejected() {
    if !in_child("hostile_components::bytes::slow_patterns_are_matched_or_rejected", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let session = open(&mut puppet);
    let source = "for (let n = 0; n < 9000; n++) std.open('a'.repeat(100) + n, 'w').close()";
    let ran = puppet.call("session.execute", &json!([session, { "source": source }])).unwrap();
    assert_eq!(ok(&ran)["outcome"], "completed", "{ran}");
    let files = puppet.call("session.files", &json!([session])).unwrap();
    let files = ok(&files).clone();
    let mut list = |pattern: &str| puppet.call("files.list", &json!([files, pattern])).unwrap();
    let grown = grown(|| {
        assert_eq!(ok(&list("**")).as_array().unwrap().len(), 9_000);
        for slow in ["*a".repeat(2_000) + "b", "{a,b}".repeat(819), "**/".repeat(1_300) + "b", "?".repeat(4_096)] {
            let answer = list(&slow);
            assert!(answer.get("ok").is_some() || error(&answer).0 == "file", "{answer}");
        }
        for none in ["{".repeat(40), "[".to_owned(), "x".repeat(4_097), "[z-a]".to_owned(), "{a,".repeat(33)] {
            assert_eq!(error(&list(&none)).0, "file");
        }
    });
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn forged_sessions_are_errors_or_within_limits() {
    if !in_child("hostile_components::bytes::forged_sessions_are_errors_or_within_limits", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let session = open(&mut puppet);
    ok(&puppet.call("session.execute", &json!([session, { "source": "var a = 1" }])).unwrap());
    ok(&puppet.call("session.write-file", &json!([session, "f", "x".repeat(1 << 20), "fail"])).unwrap());
    let saved = puppet.call("session.hibernate", &json!([session])).unwrap();
    let saved = ok(&saved).clone();
    let size = u32::try_from(puppet.call("blob.size", &json!([saved])).unwrap().as_u64().unwrap()).unwrap();
    // The puppet converts results to text, so the test reads the bytes from where the host wrote them.
    puppet.call_flat("blob.read", &[saved.as_u64().unwrap(), 0, u64::from(size)]).unwrap();
    let place = u32::from_le_bytes(puppet.read(64, 4).try_into().unwrap());
    let real = puppet.read(place, size);
    let mut state = 11;
    let mut forged: Vec<Vec<u8>> = vec![Vec::new(), vec![0], vec![0; 1 << 20], vec![0xff; 1 << 20], real.repeat(2)];
    for _ in 0..200 {
        let mut bytes = real.clone();
        match random(&mut state) % 3 {
            0 => bytes.truncate(usize::try_from(random(&mut state)).unwrap() % real.len()),
            _ => {
                for _ in 0..=random(&mut state) % 4 {
                    let at = usize::try_from(random(&mut state)).unwrap() % real.len();
                    bytes[at] ^= u8::try_from(1 + random(&mut state) % 255).unwrap();
                }
            }
        }
        forged.push(bytes);
    }
    let grown = grown(|| {
        for bytes in &forged {
            let state = blob(&mut puppet, bytes);
            let resumed = puppet.call("session.resume", &json!(["javascript", state, {}, {}])).unwrap();
            // A checksum covers all bytes, so no modified state may be resumed.
            assert!(resumed.get("err").is_some() || *bytes == real, "a modified state was resumed");
            if resumed.get("err").is_some() {
                assert_eq!(error(&resumed).0, "not-resumable", "{resumed}");
            }
            puppet.call("blob.drop", &json!([state])).unwrap();
        }
    });
    // The bytes are valid, but the language is wrong.
    let wrong = puppet.call("session.resume", &json!(["python", saved, {}, {}])).unwrap();
    assert_eq!(error(&wrong).0, "not-resumable");
    // The bytes are valid, but they exceed the limits of the policy.
    let small = json!({ "limits": { "workspace-bytes": 1 << 19 } });
    let tight = puppet.call("session.resume", &json!(["javascript", saved, small, {}])).unwrap();
    assert_eq!(error(&tight).0, "not-resumable");
    let resumed = puppet.call("session.resume", &json!(["javascript", saved, {}, {}])).unwrap();
    let read = puppet.call("session.get-variable", &json!([ok(&resumed), "a"])).unwrap();
    assert_eq!(ok(&read)["json"], "1");
    assert_eq!(puppet.store.data().usage().sessions, 2);
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}
