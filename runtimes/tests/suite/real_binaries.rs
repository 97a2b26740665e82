//! The pinned binaries: each matches its recipe, and the rewritten module is valid.
//!
//! Uses the cache at `GLOVEBOX_CACHE_DIR` or the default one. A missing binary is skipped, or downloaded if `CI` is
//! set.

use std::path::PathBuf;

use glovebox_runtimes::rewrite::{self, GlobalKind, GlobalValue, Image, ItemKind, ModuleKind};
use glovebox_runtimes::{Binary, CacheDir, Manifest, Quiet, Runtimes};

pub(crate) fn load(name: &str) -> Option<Binary> {
    let path = match std::env::var_os("GLOVEBOX_CACHE_DIR") {
        Some(path) => PathBuf::from(path),
        None => CacheDir::default_path().unwrap(),
    };
    let runtimes = Runtimes::new(Manifest::builtin().unwrap(), CacheDir::open(path).unwrap());
    let entry = runtimes.manifest().find(name).unwrap().clone();
    if std::env::var_os("CI").is_some() {
        runtimes.fetch(&entry, &Quiet).unwrap();
    }
    if !runtimes.present(&entry).unwrap() {
        eprintln!("skipped: `{name}` is not in the cache; type `glovebox runtimes fetch {name}`");
        return None;
    }
    runtimes.verify(&entry).unwrap();
    Some(runtimes.load(&entry).unwrap())
}

fn fits_its_recipe(name: &str, kind: ModuleKind) {
    let Some(binary) = load(name) else { return };
    let recipe = binary.recipe.unwrap();
    let info = rewrite::inspect(&binary.bytes).unwrap();
    assert_eq!(info.kind, kind);
    assert!(info.needs_only_wasi(), "{:?}", info.imports);

    let bootable = rewrite::with_exports(&binary.bytes, &recipe.exports).unwrap();
    assert_eq!(bootable, rewrite::with_exports(&binary.bytes, &recipe.exports).unwrap());
    assert!(bootable.bytes.len() < binary.bytes.len());
    let booted = rewrite::inspect(&bootable.bytes).unwrap();
    for function in &recipe.exports.functions {
        let found = booted.exports.iter().find(|export| export.name == *function);
        assert_eq!(found.map(|export| export.kind), Some(ItemKind::Function), "{function}");
    }
    for callback in recipe.exports.callbacks.keys() {
        let found = booted.exports.iter().find(|export| export.name == *callback);
        assert_eq!(found.map(|export| export.kind), Some(ItemKind::Global), "{callback}");
    }
    let stack = bootable.globals.iter().find(|global| global.export == "__stack_pointer").unwrap();
    assert_eq!((stack.index, stack.kind), (0, GlobalKind::I32));
    eprintln!("{name}: globals {:?}, memory {:?}", bootable.globals, booted.memory);

    // Stands for a booted memory: one page more, and data at both ends and in the middle.
    let pages = usize::try_from(booted.memory.unwrap().minimum_pages).unwrap() + 1;
    let mut memory = vec![0u8; pages * 65_536];
    let (middle, last) = (memory.len() / 2, memory.len() - 1);
    (memory[4], memory[middle], memory[last]) = (1, 2, 3);
    let globals = [(0, GlobalValue::I32(65_536))];
    let image = Image { memory: &memory, globals: &globals };
    let rewritten = rewrite::with_image(&bootable.bytes, &image).unwrap();
    assert_eq!(rewritten, rewrite::with_image(&bootable.bytes, &image).unwrap());
    let after = rewrite::inspect(&rewritten).unwrap();
    assert_eq!(after.memory.unwrap().minimum_pages, u64::try_from(pages).unwrap());
    assert_eq!(after.exports, booted.exports);
    assert!(!after.has_start && !after.has_names);
}

/// Allowed imports of the JavaScript binaries, all from WASI: files, clocks, the environment, waiting and exiting, but
/// no random numbers, processes or sockets.
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
fn the_binaries_of_javascript_import_no_socket_and_nothing_but_wasi() {
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
    fits_its_recipe("python-3.12", ModuleKind::Command);
}

#[test]
fn quickjs_reactor_fits_its_recipe() {
    fits_its_recipe("javascript", ModuleKind::Reactor);
}

#[test]
fn quickjs_command_fits_its_recipe() {
    fits_its_recipe("javascript-0.11", ModuleKind::Command);
}
