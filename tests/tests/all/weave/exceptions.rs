//! Tests guests that throw and catch exceptions. They cannot catch the host's unwinding, and their exceptions do not
//! affect the host.

use std::collections::BTreeMap;

use glovebox_component::Description;
use glovebox_runtimes::{
    Digest,
    rewrite::{GlobalKind, MutableGlobal},
};
use glovebox_weave::{Guest, GuestLibrary, WeaveOptions};

use super::{I32, UNTOUCHED, UNWOUND, WovenInstance};

const GUEST: &str = include_str!("throwing.wat");

const EXPORTS: [&str; 9] =
    ["ask", "caught", "escape", "swallow_spin", "swallow_exit", "swallow_abort", "swallow_deep", "fall", "stairs"];

// The reasons for unwinding.
const ASKED: i32 = 0;
const UNREACHABLE: i32 = 1;
const DEPTH: i32 = 2;
const THROWN: i32 = 3;

fn throwing(library: Option<GuestLibrary<'_>>) -> WovenInstance {
    let module = wat::parse_str(GUEST).unwrap();
    let guest = Guest {
        name: "guest",
        aliases: &[],
        language: "python",
        driver: "cpython",
        version: "3",
        module: &module,
        image_sha256: Digest::of(&module),
        anchors: &BTreeMap::new(),
        globals: &[MutableGlobal { index: 0, export: "__stack_pointer".to_owned(), kind: GlobalKind::I32 }],
        exports: &EXPORTS.map(str::to_owned),
        library,
    };
    // The second guest, which the tests call, has different tags than the first.
    WovenInstance::of(&[Guest { name: "other", library: None, ..guest.clone() }, guest], &WeaveOptions::default())
}

fn call(woven: &mut WovenInstance, name: &str, arguments: &[u64]) -> (i32, u64) {
    let number = EXPORTS.iter().position(|export| *export == name).unwrap();
    woven.call_by("call_export", 1, i32::try_from(number).unwrap(), arguments)
}

fn unwound(woven: &mut WovenInstance, name: &str) -> i32 {
    assert_eq!(call(woven, name, &[]), (UNWOUND, UNTOUCHED), "{name}");
    woven.run("unwound", ())
}

#[test]
fn guest_catches_its_exceptions() {
    let mut woven = throwing(None);
    for thrown in [0, 41] {
        assert_eq!(call(&mut woven, "caught", &[thrown]), (I32, thrown + 1));
    }
}

#[test]
fn guest_cannot_catch_an_unwind() {
    let mut woven = throwing(None);
    woven.set("answer", -1);
    for _ in 0..3 {
        assert_eq!(unwound(&mut woven, "swallow_exit"), ASKED);
        assert_eq!(unwound(&mut woven, "swallow_abort"), UNREACHABLE);
        assert_eq!(unwound(&mut woven, "swallow_deep"), DEPTH);
        // The loop only ends when the fuel is exhausted.
        woven.run::<_, ()>("fuel_set", 10_000i64);
        assert_eq!(unwound(&mut woven, "swallow_spin"), ASKED);
        assert!(woven.run::<_, i64>("fuel_get", ()) <= 0);
        woven.run::<_, ()>("fuel_set", 1_000_000i64);
        assert_eq!(call(&mut woven, "caught", &[1]), (I32, 2), "the same instance answers the next call");
    }
}

#[test]
fn uncaught_exception_ends_only_the_guest() {
    let mut woven = throwing(None);
    assert_eq!(unwound(&mut woven, "escape"), THROWN);
    assert_eq!(call(&mut woven, "caught", &[1]), (I32, 2));
}

#[test]
fn exceptions_release_the_stack_depth() {
    let mut woven = throwing(None);
    woven.run::<_, ()>("fuel_set", 1_000_000_000i64);
    // The frames of ten times 1,000 calls, at least 128 bytes each, would not fit into 320 KiB if they were not
    // released.
    assert_eq!(call(&mut woven, "fall", &[10, 1_000]), (I32, 10));
    assert_eq!(call(&mut woven, "stairs", &[10, 1_000]), (I32, 10));
    assert_eq!(call(&mut woven, "fall", &[1, 100_000]), (UNWOUND, UNTOUCHED));
    assert_eq!(woven.run::<_, i32>("unwound", ()), DEPTH);
    assert_eq!(call(&mut woven, "stairs", &[10, 1_000]), (I32, 10));
}

#[test]
fn host_call_raises_no_exception() {
    assert_eq!(call(&mut throwing(None), "ask", &[]), (I32, u64::from(u32::MAX)));
}

#[test]
fn a_library_is_described_and_read_in_parts() {
    let files = BTreeMap::from([("data/a".to_owned(), b"one".to_vec()), ("data/b/c".to_owned(), b"two".to_vec())]);
    let library =
        GuestLibrary { guest_path: "/lib/python.zip", archive: b"library", files: &files, files_directory: "data" };
    let mut woven = throwing(Some(library));
    let description: Description = serde_json::from_slice(&woven.description()).unwrap();
    let [other, guest] = description.guests.as_slice() else { panic!("{description:?}") };
    assert_eq!(other.library, None);
    let described = guest.library.as_ref().unwrap();
    assert_eq!((described.guest_path.as_str(), described.archive_bytes), ("/lib/python.zip", 7));
    assert_eq!(described.files_directory, "data");
    assert_eq!(described.files, BTreeMap::from([("data/a".to_owned(), 3), ("data/b/c".to_owned(), 3)]));

    woven.run::<_, ()>("library_to_shim", (1, 4, 6000, 9));
    let mut bytes = [0; 10];
    woven.memory.read(&woven.store, 6000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"aryonetwo\0");
    // Invalid calls by the shim fail: a read past the library's end, and a read from a guest without a library.
    assert!(woven.try_run::<_, ()>("library_to_shim", (1, 4, 6000, 10)).is_err());
    assert!(woven.try_run::<_, ()>("library_to_shim", (0, 0, 6000, 1)).is_err());
}
