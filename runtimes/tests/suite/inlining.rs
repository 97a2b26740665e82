//! Tests which calls are inlined, and that rewritten modules are valid.

use glovebox_runtimes::{ExportList, rewrite};
use wasmparser::{Parser, Payload, Validator};

use crate::rewrite::wasm;

/// Inlines calls between the functions in `ranges`, and validates the result.
fn inlined_module(text: &str, ranges: &[(u32, u32)]) -> Vec<u8> {
    module_with(text, &ExportList { inlined: ranges.to_vec(), ..ExportList::default() })
}

fn module_with(text: &str, list: &ExportList) -> Vec<u8> {
    let bytes = rewrite::with_exports(&wasm(text), list).unwrap().bytes;
    Validator::new().validate_all(&bytes).unwrap();
    bytes
}

/// Returns the operators of each function after inlining.
fn inlined(text: &str, ranges: &[(u32, u32)]) -> Vec<Vec<String>> {
    operators(&inlined_module(text, ranges))
}

fn operators(bytes: &[u8]) -> Vec<Vec<String>> {
    let bodies = Parser::new(0).parse_all(bytes).filter_map(|payload| match payload.unwrap() {
        Payload::CodeSectionEntry(body) => Some(body.get_operators_reader().unwrap()),
        _ => None,
    });
    bodies.map(|operators| operators.into_iter().map(|operator| format!("{:?}", operator.unwrap())).collect()).collect()
}

fn calls(body: &[String]) -> usize {
    body.iter().filter(|operator| operator.starts_with("Call {")).count()
}

const ALL: &[(u32, u32)] = &[(0, u32::MAX)];
const UNUSED: [&str; 2] = ["Unreachable", "End"];

#[test]
fn short_function_is_inlined_into_each_caller() {
    let text = r#"(module
        (func $next (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
        (func (export "once") (param i32) (result i32) (call $next (local.get 0)))
        (func (export "twice") (param i32) (result i32) (call $next (call $next (local.get 0)))))"#;
    let functions = inlined(text, ALL);
    let next = ["LocalSet { local_index: 1 }", "LocalGet { local_index: 1 }", "I32Const { value: 1 }", "I32Add"];
    let (first, end) = (["LocalGet { local_index: 0 }"], ["End"]);
    assert_eq!(functions[0], UNUSED);
    assert_eq!(functions[1], [&first[..], &next, &end].concat());
    assert_eq!(functions[2], [&first[..], &next, &next, &end].concat());
}

#[test]
fn long_function_is_inlined_if_it_has_one_call() {
    let step = "(local.set 0 (i32.add (local.get 0) (i32.const 1)))";
    // The limits are 60 operators for a function without calls, and 34 for others. The last operator is `end`.
    for (body, is_short) in [
        (step.repeat(14) + "nop nop nop", true),
        (step.repeat(15), false),
        ("(call $import)".repeat(33), true),
        ("(call $import)".repeat(34), false),
        ("(loop)".to_owned() + &"nop ".repeat(31), true),
        ("(loop)".to_owned() + &"nop ".repeat(32), false),
    ] {
        let module = |calls: usize| {
            let calls = "(call $callee (i32.const 1))".repeat(calls);
            format!(
                r#"(module (import "env" "import" (func $import))
                    (func $callee (param i32) {body}) (func (export "caller") {calls}))"#
            )
        };
        let calls_callee = |body: &[String]| body.iter().any(|operator| operator == "Call { function_index: 1 }");
        let once = inlined(&module(1), ALL);
        assert!(once[0] == UNUSED && !calls_callee(&once[1]), "{body}");
        let twice = inlined(&module(2), ALL);
        assert_eq!((twice[0] == UNUSED, calls_callee(&twice[1])), (is_short, !is_short), "{body}");
    }
}

#[test]
fn long_function_is_inlined_into_the_chosen_caller() {
    let text = format!(
        r#"(module
            (func $long (param i32) {})
            (func $chosen (export "chosen") (call $long (i32.const 1)) (call $long (i32.const 2)))
            (func (export "other") (call $long (i32.const 3)) (call $long (i32.const 4))))"#,
        "(local.set 0 (i32.add (local.get 0) (i32.const 1)))".repeat(30)
    );
    let of = |caller: &str, callee: &str| ExportList {
        inlined: ALL.to_vec(),
        inlined_calls: [(caller.to_owned(), vec![callee.to_owned()])].into(),
        ..ExportList::default()
    };
    let functions = operators(&module_with(&text, &of("chosen", "long")));
    assert_eq!([1, 2].map(|nth: usize| calls(&functions[nth])), [0, 2]);
    assert_ne!(functions[0], UNUSED);
    for (caller, callee) in [("absent", "long"), ("chosen", "absent")] {
        let error = rewrite::with_exports(&wasm(&text), &of(caller, callee)).unwrap_err().to_string();
        assert!(error.contains("`absent`"), "{error}");
    }
}

#[test]
fn referenced_function_keeps_its_body() {
    let module = |reference: &str| {
        inlined(&format!(r#"(module {reference} (func $f nop) (func (export "caller") (call $f)))"#), ALL)
    };
    assert_eq!(module(""), [&UNUSED[..], &["Nop", "End"]]);
    for reference in [
        r#"(export "f" (func $f))"#,
        "(start $f)",
        "(table 1 funcref) (elem (i32.const 0) func $f)",
        "(table 2 funcref) (elem (i32.const 0) funcref (ref.null func) (ref.func $f))",
        "(table 1 funcref (ref.func $f))",
        "(global funcref (ref.func $f))",
        "(elem declare func $f)",
    ] {
        assert_eq!(module(reference), [["Nop", "End"]; 2], "{reference}");
    }
}

#[test]
fn functions_outside_of_the_ranges_are_unchanged() {
    let text = r#"(module
        (func $f nop)
        (func (export "first") (call $f))
        (func (export "second") (call $f)))"#;
    let (nop, call) = (["Nop", "End"], ["Call { function_index: 0 }", "End"]);
    assert_eq!(inlined(text, &[(0, 2)]), [nop, nop, call]);
    assert_eq!(inlined(text, &[(0, 1), (2, 3)]), [nop, call, nop]);
    assert_eq!(inlined(text, &[(1, 3)]), [nop, call, call]);
    assert_eq!(inlined(text, ALL), [UNUSED, nop, nop]);
}

#[test]
fn unsupported_functions_are_not_inlined() {
    let locals = |count: usize| format!("(func $f (local{}))", " i64".repeat(count));
    for (callee, is_inlined) in [
        ("(func $f (return_call $import))".to_owned(), false),
        ("(func $f (block $caught (try_table (catch_all $caught))))".to_owned(), false),
        ("(func $f (result i32 i32) unreachable)".to_owned(), false),
        ("(func $f (local funcref))".to_owned(), false),
        (locals(1001), false),
        (locals(1000), true),
        ("(func $f (param i64) (result f32) (throw $error))".to_owned(), true),
        ("(func $f (param externref) (result externref) (local.get 0))".to_owned(), true),
    ] {
        let text = format!(
            r#"(module (import "env" "import" (func $import)) (tag $error) {callee}
                (func (export "caller") (unreachable) (call $f) (unreachable)))"#
        );
        assert_eq!(calls(&inlined(&text, ALL)[1]) == 0, is_inlined, "{callee}");
    }
}

#[test]
fn recursive_functions_are_inlined_a_limited_number_of_times() {
    let text = r#"(module
        (func $self (call $self))
        (func $even (call $odd)) (func $odd (call $even))
        (func (export "caller") (call $self) (call $even) (call $odd)))"#;
    let functions = inlined(text, ALL);
    assert_eq!(functions[0], ["Call { function_index: 0 }", "End"]);
    assert_eq!(calls(&functions[3]), 3);
}

#[test]
fn result_of_a_hostile_module_is_bounded() {
    // Each call has two bytes, because unreachable code needs no arguments. Each inlined call would set 1,000 locals.
    let parameters = " i32".repeat(1000);
    let calls = "call $wide ".repeat(200);
    let callers: String = (0..50).map(|nth| format!(r#"(func (export "{nth}") unreachable {calls})"#)).collect();
    let text = format!("(module (func $wide (param{parameters})) {callers})");
    let (before, after) = (wasm(&text).len(), inlined_module(&text, ALL).len());
    assert!(after < before + (64 << 10), "{before} bytes became {after} bytes");
}

#[test]
fn caller_has_at_most_the_locals_that_engines_accept() {
    // The callee has 600 locals.
    for (locals, is_inlined) in [(49_400, true), (49_401, false)] {
        let text = format!(
            r#"(module (func $f (local{})) (func (export "caller") (local{}) (call $f)))"#,
            " i64".repeat(600),
            " i32".repeat(locals)
        );
        assert_eq!(calls(&inlined(&text, ALL)[1]) == 0, is_inlined, "{locals}");
    }
}

#[test]
fn truncated_module_does_not_panic() {
    let module = wasm(
        r#"(module (table 1 funcref (ref.func $f)) (global funcref (ref.func $f)) (elem (i32.const 0) func $f)
            (func $f (param i32) (result i32) (local i64 v128) (block (drop (br_if 1 (i32.const 1) (local.get 0)))) (return (i32.const 2)))
            (func (export "caller") (result i32) (call $f (call $f (i32.const 1)))))"#,
    );
    let list = ExportList { inlined: ALL.to_vec(), ..ExportList::default() };
    for length in 0..module.len() {
        // A module that is truncated between two sections may be accepted.
        let _ = rewrite::with_exports(&module[..length], &list);
    }
    rewrite::with_exports(&module, &list).unwrap();
}
