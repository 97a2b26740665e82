//! Constants that Wasmtime 48 detects. The expectations come from running Wasmtime; `tests/tests/all/metering` compares
//! random programs.

use wasmparser::Operator;

use super::constants;
use crate::module::Module;

/// Returns the constant length of the last `memory.fill` in a function with this body, parameter 0, and locals 1 to 3.
fn length(body: &str) -> Result<Option<i32>, String> {
    let text = format!(
        "(module (import \"env\" \"base\" (global $base i32)) (memory 1) (table 1 funcref)
           (global $fixed i32 (i32.const 40)) (global $copy i32 (global.get $base))
           (global $own (mut i32) (i32.const 7)) (tag)
           (func (param i32) (local i32 i32 i32) {body}))"
    );
    let wasm = wat::parse_str(text).unwrap();
    let module = Module::read("the module", &wasm).unwrap();
    let operators: Vec<Operator<'_>> =
        module.bodies[0].get_operators_reader().unwrap().into_iter().collect::<Result<_, _>>().unwrap();
    let locals = [(3, wasm_encoder::ValType::I32)];
    let lengths = constants(&module, 1, &locals, &operators).map_err(|error| error.to_string())?;
    let fill = operators.iter().rposition(|operator| matches!(operator, Operator::MemoryFill { .. })).unwrap();
    Ok(lengths.get(&fill).copied())
}

/// Like `length`, with operators before the address and the byte.
fn after(before: &str, length_of: &str) -> Option<i32> {
    length(&format!("{before} i32.const 0 i32.const 0 {length_of} memory.fill")).unwrap()
}

#[test]
fn constants_are_seen_through_locals_and_the_stack() {
    assert_eq!(after("", "i32.const 5"), Some(5));
    assert_eq!(after("", "i32.const 5 nop"), Some(5));
    assert_eq!(after("", "i32.const 5 i32.const 9 local.set 1"), Some(5));
    assert_eq!(after("i32.const 5 local.set 1", "local.get 1"), Some(5));
    assert_eq!(after("", "i32.const 5 local.tee 1"), Some(5));
    // Never set, so zero.
    assert_eq!(after("", "local.get 2"), Some(0));
    assert_eq!(after("", "global.get $fixed"), Some(40));
    assert_eq!(after("", "block (result i32) i32.const 5 end"), Some(5));
}

#[test]
fn what_is_computed_is_no_constant() {
    assert_eq!(after("", "local.get 0"), None);
    assert_eq!(after("", "i32.const 2 i32.const 3 i32.add"), None);
    assert_eq!(after("", "global.get $own"), None);
    assert_eq!(after("", "global.get $base"), None);
    assert_eq!(after("local.get 0 local.set 1", "local.get 1"), None);
}

#[test]
fn where_ways_meet_it_is_one_constant_or_none() {
    let either = |then: &str, otherwise: &str| {
        after(&format!("i32.const 5 local.set 1 local.get 0 if {then} else {otherwise} end"), "local.get 1")
    };
    assert_eq!(either("nop", "nop"), Some(5));
    assert_eq!(either("local.get 0 local.set 1", "nop"), None);
    // Equal numbers from two constants are not one constant.
    assert_eq!(either("i32.const 5 local.set 1", "nop"), None);
    // A path that does not reach the label does not count.
    assert_eq!(either("i32.const 6 local.set 1 return", "nop"), Some(5));
    assert_eq!(either("i32.const 6 local.set 1", "unreachable"), Some(6));
}

#[test]
fn a_loop_hides_what_it_was_not_asked_for_before() {
    let turn = "local.get 0 br_if 0";
    // Inside the loop, its back edges are not known yet.
    let within = format!("i32.const 5 local.set 1 loop i32.const 0 i32.const 0 local.get 1 memory.fill {turn} end");
    assert_eq!(length(&within).unwrap(), None);
    // After the loop, the result depends on whether the variable was used inside.
    assert_eq!(after(&format!("i32.const 5 local.set 1 loop local.get 1 drop {turn} end"), "local.get 1"), Some(5));
    assert_eq!(after(&format!("i32.const 5 local.set 1 loop {turn} end"), "local.get 1"), None);
}

#[test]
fn exceptions_come_from_calls_with_what_was_there_before() {
    let caught = |inside: &str| {
        after(&format!("i32.const 5 local.set 1 block try_table (catch_all 0) {inside} end end"), "local.get 1")
    };
    assert_eq!(caught("i32.const 0 call 0"), Some(5));
    assert_eq!(caught("i32.const 0 call 0 i32.const 6 local.set 1"), None);
    assert_eq!(caught("i32.const 0 call 0 i32.const 6 local.set 1 return"), Some(5));
    assert_eq!(caught("i32.const 6 local.set 1 i32.const 0 call 0 return"), Some(6));
    assert_eq!(caught("i32.const 6 local.set 1 throw 0"), Some(6));
    // Cranelift uses zero for a block without predecessors.
    assert_eq!(caught("i32.const 6 local.set 1 return"), Some(0));
}

#[test]
fn what_cannot_be_told_is_refused() {
    for (length_of, what) in
        [("global.get $copy", "may be a constant"), ("i32.const 0 table.get 0 drop i32.const 5", "operator on a table")]
    {
        let refused = length(&format!("i32.const 0 i32.const 0 {length_of} memory.fill")).unwrap_err();
        assert!(refused.contains(what), "{refused}");
    }
}
