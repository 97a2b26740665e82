//! Errors for files that are not applications.

use std::fs;

use glovebox_component_runner::{AppConfig, LoadError, RunError};

use crate::support::{component, probe, world};

#[test]
fn files_that_are_no_component_say_what_they_are() {
    let world = world();
    let load = |bytes: &[u8]| world.applications.load_bytes("x.wasm", bytes).unwrap_err();
    for bytes in [&b""[..], b"\0as", b"\0asm", b"#!/bin/sh", b"\0asm\x0d\0\x07\0"] {
        assert!(matches!(load(bytes), LoadError::NotWasm { .. }), "{bytes:?}");
    }
    assert!(matches!(load(b"\0asm\x01\0\0\0"), LoadError::CoreModule { .. }));
    assert!(matches!(load(b"\0asm\x0d\0\x01\0\xff"), LoadError::Compile { .. }));
    let missing = world.applications.load("/no/such/file.wasm").unwrap_err();
    assert_eq!(missing.to_string(), "cannot read `/no/such/file.wasm`");
}

#[test]
fn an_import_that_nothing_provides_is_named() {
    let world = world();
    let load = |import: &str, what: &str| {
        let bytes = component(&format!("(component (import \"{import}\" (instance {what})))"));
        world.applications.load_bytes("app", &bytes)
    };
    let function = "(export \"f\" (func))";
    for import in
        ["wasi:http/types@0.2.0", "a:b/c@1.0.0", "wasi:cli/run@0.3.0", "glovebox:sandbox/sandbox@0.1.0", "odd"]
    {
        let Err(LoadError::MissingImport { import: named, .. }) = load(import, function) else { panic!("{import}") };
        assert_eq!(named, import);
    }
    // An import that contains only types need not be provided.
    load("a:b/types@1.0.0", "(type $t u8) (export \"t\" (type (eq $t)))").unwrap();
    // Provided, but with another type.
    let Err(LoadError::Link { reason, .. }) = load("wasi:cli/exit@0.2.0", function) else { panic!("it is not that") };
    assert!(reason.contains("`f`"), "{reason}");
}

#[test]
fn what_is_no_command_tells_what_it_exports() {
    let (world, application) = probe();
    assert!(!application.is_command());
    let Err(RunError::NotACommand { exports, .. }) = application.run(&world.host, &AppConfig::default()) else {
        panic!("it is none")
    };
    assert!(exports.iter().any(|export| export.signature == "add: func(a: u32, b: u32) -> u32"));
}

#[test]
fn a_command_returns_or_fails() {
    for (returned, is_success) in [(0, true), (1, false)] {
        let world = world();
        let text = format!(
            "(component
              (core module $m (func (export \"run\") (result i32) (i32.const {returned})))
              (core instance $i (instantiate $m))
              (func $run (result (result)) (canon lift (core func $i \"run\")))
              (instance $run (export \"run\" (func $run)))
              (export \"wasi:cli/run@0.2.3\" (instance $run)))"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.wasm");
        fs::write(&path, component(&text)).unwrap();
        let ended = world.applications.load(&path).unwrap().run(&world.host, &AppConfig::default()).unwrap();
        assert_eq!((ended.outcome.is_success(), ended.value), (is_success, None));
    }
}
