//! Tests that no parser panics on random input. Prints the seed. To repeat a failure, set `GLOVEBOX_TEST_SEED`.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use glovebox_runtimes::{
    Binary, CacheDir, Callback, Digest, ExportList, Manifest, NoProgress, Runtimes,
    rewrite::{self, GlobalKind, GlobalValue, Image},
};
use wasmparser::{ExternalKind, Validator};

use crate::support::inspect;

/// An xorshift64* generator, which is random enough to break parsers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_environment() -> Self {
        let given = std::env::var("GLOVEBOX_TEST_SEED").ok().map(|text| text.parse().unwrap());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let seed: u64 = given.unwrap_or(now);
        eprintln!("GLOVEBOX_TEST_SEED={seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap())).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    /// Returns a copy of `from` in which some bytes are changed, inserted, duplicated or removed.
    fn damaged(&mut self, from: &[u8]) -> Vec<u8> {
        let mut bytes = from.to_vec();
        for _ in 0..=self.below(6) {
            if bytes.is_empty() {
                break;
            }
            let at = self.index(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => _ = bytes.remove(at),
                2 => bytes.insert(at, self.byte()),
                // Set the high bit, which continues a LEB128 number.
                3 => bytes[at] |= 0x80,
                4 => bytes[at] = 0xff,
                5 => {
                    let end = (at + self.index(40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = self.index(bytes.len());
                    bytes.splice(to..to, piece);
                }
                _ => bytes[at] = self.byte(),
            }
        }
        bytes
    }
}

fn modules() -> Vec<Vec<u8>> {
    let texts = [
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
            (func $start (export "_start") (drop (call $w (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))
            (func $named (param i64) (result i64) (i64.add (local.get 0) (global.get $g)))
            (table 2 funcref) (elem (i32.const 0) $start $named)
            (memory (export "memory") 1)
            (global $sp (mut i32) (i32.const 64)) (global $g (mut i64) (i64.const 3))
            (data (i32.const 16) "some data") (data (i32.const 64) "more"))"#,
        "(module (memory 1 2) (tag) (global (mut f32) (f32.const 1)) (func $f) (start $f))",
        "(component (core module (memory 1)))",
        "(module)",
    ];
    texts.iter().map(|text| wat::parse_str(text).unwrap()).collect()
}

/// Applies every rewrite to a module. The results for a valid module must be valid.
fn rewrite_all(module: &[u8]) {
    let valid = Validator::new().validate_all(module).is_ok();
    let list = ExportList {
        functions: vec!["named".to_owned()],
        indices: [("numbered".to_owned(), 0)].into(),
        globals: [("__stack_pointer".to_owned(), 0)].into(),
        tables: [("__table".to_owned(), 0)].into(),
        ..ExportList::default()
    };
    let framed = ExportList {
        framed: vec!["named".to_owned()],
        globals: [("__stack_pointer".to_owned(), 0)].into(),
        ..ExportList::default()
    };
    let callbacks = ExportList {
        callbacks: [("one".to_owned(), Callback::LoadWord), ("two".to_owned(), Callback::LoadWord)].into(),
        ..ExportList::default()
    };
    let _ = rewrite::changes_only_memory_and_globals(module);
    let stripped = rewrite::strip(module);
    let memory = vec![1; 65_536];
    let results = [
        stripped,
        rewrite::with_exports(module, &list).map(|bootable| bootable.bytes),
        rewrite::with_exports(module, &ExportList::default()).map(|bootable| bootable.bytes),
        rewrite::with_exports(module, &callbacks).map(|bootable| bootable.bytes),
        rewrite::with_exports(module, &framed).map(|bootable| bootable.bytes),
        rewrite::with_image(module, &Image { memory: &memory, globals: &[(0, GlobalValue::I32(1))] }),
        rewrite::with_image(module, &Image { memory: &memory, globals: &[] }),
    ];
    for result in results.into_iter().flatten().filter(|_| valid) {
        Validator::new().validate_all(&result).unwrap();
    }
}

#[test]
fn damaged_modules_give_errors_or_valid_modules() {
    let mut random = Random::from_environment();
    let modules = modules();
    for module in &modules {
        rewrite_all(module);
        (0..module.len()).for_each(|cut| rewrite_all(&module[..cut]));
    }
    for _ in 0..20_000 {
        let module = &modules[random.index(modules.len())];
        rewrite_all(&random.damaged(module));
    }
    for _ in 0..2_000 {
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        bytes.extend((0..random.below(200)).map(|_| random.byte()));
        rewrite_all(&bytes);
    }
}

#[test]
fn module_with_excessive_sizes_is_rejected_quickly() {
    // Sections that declare four billion items in a few bytes.
    for section in [1u8, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13] {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        module.extend([section, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        rewrite_all(&module);
    }
    // A hundred thousand empty custom sections.
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    (0..100_000).for_each(|_| module.extend([0, 1, 0]));
    assert!(rewrite::strip(&module).unwrap_err().to_string().contains("sections"));
    // More than a hundred thousand exports, imports and globals.
    let mut text = String::from("(module (func $f)");
    (0..100_001).for_each(|n| text.push_str(&format!("(export \"{n}\" (func $f))")));
    text.push(')');
    let error = rewrite::with_exports(&wat::parse_str(&text).unwrap(), &ExportList::default()).unwrap_err();
    assert!(error.to_string().contains("exports"));
    let globals = format!("(module {})", "(global (mut i32) (i32.const 0))".repeat(99_999));
    let bootable = rewrite::with_exports(&wat::parse_str(&globals).unwrap(), &ExportList::default()).unwrap();
    assert_eq!(bootable.globals.len(), 99_999);
}

#[test]
fn damaged_manifests_and_digests_give_errors() {
    let mut random = Random::from_environment();
    let text = include_str!("../../manifest.toml");
    for _ in 0..3_000 {
        let damaged = random.damaged(text.as_bytes());
        let damaged = String::from_utf8_lossy(&damaged);
        if let Ok(manifest) = Manifest::parse(&damaged) {
            assert!(manifest.runtimes().iter().all(|entry| manifest.recipe(&entry.recipe).is_some()));
        }
    }
    let digest = Digest::of(b"").to_string();
    for _ in 0..3_000 {
        let damaged = random.damaged(digest.as_bytes());
        let _ = String::from_utf8_lossy(&damaged).parse::<Digest>();
    }
}

// Tests that each pinned binary matches its recipe, and that the rewritten module is valid.
//
// The tests use the cache at `GLOVEBOX_CACHE_DIR`, or the default cache. A missing binary is downloaded if `CI` is set,
// and skipped otherwise.

pub(crate) fn load(name: &str) -> Option<Binary> {
    let path = match std::env::var_os("GLOVEBOX_CACHE_DIR") {
        Some(path) => PathBuf::from(path),
        None => CacheDir::default_path().unwrap(),
    };
    let runtimes = Runtimes::new(Manifest::builtin().unwrap(), CacheDir::open(path).unwrap());
    let entry = runtimes.manifest().find(name).unwrap().clone();
    if std::env::var_os("CI").is_some() {
        runtimes.fetch(&entry, &NoProgress).unwrap();
    }
    if !runtimes.present(&entry).unwrap() {
        eprintln!("skipped: `{name}` is not in the cache; run `glovebox runtimes fetch {name}`");
        return None;
    }
    runtimes.verify(&entry).unwrap();
    Some(runtimes.load(&entry).unwrap())
}

fn fits_its_recipe(name: &str, entry: &str) {
    let Some(binary) = load(name) else { return };
    let recipe = binary.recipe.unwrap();
    let info = inspect(&binary.bytes);
    assert!(info.exports.iter().any(|export| export.name == entry && export.kind == ExternalKind::Func));
    let needs_only_wasi = info
        .imports
        .iter()
        .all(|import| import.module == "wasi_snapshot_preview1" && import.kind == ExternalKind::Func);
    assert!(needs_only_wasi, "{:?}", info.imports);

    let bootable = rewrite::with_exports(&binary.bytes, &recipe.exports).unwrap();
    assert_eq!(bootable, rewrite::with_exports(&binary.bytes, &recipe.exports).unwrap());
    assert!(bootable.bytes.len() < binary.bytes.len());
    let booted = inspect(&bootable.bytes);
    for function in &recipe.exports.functions {
        let found = booted.exports.iter().find(|export| export.name == *function);
        assert_eq!(found.map(|export| export.kind), Some(ExternalKind::Func), "{function}");
    }
    for callback in recipe.exports.callbacks.keys() {
        let found = booted.exports.iter().find(|export| export.name == *callback);
        assert_eq!(found.map(|export| export.kind), Some(ExternalKind::Global), "{callback}");
    }
    let stack = bootable.globals.iter().find(|global| global.export == "__stack_pointer").unwrap();
    assert_eq!((stack.index, stack.kind), (0, GlobalKind::I32));
    eprintln!("{name}: globals {:?}, memory {:?}", bootable.globals, booted.memory);

    // Simulate the memory of a booted interpreter: one more page, and data at both ends and in the middle.
    let pages = usize::try_from(booted.memory.unwrap().initial).unwrap() + 1;
    let mut memory = vec![0u8; pages * 65_536];
    let (middle, last) = (memory.len() / 2, memory.len() - 1);
    (memory[4], memory[middle], memory[last]) = (1, 2, 3);
    let globals = [(0, GlobalValue::I32(65_536))];
    let image = Image { memory: &memory, globals: &globals };
    let rewritten = rewrite::with_image(&bootable.bytes, &image).unwrap();
    assert_eq!(rewritten, rewrite::with_image(&bootable.bytes, &image).unwrap());
    let after = inspect(&rewritten);
    assert_eq!(after.memory.unwrap().initial, u64::try_from(pages).unwrap());
    assert_eq!(after.exports, booted.exports);
    assert!(!after.has_start && !after.has_names);
}

/// The WASI imports that the JavaScript binaries may have: files, clocks, the environment, waiting and exiting, but no
/// random numbers, processes or sockets.
const IMPORTS_OF_JAVASCRIPT: [&str; 23] = [
    "args_get",
    "args_sizes_get",
    "clock_time_get",
    "environ_get",
    "environ_sizes_get",
    "fd_close",
    "fd_fdstat_get",
    "fd_fdstat_set_flags",
    "fd_prestat_dir_name",
    "fd_prestat_get",
    "fd_read",
    "fd_readdir",
    "fd_seek",
    "fd_write",
    "path_create_directory",
    "path_filestat_get",
    "path_filestat_set_times",
    "path_open",
    "path_remove_directory",
    "path_rename",
    "path_unlink_file",
    "poll_oneoff",
    "proc_exit",
];

#[test]
fn javascript_binaries_import_only_wasi_without_sockets() {
    for name in ["javascript", "javascript-0.11"] {
        let Some(binary) = load(name) else { continue };
        let mut count = 0;
        for payload in wasmparser::Parser::new(0).parse_all(&binary.bytes) {
            let wasmparser::Payload::ImportSection(imports) = payload.unwrap() else { continue };
            for import in imports.into_imports() {
                let import = import.unwrap();
                assert_eq!(import.module, "wasi_snapshot_preview1", "{name}: {}", import.name);
                assert!(IMPORTS_OF_JAVASCRIPT.contains(&import.name), "{name} imports `{}`", import.name);
                count += 1;
            }
        }
        assert!(count >= 20, "{name}: {count} imports");
    }
}

#[test]
fn cpython_fits_its_recipe() {
    fits_its_recipe("python-3.12", "_start");
}

#[test]
fn quickjs_reactor_fits_its_recipe() {
    fits_its_recipe("javascript", "_initialize");
}

#[test]
fn quickjs_command_fits_its_recipe() {
    fits_its_recipe("javascript-0.11", "_start");
}
