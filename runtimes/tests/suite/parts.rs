//! Tests of code that is split into parts.

use glovebox_runtimes::{CodePart, rewrite};
use wasmparser::{ExternalKind, Validator};

use crate::{
    rewrite::wasm,
    support::{ModuleInfo, inspect},
};

const DIVIDED_MODULE: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "glovebox" "memory" (memory 1))
    (table 4 funcref) (elem (i32.const 1) $second $third $alone)
    (global $stack (mut i32) (i32.const 8)) (tag (param i32))
    (func (export "first") (call $shared))
    (func $second (call $shared) (call $private))
    (func $third (call $private) (call $exit (i32.const 1)))
    (func $alone)
    (func $private (global.set $stack (i32.const 9)))
    (func $shared))"#;

fn parts(ranges: &[&[(u32, u32)]]) -> Vec<CodePart> {
    ranges.iter().map(|functions| CodePart { name: "some".to_owned(), functions: functions.to_vec() }).collect()
}

#[test]
fn parts_contain_each_function_once() {
    let code = wasm(DIVIDED_MODULE);
    let named = parts(&[&[(1, 2)], &[(2, 3)], &[(3, 4)]]);
    let made: Vec<_> = (0..3).map(|number| rewrite::part_of(&code, &named, number).unwrap()).collect();
    made.iter().for_each(|part| _ = Validator::new().validate_all(part).unwrap());
    let functions = |part: &[u8], kind: fn(&ModuleInfo) -> Vec<String>| kind(&inspect(part));
    let imports = |module: &ModuleInfo| {
        let functions = module.imports.iter().filter(|import| import.kind == ExternalKind::Func);
        functions.map(|import| import.name.clone()).collect()
    };
    let exports = |module: &ModuleInfo| {
        let functions = module.exports.iter().filter(|export| export.kind == ExternalKind::Func);
        functions.map(|export| export.name.clone()).collect()
    };
    // The base includes the shared function, because it calls that function. The last part includes the function that
    // no part lists.
    assert_eq!(functions(&made[0], exports), ["first", "__glovebox_function_0", "__glovebox_function_6"]);
    assert_eq!(functions(&made[1], imports), ["__glovebox_function_6"]);
    assert_eq!(functions(&made[1], exports), ["__glovebox_function_5"]);
    assert_eq!(functions(&made[2], imports), ["__glovebox_function_0", "__glovebox_function_5"]);
    assert!(functions(&made[2], exports).is_empty());
}

#[test]
fn code_that_cannot_be_divided_is_rejected() {
    let named = parts(&[&[(0, 1)], &[(1, 2)]]);
    for (text, why) in [
        ("(module)", "does not import its memory"),
        (r#"(module (import "a" "b" (memory 1)) (import "a" "c" (global i32)))"#, "it imports `a.c`; only functions"),
        (r#"(module (import "a" "b" (memory 1)) (func) (func))"#, "no table"),
        (
            r#"(module (import "a" "b" (memory 1)) (func) (func) (table 1 funcref) (table 1 funcref) (elem (table 1) (i32.const 0) func 0))"#,
            "not an active list of functions in table 0",
        ),
        (
            r#"(module (import "a" "b" (memory 1)) (func) (func) (table 1 funcref) (elem funcref (ref.func 0)))"#,
            "not an active list of functions in table 0",
        ),
        (
            r#"(module (import "a" "b" (memory 1)) (func) (table 1 funcref))"#,
            "the recipe assigns functions 1..2 to a part, but the module has 1 functions",
        ),
    ] {
        let error = rewrite::part_of(&wasm(text), &named, 0).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let code = wasm(DIVIDED_MODULE);
    for length in 0..code.len() {
        // Truncated code must not cause a panic.
        let _ = rewrite::part_of(&code[..length], &named, 1);
    }
}
