//! Tests that callbacks added to handwritten modules receive unused slots and indices.

use std::collections::BTreeMap;

use glovebox_runtimes::rewrite::{self, Image};
use glovebox_runtimes::{Callback, ExportList};
use wasmparser::{ElementItems, ElementKind, ExternalKind, Operator, Parser, Payload, TableType, Validator};

use crate::support::inspect;

fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

fn asking_for(names: &[&str]) -> ExportList {
    let callbacks = names.iter().map(|name| ((*name).to_owned(), Callback::LoadWord)).collect();
    ExportList { callbacks, ..ExportList::default() }
}

/// A module's tables, the functions in its table slots, and the operators of its bodies.
#[derive(Debug, Default, PartialEq)]
struct Code {
    tables: Vec<TableType>,
    slots: BTreeMap<u32, u32>,
    bodies: Vec<Vec<String>>,
    /// The initial values of the module's own globals.
    globals: Vec<i32>,
}

fn code(module: &[u8]) -> Code {
    let mut code = Code::default();
    let constant = |expression: wasmparser::ConstExpr<'_>| match expression.get_operators_reader().read().unwrap() {
        Operator::I32Const { value } => value,
        other => panic!("{other:?}"),
    };
    for payload in Parser::new(0).parse_all(module) {
        match payload.unwrap() {
            Payload::TableSection(tables) => code.tables.extend(tables.into_iter().map(|table| table.unwrap().ty)),
            Payload::GlobalSection(globals) => {
                code.globals.extend(globals.into_iter().map(|global| constant(global.unwrap().init_expr)));
            }
            Payload::ElementSection(segments) => {
                for segment in segments {
                    let segment = segment.unwrap();
                    let ElementKind::Active { table_index: None | Some(0), offset_expr } = segment.kind else {
                        continue;
                    };
                    let ElementItems::Functions(functions) = segment.items else { panic!("expressions") };
                    let first = u32::try_from(constant(offset_expr)).unwrap();
                    code.slots.extend((first..).zip(functions.into_iter().map(Result::unwrap)));
                }
            }
            Payload::CodeSectionEntry(body) => {
                let operators = body.get_operators_reader().unwrap();
                code.bodies.push(operators.into_iter().map(|operator| format!("{:?}", operator.unwrap())).collect());
            }
            _ => {}
        }
    }
    code
}

const MODULE: &str = r#"(module
    (rec (type $a (func)) (type $b (func (param i64))))
    (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
    (import "env" "base" (global i32))
    (func $f (export "_start"))
    (func $g (param i64))
    (table 3 3 funcref)
    (table 5 funcref)
    (memory (export "memory") 1)
    (global (mut i32) (i32.const 1024))
    (elem (i32.const 1) $f $g))"#;

#[test]
fn each_callback_gets_a_table_slot() {
    let module = wasm(MODULE);
    let before = code(&module);
    let bytes = rewrite::with_exports(&module, &asking_for(&["__b", "__a"])).unwrap().bytes;
    Validator::new().validate_all(&bytes).unwrap();
    let after = code(&bytes);

    assert_eq!((after.tables[0].initial, after.tables[0].maximum), (5, Some(5)));
    assert_eq!(after.tables[1], before.tables[1]);
    // Function 0 is imported, and functions 1 and 2 are defined in the module. Slots 3 and 4 are new, in the order of
    // the names.
    assert_eq!(after.slots, BTreeMap::from([(1, 1), (2, 2), (3, 3), (4, 4)]));
    assert_eq!(after.bodies[..2], before.bodies[..]);
    for body in &after.bodies[2..] {
        assert_eq!(body.len(), 3, "{body:?}");
        assert!(body[0].contains("LocalGet { local_index: 1 }") && body[1].contains("I32Load"), "{body:?}");
    }
    assert_eq!(after.globals, [1024, 3, 4]);
    let info = inspect(&bytes);
    let exports: BTreeMap<_, _> = info.exports.iter().map(|e| (e.name.as_str(), (e.kind, e.index))).collect();
    assert_eq!((exports["__a"], exports["__b"]), ((ExternalKind::Global, 2), (ExternalKind::Global, 3)));
    assert!(!info.globals[2].mutable && !info.globals[3].mutable);
}

#[test]
fn promise_callback_calls_functions_of_the_module() {
    let list = ExportList {
        functions: vec!["JS_PromiseState".to_owned(), "JS_PromiseResult".to_owned()],
        callbacks: [("__read".to_owned(), Callback::ReadPromise), ("__word".to_owned(), Callback::LoadWord)].into(),
        ..ExportList::default()
    };
    let module = |functions: &str| wasm(&format!("(module {functions} (table 1 funcref) (memory 1))"));
    let both = "(func (export \"JS_PromiseState\") (param i32 i64) (result i32) i32.const -1)
        (func (export \"JS_PromiseResult\") (param i32 i64) (result i64) local.get 1)";
    let bytes = rewrite::with_exports(&module(both), &list).unwrap().bytes;
    Validator::new().validate_all(&bytes).unwrap();
    let made = code(&bytes);
    assert_eq!(made.slots, BTreeMap::from([(1, 2), (2, 3)]));
    assert!(made.bodies[2].iter().any(|operator| operator.contains("function_index: 0")), "{:?}", made.bodies);
    assert!(made.bodies[2].iter().any(|operator| operator.contains("function_index: 1")), "{:?}", made.bodies);

    let list = ExportList { functions: Vec::new(), ..list };
    let error = rewrite::with_exports(&module(""), &list).unwrap_err().to_string();
    assert!(error.contains("JS_PromiseState"), "{error}");
}

#[test]
fn callbacks_are_preserved_by_an_image() {
    let bootable = rewrite::with_exports(&wasm(MODULE), &asking_for(&["__a"])).unwrap();
    let memory = vec![0; 65_536];
    let image = rewrite::with_image(&bootable.bytes, &Image { memory: &memory, globals: &[] }).unwrap();
    assert_eq!(code(&image), code(&bootable.bytes));
}

#[test]
fn missing_sections_are_created() {
    let bytes =
        rewrite::with_exports(&wasm("(module (table 0 funcref) (memory 1))"), &asking_for(&["__a"])).unwrap().bytes;
    Validator::new().validate_all(&bytes).unwrap();
    let made = code(&bytes);
    assert_eq!((made.slots, made.globals, made.bodies.len()), (BTreeMap::from([(0, 0)]), vec![0], 1));
}

#[test]
fn module_without_callbacks_is_unchanged() {
    let module = wasm(MODULE);
    assert_eq!(code(&rewrite::with_exports(&module, &ExportList::default()).unwrap().bytes), code(&module));
}

#[test]
fn module_unsuitable_for_callbacks_is_rejected() {
    let error = |text: &str| rewrite::with_exports(&wasm(text), &asking_for(&["__a"])).unwrap_err().to_string();
    assert!(error("(module (memory 1))").contains("no table"));
    assert!(error("(module (table 1 funcref))").contains("no 32-bit memory"));
    assert!(error("(module (table 1 funcref) (memory i64 1))").contains("no 32-bit memory"));
    assert!(error("(module (table 1 externref) (memory 1))").contains("not a plain table"));
    assert!(error("(module (import \"e\" \"t\" (table 1 funcref)) (memory 1))").contains("imports the table"));
    assert!(error("(module (import \"e\" \"m\" (memory 1)) (table 1 funcref))").contains("defines no 32-bit memory"));
    assert!(error("(module (table 1 funcref) (memory (export \"__a\") 1))").contains("exports another item as `__a`"));
    // Test a table of the maximum initial size, and a table with one slot less.
    assert!(error("(module (table 10000000 funcref) (memory 1))").contains("too many functions"));
    let largest = wasm("(module (table 9999999 funcref) (memory 1))");
    Validator::new().validate_all(&rewrite::with_exports(&largest, &asking_for(&["__a"])).unwrap().bytes).unwrap();
}
