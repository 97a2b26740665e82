//! Tests files that are invalid components, or that contain far too many items.

use std::fmt::Write as _;

use glovebox::Resource;
use glovebox_component_runner::{AppConfig, AppOutcome};
use glovebox_tests::{
    process::{in_child, peak_resident_bytes, resident_bytes},
    puppet::component,
};

use super::{LONG, MIB, assert_others_work, loaded_and_called};

const SMALL: &str = r#"(module
    (import "glovebox:sandbox/sandbox@0.2.0" "info" (func $info (param i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[constructor]blob" (func $blob (result i32)))
    (memory (export "memory") 2)
    (table 4 4 funcref)
    (elem (i32.const 0) $g $g)
    (func $g (result i32) (i32.const 1))
    (func (export "f") (result i32) (call $info (i32.const 1024)) (drop (call $blob)) (call_indirect (result i32) (i32.const 1)))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536)))"#;

/// Returns a configuration with small limits, which stop a corrupted component quickly.
fn little() -> AppConfig {
    let mut config = AppConfig::default();
    config.limits.fuel = 1_000_000;
    config.limits.memory_bytes = 16 << 20;
    config
}

fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap()
}

#[test]
fn damaged_components_are_errors_or_end_within_their_limits() {
    if !in_child("hostile_applications::binaries::damaged_components_are_errors_or_end_within_their_limits", LONG) {
        return;
    }
    let sound = component("import glovebox:sandbox/sandbox@0.2.0; export f: func() -> u32;", SMALL);
    assert_eq!(loaded_and_called(&sound, &little()), Ok(AppOutcome::Returned));
    let (mut state, mut refused, mut ran) = (5, 0, 0);
    for _ in 0..400 {
        let mut bytes = sound.clone();
        match random(&mut state) % 4 {
            0 => bytes.truncate(random(&mut state) % sound.len()),
            1 => {
                let at = random(&mut state) % sound.len();
                bytes.drain(at..(at + 1 + random(&mut state) % 8).min(sound.len()));
            }
            _ => {
                for _ in 0..=random(&mut state) % 3 {
                    let at = random(&mut state) % sound.len();
                    bytes[at] ^= u8::try_from(1 + random(&mut state) % 255).unwrap();
                }
            }
        }
        match loaded_and_called(&bytes, &little()) {
            Ok(_) => ran += 1,
            Err(error) => {
                assert!(!error.is_empty());
                refused += 1;
            }
        }
    }
    assert_others_work();
    println!("{refused} refused, {ran} ran");
    assert!(refused > 100, "most changes to a component must be detected before it runs");
}

/// Builds a component from core modules in text format. It exports `f` from the last module.
fn of_core(modules: &str, function: &str) -> Vec<u8> {
    let text = format!(
        r#"(component {modules}
            (core module $last (func (export "f") {function}))
            (core instance $l (instantiate $last))
            (func (export "f") (canon lift (core func $l "f"))))"#
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn unbounded_parts_are_rejected() {
    if !in_child("hostile_applications::binaries::unbounded_parts_are_rejected", LONG) {
        return;
    }
    assert_others_work();
    let before = resident_bytes();
    let repeated = |module: &str, count: usize| {
        let mut text = format!("(core module $m {module})");
        for _ in 0..count {
            text.push_str("(core instance (instantiate $m))");
        }
        of_core(&text, "")
    };
    let many = |of: &str, count: usize| {
        of_core(&format!("(core module $m {})(core instance (instantiate $m))", of.repeat(count)), "")
    };
    let config = AppConfig::default();
    // The number of items is limited: 1,000 instances, 1,000 tables and 100 memories.
    for (name, at, over) in [
        ("instances", repeated("", 900), repeated("", 10_000)),
        ("memories", repeated("(memory 1)", 100), repeated("(memory 1)", 900)),
        ("memories of one module", many("(memory 0)", 90), many("(memory 0)", 10_000)),
        ("tables", repeated("(table 1 funcref)", 900), many("(table 1 funcref)", 10_000)),
    ] {
        assert_eq!(loaded_and_called(&at, &config), Ok(AppOutcome::Returned), "{name}");
        let refused = loaded_and_called(&over, &config);
        assert!(matches!(&refused, Err(_) | Ok(AppOutcome::Trapped { .. })), "{name}: {refused:?}");
    }
    // The size of memories and tables is limited as well.
    for (name, module) in [("memory", "(memory 65536)"), ("table", "(table 0xffffffff funcref)")] {
        let refused = loaded_and_called(&repeated(module, 1), &config);
        assert!(
            matches!(
                &refused,
                Ok(AppOutcome::Exhausted { resource: Resource::Memory, .. } | AppOutcome::Trapped { .. })
            ),
            "{name}: {refused:?}"
        );
    }
    let grown = peak_resident_bytes().saturating_sub(before);
    assert!(grown < 1_024 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

/// Builds components nested to this depth.
fn nested_components(depth: usize) -> Vec<u8> {
    const BEGIN: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    const COMPONENT: u8 = 4;
    let mut lengths = vec![BEGIN.len()];
    for _ in 0..depth {
        let inner = lengths[lengths.len() - 1];
        lengths.push(BEGIN.len() + 1 + leb(inner).len() + inner);
    }
    let mut bytes = Vec::new();
    for inner in lengths.iter().rev().skip(1) {
        bytes.extend_from_slice(&BEGIN);
        bytes.push(COMPONENT);
        bytes.extend_from_slice(&leb(*inner));
    }
    bytes.extend_from_slice(&BEGIN);
    bytes
}

/// Builds component types nested to this depth.
fn nested_types(depth: usize) -> Vec<u8> {
    let types = [[0x01].as_slice(), &[0x41, 0x01, 0x01].repeat(depth), &[0x41, 0x00]].concat();
    [b"\0asm\x0d\0\x01\0\x07".as_slice(), &leb(types.len()), &types].concat()
}

/// Encodes a number in unsigned LEB128.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

#[test]
fn huge_types_are_rejected() {
    if !in_child("hostile_applications::binaries::huge_types_are_rejected", LONG) {
        return;
    }
    // Each type is a pair of the previous type, so a kilobyte describes a quarter of a billion numbers.
    let mut doubling = "(type $t0 (tuple u8 u8))".to_owned();
    for n in 1..28 {
        write!(doubling, "(type $t{n} (tuple $t{0} $t{0}))", n - 1).unwrap();
    }
    let mut nested = String::from("(type $t0 (list u8))");
    for n in 1..20_000 {
        write!(nested, "(type $t{n} (list $t{}))", n - 1).unwrap();
    }
    let mut types = String::new();
    for n in 0..200_000 {
        write!(types, "(type (tuple u{}))", [8, 16, 32, 64][n % 4]).unwrap();
    }
    let many = types.repeat(6);
    let lifted = format!(
        r#"(component {doubling} (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func (export "f") (param "p" $t27) (canon lift (core func $i "f"))))"#
    );
    let table = [
        (lifted, "effective type size exceeds the limit"),
        (format!(r#"(component {nested} (import "g" (func (param "p" $t19999))))"#), "type nesting is too deep"),
        (format!("(component {types})"), "no function `f`"),
        (format!("(component {many})"), "contains more than 250000 items (imports, exports and types)"),
    ];
    let table = table.map(|(text, words)| (wat::parse_str(text).unwrap(), words));
    let parts = [1_000, 1_001, 50_000, 500_000].map(|depth| {
        (
            nested_components(depth),
            if depth > 1_000 { "more than 1000 modules and components" } else { "no function `f`" },
        )
    });
    let types = [900, 1_001, 100_000, 1_000_000].map(|depth| {
        (nested_types(depth), if depth > 900 { "more than 1000 nested component and instance types" } else { "" })
    });
    // The loader must reject these components before it allocates memory for their items.
    let before = peak_resident_bytes();
    for (bytes, words) in table.into_iter().chain(parts).chain(types) {
        let refused = loaded_and_called(&bytes, &little()).unwrap_err();
        assert!(refused.contains(words), "{words}: {}", refused.chars().take(300).collect::<String>());
    }
    let grown = peak_resident_bytes().saturating_sub(before);
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn start_function_respects_the_limits() {
    let start = |body: &str| {
        of_core(&format!("(core module $m (memory 1) (func $s {body}) (start $s))(core instance (instantiate $m))"), "")
    };
    let outcome = |body: &str| loaded_and_called(&start(body), &little()).unwrap();
    let endless = outcome("(loop $again (br $again))");
    assert!(matches!(endless, AppOutcome::Exhausted { resource: Resource::Fuel, .. }), "{endless:?}");
    let greedy = outcome("(if (i32.eq (memory.grow (i32.const 10000)) (i32.const -1)) (then unreachable))");
    assert!(matches!(greedy, AppOutcome::Exhausted { resource: Resource::Memory, .. }), "{greedy:?}");
    assert!(matches!(outcome("(call $s)"), AppOutcome::Trapped { words } if words.contains("stack")));
    assert!(matches!(outcome("unreachable"), AppOutcome::Trapped { .. }));
    assert_eq!(outcome(""), AppOutcome::Returned);
    assert_others_work();
}
