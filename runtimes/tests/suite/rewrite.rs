//! Tests that rewriting handwritten modules preserves their semantics, and rejects state that cannot be saved.

use std::collections::BTreeMap;

use glovebox_runtimes::{
    ExportList,
    rewrite::{self, GlobalKind, GlobalValue, Image, MEMORY_EXPORT, MEMORY_IMPORT, MutableGlobal, RewriteError},
};
use wasmparser::{DataKind, ExternalKind, Operator, Parser, Payload, Validator};

use crate::support::inspect;

pub(crate) const PAGE: usize = 65_536;

pub(crate) fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

fn list(functions: &[&str], globals: &[(&str, u32)], tables: &[(&str, u32)]) -> ExportList {
    let map = |pairs: &[(&str, u32)]| pairs.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
    ExportList {
        functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        indices: BTreeMap::new(),
        globals: map(globals),
        tables: map(tables),
        ..ExportList::default()
    }
}

/// Returns a module's initial memory, computed from its data segments as an engine does.
pub(crate) fn initial_memory(module: &[u8]) -> Vec<u8> {
    let info = inspect(module);
    let pages = usize::try_from(info.memory.unwrap().initial).unwrap();
    let mut memory = vec![0; pages * PAGE];
    for payload in Parser::new(0).parse_all(module) {
        let Payload::DataSection(segments) = payload.unwrap() else {
            continue;
        };
        for segment in segments {
            let segment = segment.unwrap();
            let DataKind::Active { memory_index: 0, offset_expr } = segment.kind else { panic!("{:?}", segment.kind) };
            let Operator::I32Const { value } = offset_expr.get_operators_reader().read().unwrap() else { panic!() };
            let at = usize::try_from(value.cast_unsigned()).unwrap();
            memory[at..at + segment.data.len()].copy_from_slice(segment.data);
        }
    }
    memory
}

/// Returns the constants that initialize a module's own globals.
pub(crate) fn initial_globals(module: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::GlobalSection(globals) = payload.unwrap() else {
            continue;
        };
        for global in globals {
            found.push(format!("{:?}", global.unwrap().init_expr.get_operators_reader().read().unwrap()));
        }
    }
    found
}

const MODULE: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "env" "base" (global $base i32))
    (func $hidden (result i32) global.get $sp)
    (func $twice1)
    (func (export "_start"))
    (table $t 4 8 funcref)
    (elem (i32.const 1) $hidden)
    (memory (export "memory") 1 4)
    (tag $tag)
    (global $sp (mut i32) (i32.const 1024))
    (global $count (mut i64) (i64.const -1))
    (global $fixed i32 (i32.const 7))
    (global $f (mut f32) (f32.const 0.5))
    (global (export "shown") (mut f64) (f64.const 1))
    (start $twice1)
    (data (i32.const 8) "hello")
    (@custom "producers" "x"))"#;

#[test]
fn exports_are_added_and_every_mutable_global_is_reachable() {
    let module = wasm(MODULE);
    let bootable = rewrite::with_exports(&module, &list(&["hidden"], &[("sp", 1)], &[("table", 0)])).unwrap();
    Validator::new().validate_all(&bootable.bytes).unwrap();
    let info = inspect(&bootable.bytes);
    let exports: BTreeMap<_, _> = info.exports.iter().map(|e| (e.name.as_str(), (e.kind, e.index))).collect();
    assert_eq!(exports["hidden"], (ExternalKind::Func, 1));
    assert_eq!(exports["sp"], (ExternalKind::Global, 1));
    assert_eq!(exports["table"], (ExternalKind::Table, 0));
    assert_eq!(exports["_start"], (ExternalKind::Func, 3));
    let global = |index, export: &str, kind| MutableGlobal { index, export: export.to_owned(), kind };
    assert_eq!(
        bootable.globals,
        [
            global(1, "sp", GlobalKind::I32),
            global(2, "__glovebox_global_2", GlobalKind::I64),
            global(4, "__glovebox_global_4", GlobalKind::F32),
            global(5, "shown", GlobalKind::F64),
        ]
    );
    assert!(bootable.globals.iter().all(|global| exports.contains_key(global.export.as_str())));
    assert!(!info.has_names && info.has_start);
    // A second rewrite changes nothing, because existing exports are preserved.
    let again = rewrite::with_exports(&bootable.bytes, &list(&["hidden"], &[("sp", 1)], &[("table", 0)])).unwrap();
    assert_eq!(again, bootable);
}

#[test]
fn function_with_an_ambiguous_name_is_exported_by_index() {
    let module = wasm(MODULE);
    let with = |index| {
        let indices = BTreeMap::from([("twice".to_owned(), index)]);
        rewrite::with_exports(&module, &ExportList { indices, ..ExportList::default() })
    };
    let info = inspect(&with(2).unwrap().bytes);
    let exported = info.exports.iter().find(|export| export.name == "twice").unwrap();
    assert_eq!((exported.kind, exported.index), (ExternalKind::Func, 2));
    assert!(with(4).unwrap_err().to_string().contains("no function 4 to export as `twice`"));
}

#[test]
fn missing_export_is_rejected_by_name() {
    let module = wasm(MODULE);
    let error = |wanted| rewrite::with_exports(&module, &wanted).unwrap_err().to_string();
    assert!(error(list(&["absent"], &[], &[])).contains("`absent`"));
    assert!(error(list(&[], &[("sp", 6)], &[])).contains("no global 6 to export as `sp`"));
    assert!(error(list(&[], &[], &[("t", 1)])).contains("no table 1 to export as `t`"));
    // The module already exports a different item under this name.
    assert!(error(list(&[], &[("memory", 1)], &[])).contains("exports another item as `memory`"));
    assert!(error(list(&["memory"], &[], &[])).contains("`memory`"));
}

#[test]
fn ambiguous_function_name_is_rejected() {
    let mut module = wasm("(module (func) (func))");
    let mut names = wasm_encoder::NameSection::new();
    let mut functions = wasm_encoder::NameMap::new();
    functions.append(0, "same");
    functions.append(1, "same");
    functions.append(900, "beyond");
    names.functions(&functions);
    module.push(wasm_encoder::Section::id(&names));
    wasm_encoder::Encode::encode(&names, &mut module);
    let error = |name| rewrite::with_exports(&module, &list(&[name], &[], &[])).unwrap_err();
    assert!(matches!(error("same"), RewriteError::AmbiguousFunction(name) if name == "same"));
    assert!(matches!(error("beyond"), RewriteError::NoFunction(name) if name == "beyond"));
}

#[test]
fn missing_sections_are_inserted_in_order() {
    let module =
        wasm("(module (memory 1) (tag) (global (mut i32) (i32.const 0)) (func $f) (start $f) (elem declare func $f))");
    let bootable = rewrite::with_exports(&module, &list(&["f"], &[], &[])).unwrap();
    Validator::new().validate_all(&bootable.bytes).unwrap();
    let mut memory = vec![0; PAGE];
    memory[9] = 9;
    let image = Image { memory: &memory, globals: &[(0, GlobalValue::I32(5))] };
    let prepared = rewrite::with_image(&bootable.bytes, &image).unwrap();
    assert_eq!(initial_memory(&prepared), memory);
    assert_eq!(initial_globals(&prepared), ["I32Const { value: 5 }"]);
    assert!(!inspect(&prepared).has_start);
}

#[test]
fn memory_image_becomes_the_initial_state() {
    let bootable = rewrite::with_exports(&wasm(MODULE), &ExportList::default()).unwrap();
    let mut memory = vec![0; 3 * PAGE];
    memory[0] = 1;
    memory[70_000..70_100].fill(2);
    memory[3 * PAGE - 1] = 3;
    let values = [
        (1, GlobalValue::I32(u32::MAX)),
        (2, GlobalValue::I64(1 << 63)),
        // The bits of a signalling NaN are preserved.
        (4, GlobalValue::F32(0x7fa0_0001)),
        (5, GlobalValue::F64(0x8000_0000_0000_0000)),
    ];
    let image = Image { memory: &memory, globals: &values };
    let prepared = rewrite::with_image(&bootable.bytes, &image).unwrap();
    Validator::new().validate_all(&prepared).unwrap();
    assert_eq!(initial_memory(&prepared), memory);
    let globals = initial_globals(&prepared);
    assert_eq!(globals[0], "I32Const { value: -1 }");
    assert_eq!(globals[1], format!("I64Const {{ value: {} }}", i64::MIN));
    assert_eq!(globals[2], "I32Const { value: 7 }");
    assert!(globals[3].contains("2141192193"), "{}", globals[3]);
    assert!(globals[4].contains("9223372036854775808"), "{}", globals[4]);
    // The digest of these bytes identifies the image, so they must be reproducible.
    assert_eq!(prepared, rewrite::with_image(&bootable.bytes, &image).unwrap());
    assert_eq!(prepared, rewrite::strip(&prepared).unwrap());
}

#[test]
fn an_image_of_the_wrong_size_is_refused() {
    let module = wasm(MODULE);
    let try_bytes = |bytes: usize| {
        let memory = vec![0; bytes];
        rewrite::with_image(&module, &Image { memory: &memory, globals: &[] })
    };
    for bytes in [0, PAGE - 1, PAGE + 1, 5 * PAGE] {
        assert!(matches!(try_bytes(bytes), Err(RewriteError::Image(_))), "{bytes}");
    }
    for pages in [1, 4] {
        assert_eq!(initial_memory(&try_bytes(pages * PAGE).unwrap()).len(), pages * PAGE);
    }
}

#[test]
fn invalid_global_values_are_rejected() {
    let module = wasm(MODULE);
    let memory = vec![0; PAGE];
    let cases: [&[(u32, GlobalValue)]; 6] = [
        &[(0, GlobalValue::I32(1))], // imported
        &[(3, GlobalValue::I32(1))], // immutable
        &[(6, GlobalValue::I32(1))], // beyond the last
        &[(u32::MAX, GlobalValue::I32(1))],
        &[(1, GlobalValue::I64(1))],                           // of another type
        &[(1, GlobalValue::I32(1)), (1, GlobalValue::I32(1))], // twice
    ];
    for globals in cases {
        let error = rewrite::with_image(&module, &Image { memory: &memory, globals }).unwrap_err();
        assert!(matches!(error, RewriteError::Global { .. }), "{globals:?}: {error}");
    }
}

#[test]
fn state_outside_memory_and_globals_is_rejected() {
    let cases = [
        ("(module (memory 1) (data \"x\"))", "passive"),
        (
            "(module (memory 1) (data $d (i32.const 0) \"x\") (func (memory.init $d (i32.const 0) (i32.const 0) (i32.const 0))))",
            "memory.init",
        ),
        ("(module (memory 1) (data $d (i32.const 0) \"x\") (func (data.drop $d)))", "data.drop"),
        ("(module (memory 1) (table 1 funcref) (func (table.set 0 (i32.const 0) (ref.null func))))", "tables"),
        ("(module (memory 1) (table 1 funcref) (func (drop (table.grow 0 (ref.null func) (i32.const 1)))))", "tables"),
        ("(module (memory 1 1 shared))", "shared"),
        ("(module (memory i64 1))", "64-bit"),
        ("(module (memory 1) (memory 1))", "exactly one"),
        ("(module)", "exactly one"),
        ("(module (import \"m\" \"m\" (memory 1)))", "imports its memory"),
    ];
    let memory = vec![0; PAGE];
    for (text, word) in cases {
        let error = rewrite::with_image(&wasm(text), &Image { memory: &memory, globals: &[] }).unwrap_err();
        assert!(matches!(error, RewriteError::Unsupported(_)) && error.to_string().contains(word), "{text}: {error}");
    }
    for text in [
        "(module (import \"m\" \"g\" (global (mut i32))))",
        "(module (global (mut v128) (v128.const i64x2 0 0)))",
        "(module (global (mut funcref) (ref.null func)))",
    ] {
        let error = rewrite::with_exports(&wasm(text), &ExportList::default()).unwrap_err();
        assert!(matches!(error, RewriteError::Unsupported(_)), "{text}: {error}");
    }
    assert!(matches!(rewrite::strip(&wasm("(component)")), Err(RewriteError::Component)));
}

#[test]
fn data_count_section_is_updated() {
    // LLVM emits a data count section even if no instruction needs it.
    let mut module = wasm_encoder::Module::new();
    let mut memories = wasm_encoder::MemorySection::new();
    memories.memory(wasm_encoder::MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    module.section(&memories).section(&wasm_encoder::DataCountSection { count: 1 });
    let mut data = wasm_encoder::DataSection::new();
    data.active(0, &wasm_encoder::ConstExpr::i32_const(0), *b"x");
    module.section(&data);
    let module = module.finish();
    for touched in [&[][..], &[0], &[0, 40 * 4096, 80 * 4096]] {
        let mut memory = vec![0; 8 * PAGE];
        touched.iter().for_each(|at: &usize| memory[*at] = 1);
        let prepared = rewrite::with_image(&module, &Image { memory: &memory, globals: &[] }).unwrap();
        assert_eq!(initial_memory(&prepared), memory);
    }
}

#[test]
fn sparse_memory_stays_within_the_segment_limit() {
    // Write to every other 4 KiB block of a memory of 64 MiB. With one segment per block, this memory would need 8,192
    // segments. A memory of 4 GiB would need more than the maximum of 100,000 segments.
    let module = wasm("(module (memory 1024))");
    let mut memory = vec![0; 1024 * PAGE];
    memory.iter_mut().step_by(2 * 4096).for_each(|byte| *byte = 1);
    let prepared = rewrite::with_image(&module, &Image { memory: &memory, globals: &[] }).unwrap();
    assert_eq!(initial_memory(&prepared), memory);
    let segments = Parser::new(0).parse_all(&prepared).find_map(|payload| match payload.unwrap() {
        Payload::DataSection(segments) => Some(segments.count()),
        _ => None,
    });
    assert_eq!(segments, Some(1));
}

#[test]
fn strip_removes_only_custom_sections() {
    let module = wasm(MODULE);
    let stripped = rewrite::strip(&module).unwrap();
    assert!(stripped.len() < module.len());
    let (before, after) = (inspect(&module), inspect(&stripped));
    assert!(before.has_names && !after.has_names);
    assert_eq!((before.imports, before.exports, before.has_start), (after.imports, after.exports, after.has_start));
    assert_eq!(initial_memory(&module), initial_memory(&stripped));
}

/// Restoring memory and globals must reset every instance of a module for which `changes_only_memory_and_globals`
/// returns `true`.
#[test]
fn code_that_changes_other_state_is_detected() {
    let module = |before: &str, code: &str| {
        wasm(&format!(
            "(module {before} (memory 1) (table 2 funcref) (global $g (mut i32) (i32.const 0)) (elem $e func $f) (data $d \"d\")
               (func $f) (func {code}))"
        ))
    };
    let only = |before, code| rewrite::changes_only_memory_and_globals(&module(before, code)).unwrap();
    for code in [
        "",
        "i32.const 0 i32.const 1 i32.store i32.const 1 global.set $g",
        "i32.const 1 memory.grow drop i32.const 0 i32.const 1 i32.const 2 memory.copy i32.const 0 i32.const 1 i32.const 2 memory.fill",
        "i32.const 0 call_indirect table.size drop i32.const 0 table.get drop",
        "i32.const 0 i32.const 0 i32.const 1 memory.init $d",
    ] {
        assert!(only("", code), "{code}");
    }
    for code in [
        "i32.const 0 ref.null func table.set",
        "i32.const 0 ref.null func i32.const 1 table.fill",
        "ref.null func i32.const 1 table.grow drop",
        "i32.const 0 i32.const 1 i32.const 1 table.copy",
        "i32.const 0 i32.const 0 i32.const 1 table.init $e",
        "elem.drop $e",
        "data.drop $d",
        "i32.const 0 i32.const 0 i32.const 1 memory.init $d data.drop $d",
        // Operators are detected even in unreachable code.
        "return data.drop $d",
    ] {
        assert!(!only("", code), "{code}");
    }
    for import in [
        "(import \"a\" \"b\" (memory 1))",
        "(import \"a\" \"b\" (table 1 funcref))",
        "(import \"a\" \"b\" (global (mut i32)))",
    ] {
        assert!(!only(import, ""), "{import}");
    }
    assert!(only("(import \"a\" \"b\" (func))", ""));
    assert!(!rewrite::changes_only_memory_and_globals(&wasm("(module (memory 1) (memory 1))")).unwrap());
    rewrite::changes_only_memory_and_globals(b"\0asm\x01\0\0\0\x0a\x05\x01").unwrap_err();
}

const SPLIT_MODULE: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (table funcref (elem $load))
    (memory (export "memory") (export "again") 2 4)
    (tag (param i32))
    (global (mut i32) (i32.const 1024))
    (func $load (export "load") (result i32) (i32.load8_u (i32.const 9)))
    (data (i32.const 8) "hello")
    (data (i32.const 70000) "there"))"#;

#[test]
fn split_code_imports_the_memory_and_is_unchanged() {
    let module = wasm(SPLIT_MODULE);
    let code = rewrite::code_of(&module).unwrap();
    assert_eq!(initial_globals(&code), initial_globals(&module));
    assert_eq!(rewrite::code_of(&module).unwrap(), code, "the output must depend only on the module");
    let (before, code) = (inspect(&module), inspect(&code));
    assert_eq!(code.exports, before.exports);
    let imports: Vec<_> = code.imports.iter().map(|import| (&*import.module, &*import.name, import.kind)).collect();
    let (from, name) = MEMORY_IMPORT;
    assert_eq!(
        imports,
        [("wasi_snapshot_preview1", "proc_exit", ExternalKind::Func), (from, name, ExternalKind::Memory)]
    );
}

#[test]
fn split_memory_module_contains_only_data() {
    let module = wasm(SPLIT_MODULE);
    let made = rewrite::initial_memory_of(&module).unwrap();
    let memory = inspect(&made);
    let exports: Vec<_> = memory.exports.iter().map(|export| (&*export.name, export.kind)).collect();
    assert_eq!(exports, [(MEMORY_EXPORT, ExternalKind::Memory)]);
    assert!(memory.imports.is_empty() && !memory.has_start);
    assert_eq!(memory.memory.unwrap().maximum, Some(4));
    assert_eq!(initial_memory(&made), initial_memory(&module));
    // A module without data also has a memory.
    let empty = rewrite::initial_memory_of(&wasm("(module (memory 1))")).unwrap();
    assert_eq!(initial_memory(&empty), [0; PAGE]);
}

#[test]
fn saved_memory_replaces_the_initial_memory() {
    let module = wasm(SPLIT_MODULE);
    for pages in [2, 3, 4] {
        let mut saved = vec![0; pages * PAGE];
        (saved[7], saved[pages * PAGE - 1]) = (1, 2);
        let memory = rewrite::memory_of(&module, &saved).unwrap();
        assert_eq!(initial_memory(&memory), saved);
        assert_eq!(inspect(&memory).memory.unwrap().maximum, Some(4));
    }
    for bytes in [PAGE, 5 * PAGE, 2 * PAGE + 1] {
        let error = rewrite::memory_of(&module, &vec![0; bytes]).unwrap_err().to_string();
        assert!(error.contains("page"), "{error}");
    }
}

#[test]
fn modules_with_other_state_or_damage_are_rejected() {
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
        let error = rewrite::code_of(&wasm(text)).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let module = wasm(SPLIT_MODULE);
    for length in 0..module.len() {
        // Truncation must not cause a panic. A module that is truncated between two sections may be valid.
        let _ = rewrite::code_of(&module[..length]);
        let _ = rewrite::initial_memory_of(&module[..length]);
    }
}
