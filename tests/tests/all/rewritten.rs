//! Runs modules before and after `glovebox-runtimes` changes their functions.

use glovebox_runtimes::{ExportList, rewrite};
use wasmtime::{Config, Engine, Instance, Module, Store, Val};

/// Instantiates a module after the changes in `list`.
fn instance(text: &str, list: &ExportList) -> (Store<()>, Instance) {
    let rewritten = rewrite::with_exports(&wat::parse_str(text).unwrap(), list).unwrap();
    let engine = Engine::new(Config::new().wasm_exceptions(true)).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &Module::new(&engine, &rewritten.bytes).unwrap(), &[]).unwrap();
    (store, instance)
}

/// Calls an export that returns one number. Returns `None` if it traps.
fn call((store, instance): &mut (Store<()>, Instance), name: &str, arguments: &[i32]) -> Option<i32> {
    let arguments: Vec<_> = arguments.iter().map(|argument| Val::I32(*argument)).collect();
    let mut results = [Val::I32(0)];
    let function = instance.get_func(&mut *store, name).unwrap();
    function.call(&mut *store, &arguments, &mut results).ok()?;
    results[0].i32()
}

/// Each exported function calls functions that can be inlined.
const CALLS: &str = r#"(module
    (memory (export "memory") 1)
    (table 2 funcref) (elem (i32.const 0) $in_table)
    (func $in_table (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
    ;; A parameter that is set, and a return from nested blocks.
    (func $countdown (param $n i32) (result i32) (local $steps i32)
        (loop $again
            (block $on
                (br_if $on (local.get $n))
                (return (local.get $steps)))
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (local.set $steps (i32.add (local.get $steps) (i32.const 2)))
            (br $again))
        (unreachable))
    (func (export "countdowns") (param i32) (result i32) (local $sum i32)
        (loop $again
            (local.set $sum (i32.add (local.get $sum) (call $countdown (local.get 0))))
            (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
            (br_if $again (local.get 0)))
        (local.get $sum))
    ;; Locals of all types, which are read before they are set, in a loop.
    (func $mixed (param i32) (result i32) (local i64 f32 f64 v128 i32)
        (if (i32.and (local.get 0) (i32.const 1)) (then
            (local.set 1 (i64.const 5)) (local.set 2 (f32.const 2)) (local.set 3 (f64.const 3))
            (local.set 4 (i32x4.splat (i32.const 4))) (local.set 5 (i32.const 9))))
        (i32.add (i32.wrap_i64 (local.get 1)) (i32.add (i32.trunc_f32_s (local.get 2))
            (i32.add (i32.trunc_f64_s (local.get 3)) (i32.add (i32x4.extract_lane 2 (local.get 4)) (local.get 5))))))
    (func (export "mixed") (param i32) (result i32) (local $sum i32)
        (loop $again
            (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 2)) (call $mixed (local.get 0))))
            (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))
            (br_if $again))
        (local.get $sum))
    ;; A `br_table` whose targets include the function itself.
    (func $select (param i32) (result i32)
        (block $one (result i32)
            (i32.const 10) (br_table $one 1 $one (local.get 0)))
        (i32.add (i32.const 5)))
    (func (export "select") (param i32) (result i32)
        (i32.add (call $select (local.get 0)) (call $select (i32.const 1))))
    ;; The order of parameters, in nested calls.
    (func $minus (param i32 i32) (result i32) (i32.sub (local.get 0) (local.get 1)))
    (func $twice (param i32 i32) (result i32) (call $minus (call $minus (local.get 0) (i32.const 1)) (call $minus (local.get 1) (local.get 0))))
    (func (export "nested") (param i32) (result i32)
        (call $minus (call $twice (local.get 0) (i32.const 7)) (call $twice (call $minus (i32.const 2) (local.get 0)) (i32.const 3))))
    ;; Recursion.
    (func $even (param i32) (result i32)
        (if (result i32) (local.get 0) (then (call $odd (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 1))))
    (func $odd (param i32) (result i32)
        (if (result i32) (local.get 0) (then (call $even (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 0))))
    (func $sum (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (i32.add (local.get 0) (call $sum (i32.sub (local.get 0) (i32.const 1))))) (else (i32.const 0))))
    (func (export "recursive") (param i32) (result i32)
        (i32.add (call $sum (local.get 0)) (i32.mul (call $even (local.get 0)) (i32.const 1000))))
    ;; A call within a block that catches exceptions, and functions that cannot be inlined.
    (tag $error (param i32))
    (func $throw (param i32) (if (i32.gt_s (local.get 0) (i32.const 2)) (then (throw $error (local.get 0)))))
    (func $tail (param i32) (result i32) (return_call $minus (local.get 0) (i32.const 4)))
    (func $both (param i32) (result i32 i32) (local.get 0) (i32.const 6))
    (func (export "other") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $error $caught) (call $throw (local.get 0)))
            (i32.add (call $tail (local.get 0)) (i32.mul (call $both (local.get 0)))))
        (i32.add (call $in_table (local.get 0)))
        (i32.add (call_indirect (param i32) (result i32) (local.get 0) (i32.const 0))))
    ;; A function without a result, and a trap.
    (func $store (param i32 i32)
        (if (i32.eqz (local.get 1)) (then (return)))
        (i32.store (local.get 0) (local.get 1)))
    (func (export "stores") (param i32) (result i32)
        (call $store (i32.const 8) (local.get 0)) (call $store (i32.const 12) (i32.const 0)) (i32.load (i32.const 8)))
    (func $fail (result i32) (unreachable))
    (func (export "fail") (param i32) (result i32) (if (local.get 0) (then (return (i32.const 3)))) (call $fail)))"#;

#[test]
fn inlined_functions_return_what_they_returned_before() {
    let inlined = ExportList { inlined: vec![(0, u32::MAX)], ..ExportList::default() };
    let (mut before, mut after) = (instance(CALLS, &ExportList::default()), instance(CALLS, &inlined));
    for name in ["countdowns", "mixed", "select", "nested", "recursive", "other", "stores", "fail"] {
        for argument in 0..9 {
            // Zero would count down for a long time.
            if argument > 0 || !["countdowns", "mixed"].contains(&name) {
                let expected = call(&mut before, name, &[argument]);
                assert_eq!(call(&mut after, name, &[argument]), expected, "{name}({argument})");
            }
        }
    }
    assert_eq!(call(&mut after, "countdowns", &[3]), Some(12));
}
