//! Components that attack the loader, and the memory that instances take before their code runs.

use glovebox::Resource;
use glovebox_component_runner::{AppOutcome, Ended, LoadError};

use crate::support::{component, config, world};

/// Returns a component of core modules with an export `f`.
fn application(modules: &str) -> Vec<u8> {
    component(&format!(
        "(component {modules} (core module $last (func (export \"f\"))) (core instance $last (instantiate $last))
         (func (export \"f\") (canon lift (core func $last \"f\"))))"
    ))
}

fn ended(bytes: &[u8], memory_bytes: u64) -> Ended {
    let world = world();
    let application = world.applications.load_bytes("hostile", bytes).unwrap();
    application.invoke("f()", &world.host, &config(|config| config.limits.memory_bytes = memory_bytes)).unwrap()
}

/// Checks that a component takes at least `least` bytes, and that its limit is exact.
fn counts_to_the_byte(bytes: &[u8], least: u64) {
    let at = ended(bytes, 1 << 30).memory_bytes;
    assert!(at >= least, "{at}");
    for memory_bytes in [at + 1, at] {
        assert_eq!(ended(bytes, memory_bytes).outcome, AppOutcome::Returned, "{memory_bytes}");
    }
    let over = ended(bytes, at - 1).outcome;
    assert_eq!(over, AppOutcome::Exhausted { resource: Resource::Memory, limit: at - 1, used: at });
}

#[test]
fn globals_count_in_each_instance_before_there_is_one() {
    let globals = "(global v128 (v128.const i64x2 1 2))".repeat(2_000);
    let text = format!("(core module $m {globals}) {}", "(core instance (instantiate $m))".repeat(30));
    counts_to_the_byte(&application(&text), 30 * 2_000 * 16);
}

#[test]
fn passive_elements_count_in_each_instance_before_there_is_one() {
    let text = format!(
        "(core module $m (func $f) (elem func {})) {}",
        "$f ".repeat(2_000),
        "(core instance (instantiate $m))".repeat(30)
    );
    counts_to_the_byte(&application(&text), 30 * 2_000 * 16);
}

#[test]
fn elements_of_tables_count_as_memory() {
    let text = "(core module $m (table 10000 funcref) (table 5000 externref)) (core instance (instantiate $m))";
    counts_to_the_byte(&application(text), 15_000 * 8);
}

#[test]
fn what_instances_take_is_refused_while_nothing_is_allocated() {
    // 900 instances with 100,000 elements each would be 1.4 GB.
    let text = format!(
        "(core module $m (func $f) (elem func {})) {}",
        "$f ".repeat(100_000),
        "(core instance (instantiate $m))".repeat(900)
    );
    let outcome = ended(&application(&text), 512 << 20).outcome;
    let AppOutcome::Exhausted { resource: Resource::Memory, used, .. } = outcome else { panic!("{outcome:?}") };
    assert!(used > 900 * 100_000 * 16, "{used}");
}

#[test]
fn a_growth_that_its_type_does_not_allow_counts_for_nothing() {
    let bytes = component(
        "(component (core module $m (table $t 0 100 funcref)
           (func $grow (param i32) (drop (table.grow $t (ref.null func) (local.get 0))))
           (func (export \"f\") (result i32)
             (call $grow (i32.const 60)) (call $grow (i32.const 500)) (call $grow (i32.const 500))
             (call $grow (i32.const 40)) (call $grow (i32.const 1))
             (table.size $t)))
         (core instance $m (instantiate $m)) (func (export \"f\") (result u32) (canon lift (core func $m \"f\"))))",
    );
    let world = world();
    let application = world.applications.load_bytes("hostile", &bytes).unwrap();
    for (most, size) in [(99, "61"), (100, "100"), (1_000, "100")] {
        let config = config(|config| config.limits.table_elements = most);
        let ended = application.invoke("f()", &world.host, &config).unwrap();
        assert_eq!(ended.value.as_deref(), Some(size), "{most}: {:?}", ended.outcome);
    }
}

#[test]
fn what_multiplies_is_refused_before_it_is_read() {
    let double = |levels: usize| {
        let level = |n: usize| {
            format!(
                "(component $c{} (alias outer 1 $c{n} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))",
                n + 1
            )
        };
        let levels_text: String = (0..levels).map(level).collect();
        component(&format!(
            "(component (component $c0 (core module $m) (core instance (instantiate $m))) {levels_text}
             (instance (instantiate $c{levels})))"
        ))
    };
    let world = world();
    world.applications.load_bytes("some", &double(4)).unwrap();
    let bytes = double(26);
    assert!(bytes.len() < 2_000);
    let error = world.applications.load_bytes("all", &bytes).unwrap_err();
    assert!(matches!(&error, LoadError::Excess { .. }), "{error}");
    assert!(error.to_string().ends_with("it instantiates more than 10000 modules and components"), "{error}");
}

#[test]
fn what_the_compiler_panics_at_is_an_error() {
    // Cranelift limits the number of memory kinds that a function accesses, and each global is one.
    let globals = "(global funcref (ref.func $f))".repeat(200_000);
    let bytes = application(&format!("(core module (func $f) {globals})"));
    let error = world().applications.load_bytes("panics", &bytes).unwrap_err();
    assert!(matches!(error, LoadError::Compile { .. }), "{error}");
}

#[test]
fn images_are_no_larger_than_their_data() {
    // Two distant bytes in each memory, and a table with one element at its end.
    let memory = |n: usize| {
        format!(
            "(memory $m{n} 200) (data (memory $m{n}) (i32.const 0) \"a\") (data (memory $m{n}) (i32.const 13000000) \"a\")"
        )
    };
    let memories: String = (0..50).map(memory).collect();
    let bytes = application(&format!("(core module {memories})"));
    let world = world();
    world.applications.load_bytes("sparse", &bytes).unwrap();
    let compiled = world.compiled_bytes();
    assert!(compiled < 1 << 20, "{compiled} bytes of compiled component");
}
