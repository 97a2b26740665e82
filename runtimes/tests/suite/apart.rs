//! Splitting modules: code and memory together equal the module.

use glovebox_runtimes::rewrite::{self, ItemKind, MEMORY_EXPORT, MEMORY_IMPORT};
use wasmparser::Validator;

use crate::rewrite::{PAGE, initial_globals, initial_memory, wasm};

const MODULE: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (table funcref (elem $load))
    (memory (export "memory") (export "again") 2 4)
    (tag (param i32))
    (global (mut i32) (i32.const 1024))
    (func $load (export "load") (result i32) (i32.load8_u (i32.const 9)))
    (data (i32.const 8) "hello")
    (data (i32.const 70000) "there"))"#;

#[test]
fn the_code_imports_the_memory_and_is_otherwise_what_it_was() {
    let module = wasm(MODULE);
    let apart = rewrite::apart(&module).unwrap();
    let (before, code) = (rewrite::inspect(&module).unwrap(), rewrite::inspect(&apart.code).unwrap());
    assert_eq!(code.exports, before.exports);
    let imports: Vec<_> = code.imports.iter().map(|import| (&*import.module, &*import.name, import.kind)).collect();
    let (from, name) = MEMORY_IMPORT;
    assert_eq!(imports, [("wasi_snapshot_preview1", "proc_exit", ItemKind::Function), (from, name, ItemKind::Memory)]);
    assert_eq!(initial_globals(&apart.code), initial_globals(&module));
    assert_eq!(rewrite::apart(&module).unwrap(), apart, "nothing but the module decides");
}

#[test]
fn the_memory_is_a_module_with_the_data_and_nothing_else() {
    let module = wasm(MODULE);
    let apart = rewrite::apart(&module).unwrap();
    let memory = rewrite::inspect(&apart.memory).unwrap();
    let exports: Vec<_> = memory.exports.iter().map(|export| (&*export.name, export.kind)).collect();
    assert_eq!(exports, [(MEMORY_EXPORT, ItemKind::Memory)]);
    assert!(memory.imports.is_empty() && !memory.has_start);
    assert_eq!(memory.memory.unwrap().maximum_pages, Some(4));
    assert_eq!(initial_memory(&apart.memory), initial_memory(&module));
    // A module without data still has a memory.
    let empty = rewrite::apart(&wasm("(module (memory 1))")).unwrap();
    assert_eq!(initial_memory(&empty.memory), [0; PAGE]);
}

#[test]
fn a_saved_memory_takes_the_place_of_the_first() {
    let module = wasm(MODULE);
    for pages in [2, 3, 4] {
        let mut saved = vec![0; pages * PAGE];
        (saved[7], saved[pages * PAGE - 1]) = (1, 2);
        let memory = rewrite::memory_of(&module, &saved).unwrap();
        assert_eq!(initial_memory(&memory), saved);
        assert_eq!(rewrite::inspect(&memory).unwrap().memory.unwrap().maximum_pages, Some(4));
    }
    for bytes in [PAGE, 5 * PAGE, 2 * PAGE + 1] {
        let error = rewrite::memory_of(&module, &vec![0; bytes]).unwrap_err().to_string();
        assert!(error.contains("pages"), "{error}");
    }
}

#[test]
fn a_module_with_further_state_is_refused_and_a_damaged_one_too() {
    for (text, why) in [
        ("(module)", "exactly one memory"),
        ("(module (memory 1) (memory 1))", "exactly one memory"),
        ("(module (memory i64 1))", "64-bit"),
        (r#"(module (import "a" "b" (memory 1)))"#, "imports its memory"),
        (r#"(module (memory 1) (data "passive"))"#, "passive"),
        (
            r#"(module (memory 1) (data "x") (func (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 0))))"#,
            "memory.init",
        ),
        ("(module (memory 1) (table 1 funcref) (func (table.set (i32.const 0) (ref.null func))))", "tables"),
    ] {
        let error = rewrite::apart(&wasm(text)).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let module = wasm(MODULE);
    for length in 0..module.len() {
        // Never panics. A module that is cut between two sections may be valid.
        if let Ok(apart) = rewrite::apart(&module[..length]) {
            Validator::new().validate_all(&apart.code).unwrap();
        }
    }
}
