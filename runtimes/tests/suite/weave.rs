//! Weaving: what the passes make of small modules, and of the pinned binaries.

use std::collections::BTreeMap;

use glovebox_runtimes::{
    Digest,
    rewrite::{GlobalKind, MutableGlobal},
    weave::{self, Guest, WeaveError, WeaveOptions},
};
use wasmparser::{Validator, WasmFeatures};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::real_binaries::load;

fn valid(wasm: &[u8]) {
    let features = WasmFeatures::WASM3 - WasmFeatures::GC - WasmFeatures::MEMORY64;
    Validator::new_with_features(features).validate_all(wasm).unwrap();
}

#[test]
fn the_pinned_binaries_can_be_metered() {
    for name in ["python", "javascript", "javascript-0.11"] {
        let Some(binary) = load(name) else { continue };
        let metered = weave::metered(&binary.bytes).unwrap();
        valid(&metered);
        assert_eq!(metered, weave::metered(&binary.bytes).unwrap());
    }
}

#[test]
fn what_the_rules_do_not_cover_is_refused_by_name() {
    for (text, says) in [
        ("(module (memory i64 1))", "memory64"),
        ("(module (tag) (func (throw 0)))", "exceptions"),
        ("(module (type (array i8)))", "array"),
        ("(component)", "component"),
    ] {
        let error = weave::metered(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(matches!(&error, WeaveError::Invalid { module, .. } if module == "the module"), "{error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

/// The shim as a core module that is for an empty component.
fn shim(text: &str) -> Vec<u8> {
    let mut shim = wat::parse_str(text).unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("empty.wit", "package test:empty; world empty {}").unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut shim, &resolve, world, StringEncoding::UTF8, false).unwrap();
    shim
}

const SHIM: &str = include_str!("weave/shim.wat");
const GUEST: &str = include_str!("weave/guest.wat");

/// What a guest is beside its module.
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
        }
    }
}

#[test]
fn a_woven_component_is_valid_and_the_same_every_time() {
    let parts = Parts::new(GUEST, &["add", "close", "exit", "abort"]);
    let guests = [parts.guest("one"), parts.guest("two")];
    let woven = weave::weave(&shim(SHIM), &guests, &WeaveOptions::default()).unwrap();
    valid(&woven.core);
    assert_eq!(woven.component, weave::weave(&shim(SHIM), &guests, &WeaveOptions::default()).unwrap().component);
    assert_eq!((woven.imports.len(), woven.exports.len()), (0, 0));
}
