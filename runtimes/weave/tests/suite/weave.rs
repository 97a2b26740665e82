//! Tests of weaving small modules and the pinned binaries.

use std::{collections::BTreeMap, path::PathBuf};

use glovebox_runtimes::{
    Binary, CacheDir, Digest, Manifest, NoProgress, Runtimes,
    rewrite::{GlobalKind, MutableGlobal},
};
use glovebox_weave::{Counter, Guest, WeaveError, WeaveOptions, weave};
use wasmparser::{KnownCustom, Operator, Parser, Payload, Validator, WasmFeatures};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

fn valid(wasm: &[u8]) {
    let features = (WasmFeatures::WASM3 | WasmFeatures::COMPONENT_MODEL) - WasmFeatures::GC - WasmFeatures::MEMORY64;
    Validator::new_with_features(features).validate_all(wasm).unwrap();
}

#[test]
fn pinned_binaries_are_supported_by_metering() {
    for name in ["python-3.12", "javascript", "javascript-0.11"] {
        let Some(binary) = load(name) else { continue };
        let metered = glovebox_weave::metered(&binary.bytes, Counter::Own).unwrap();
        valid(&metered);
        assert_eq!(metered, glovebox_weave::metered(&binary.bytes, Counter::Own).unwrap());
    }
}

#[test]
fn checks_have_hints() {
    let text = "(module (func (loop (br_if 0 (i32.const 0)))) (func (call 0)))";
    let metered = glovebox_weave::metered(&wat::parse_str(text).unwrap(), Counter::Own).unwrap();
    let (mut hints, mut checks) = (Vec::new(), Vec::new());
    // The function with index 0 is imported.
    let mut function = 0;
    for payload in Parser::new(0).parse_all(&metered) {
        match payload.unwrap() {
            Payload::CustomSection(section) => {
                let KnownCustom::BranchHints(functions) = section.as_known() else { continue };
                for of in functions {
                    let of = of.unwrap();
                    let offsets = of.hints.into_iter().map(|hint| hint.unwrap()).filter(|hint| !hint.taken);
                    hints.extend(offsets.map(|hint| (of.func, hint.func_offset as usize)));
                }
            }
            Payload::CodeSectionEntry(body) => {
                function += 1;
                for operator in body.get_operators_reader().unwrap().into_iter_with_offsets() {
                    let (operator, offset) = operator.unwrap();
                    if matches!(operator, Operator::If { .. }) {
                        checks.push((function, offset - body.range().start));
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!((hints, checks.len()), (checks.clone(), 3));
}

#[test]
fn instructions_without_a_rule_are_rejected_by_name() {
    for (text, says) in [
        ("(module (memory i64 1))", "memory64"),
        ("(module (tag) (func try throw 0 end))", "legacy"),
        ("(module (type (array i8)))", "array"),
        ("(component)", "component"),
    ] {
        let error = glovebox_weave::metered(&wat::parse_str(text).unwrap(), Counter::Own).unwrap_err();
        assert!(matches!(&error, WeaveError::Invalid { module, .. } if module == "the module"), "{error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

/// Encodes the shim as a core module for an empty component.
fn shim(text: &str) -> Vec<u8> {
    let mut shim = wat::parse_str(text).unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("empty.wit", "package test:empty; world empty {}").unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut shim, &resolve, world, StringEncoding::UTF8).unwrap();
    shim
}

const SHIM: &str = include_str!("shim.wat");
const GUEST: &str = include_str!("guest.wat");

/// A guest's module and the other data that a [`Guest`] refers to.
struct Parts {
    module: Vec<u8>,
    aliases: Vec<String>,
    anchors: BTreeMap<String, u32>,
    globals: Vec<MutableGlobal>,
    exports: Vec<String>,
}

impl Parts {
    fn new(text: &str, exports: &[&str]) -> Self {
        let global = |index, export: &str, kind| MutableGlobal { index, export: export.to_owned(), kind };
        Self {
            module: wat::parse_str(text).unwrap(),
            aliases: vec!["other".to_owned()],
            anchors: BTreeMap::from([("driver".to_owned(), 7)]),
            globals: vec![
                global(0, "__stack_pointer", GlobalKind::I32),
                global(1, "__glovebox_global_1", GlobalKind::I64),
                global(2, "__glovebox_global_2", GlobalKind::F32),
                global(3, "__glovebox_global_3", GlobalKind::F64),
            ],
            exports: exports.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn guest<'a>(&'a self, name: &'a str) -> Guest<'a> {
        Guest {
            name,
            aliases: &self.aliases,
            language: "python",
            driver: "cpython",
            version: "3",
            module: &self.module,
            image_sha256: Digest::of(&self.module),
            anchors: &self.anchors,
            globals: &self.globals,
            exports: &self.exports,
            library: None,
        }
    }
}

#[test]
fn woven_component_is_valid_and_deterministic() {
    let parts = Parts::new(GUEST, &["add", "close", "exit", "abort"]);
    let guests = [parts.guest("one"), parts.guest("two")];
    let woven = weave(&shim(SHIM), &guests, &WeaveOptions::default()).unwrap();
    valid(&woven.core);
    valid(&woven.component);
    assert!(
        !woven.component.windows(14).any(|bytes| bytes == b"component-name"),
        "the component must not contain a name section"
    );
    assert_eq!(woven.component, weave(&shim(SHIM), &guests, &WeaveOptions::default()).unwrap().component);
    assert_eq!((woven.imports.len(), woven.exports.len()), (0, 0));
}

fn refused(shim_text: &str, parts: &Parts, options: &WeaveOptions) -> String {
    weave(&shim(shim_text), &[parts.guest("one")], options).unwrap_err().to_string()
}

#[test]
fn unsupported_guest_is_rejected_with_its_feature() {
    let with = |more: &str| format!("(module (memory (export \"memory\") 1) {more})");
    for (text, says) in [
        ("(module (import \"env\" \"f\" (func)) (memory 1))".to_owned(), "`env` `f`"),
        ("(module (import \"env\" \"m\" (memory 1)))".to_owned(), "`env` `m`"),
        ("(module (import \"wasi_snapshot_preview1\" \"f\" (func)) (memory 1))".to_owned(), "glovebox:wasi/f"),
        (
            "(module (import \"wasi_snapshot_preview1\" \"fd_close\" (func (param i64) (result i32))) (memory 1))"
                .to_owned(),
            "`fd_close` with an unexpected type",
        ),
        ("(module (func))".to_owned(), "exactly one memory"),
        (with("(func $s) (start $s)"), "start function"),
        (with("(global (mut i32) (i32.const 0))"), "global 0"),
        (with("(data \"passive\")"), "data segment"),
        (with("(data (i32.const 0) \"ab\") (data (i32.const 1) \"c\")"), "overlap"),
    ] {
        let module = wat::parse_str(&text).unwrap();
        let parts = Parts { module, globals: Vec::new(), ..Parts::new(GUEST, &[]) };
        let error = refused(SHIM, &parts, &WeaveOptions::default());
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn driver_functions_must_exist_and_take_integers() {
    let says = |text: &str, export: &str| {
        let parts = Parts { globals: Vec::new(), ..Parts::new(text, &[export]) };
        refused(SHIM, &parts, &WeaveOptions::default())
    };
    assert!(says("(module (memory 1))", "f").contains("no function `f`"));
    let float = "(module (memory 1) (func (export \"f\") (param f32)))";
    assert!(says(float, "f").contains("`f` has parameters or results that are not integers"));
    let two = "(module (memory 1) (func (export \"f\") (result i32 i32) i32.const 1 i32.const 2))";
    assert!(says(two, "f").contains("`f`"));
}

#[test]
fn unsuitable_shim_error_names_the_missing_export() {
    let parts = Parts::new(GUEST, &[]);
    for (from, to, says) in [
        (
            "\"unwound\" (func $unwound (result i32))",
            "\"unwound\" (func $unwound (result i64))",
            "`unwound` with an unexpected type",
        ),
        ("\"glovebox:machine\" \"unwound\"", "\"glovebox:machine\" \"rewind\"", "an unknown function, `rewind`"),
        ("glovebox:machine/refuel", "refuel", "glovebox:machine/refuel"),
        ("glovebox:machine/grow", "grow", "glovebox:machine/grow"),
        ("glovebox:wasi/proc_exit", "proc_exit", "glovebox:wasi/proc_exit"),
        ("  (memory (export \"memory\") 1)", "  (import \"env\" \"memory\" (memory 1))", "`env` `memory`"),
    ] {
        let text = SHIM.replace(from, to);
        assert_ne!(text, SHIM, "{from}");
        let error = refused(&text, &parts, &WeaveOptions::default());
        assert!(error.contains(says), "{from}: {error}");
    }
}

#[test]
fn too_small_call_depth_budget_is_rejected() {
    let parts = Parts::new(GUEST, &[]);
    let mut options = WeaveOptions::default();
    options.stack_bytes = 100;
    assert!(refused(SHIM, &parts, &options).contains("the limit is 100"));
    assert!(weave(&shim(SHIM), &[], &WeaveOptions::default()).unwrap_err().to_string().contains("no guest"));
}

#[test]
fn guest_exports_are_hidden() {
    let parts = Parts::new(GUEST, &["add"]);
    let woven = weave(&shim(SHIM), &[parts.guest("one")], &WeaveOptions::default()).unwrap();
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(&woven.core) {
        match payload.unwrap() {
            Payload::ImportSection(imports) => assert_eq!(imports.count(), 0),
            Payload::ExportSection(exports) => names.extend(exports.into_iter().map(|export| export.unwrap().name)),
            _ => {}
        }
    }
    for name in ["add", "__table", "__stack_pointer", "glovebox:wasi/fd_close", "glovebox:machine/refuel"] {
        assert!(!names.contains(&name), "{name}: {names:?}");
    }
    assert!(names.contains(&"memory") && names.contains(&"call_export"));
}

pub(crate) fn load(name: &str) -> Option<Binary> {
    let path = match std::env::var_os("GLOVEBOX_CACHE_DIR") {
        Some(path) => PathBuf::from(path),
        None => CacheDir::default_path().unwrap(),
    };
    let runtimes = Runtimes::new(Manifest::builtin().unwrap(), CacheDir::open(path).unwrap());
    let entry = runtimes.manifest().find(name).unwrap();
    if std::env::var_os("CI").is_some() {
        runtimes.fetch(entry, &NoProgress).unwrap();
    }
    if !runtimes.present(entry).unwrap() {
        eprintln!("skipped: `{name}` is not in the cache; run `glovebox runtimes fetch {name}`");
        return None;
    }
    Some(runtimes.load(entry).unwrap())
}
