//! Preparing a runtime: boot it once, park it, and save its memory as the module's initial data.
//!
//! Deterministic: fixed clock, seeded entropy, the same environment and an empty file system at boot, so that the same
//! binary and the same boot code give the same image, byte for byte. Fuel equality, resuming elsewhere and replay rest on that.

use std::{collections::BTreeMap, time::Duration};

use glovebox_core::{WORKSPACE, boot_wasi};
use glovebox_interpreters::{Boot, COMPILED_FILE, Callee, DriverError, Machine, MachineError};
use glovebox_runtimes::{
    Binary, Digest, ImageRecord, NewArtefact, Recipe,
    rewrite::{self, GlobalValue, Image, MutableGlobal},
};
use glovebox_wasi::Stop;
use wasmtime::{InstancePre, Module, Val};

use crate::{
    Limits, RuntimeError, aot, engine::Inner, guest, machine::GuestMachine, packages::SharedPackages,
    platform::EnginePlatform, runtime::driver, state::State,
};

/// Long enough for any boot on any machine, short enough to end.
const BOOT_TIMEOUT: Duration = Duration::from_secs(600);

/// Makes a runtime's prepared image and compiles it.
pub(crate) fn image(inner: &Inner, name: &str, binary: &Binary, recipe: &Recipe) -> Result<NewArtefact, RuntimeError> {
    let (wasm, record) = module(inner, name, binary, recipe)?;
    inner.progress.message(&format!("compiling the image of `{name}`"));
    let loading = |error: wasmtime::Error| RuntimeError::Load { name: name.to_owned(), reason: format!("{error:#}") };
    let aot = aot::compile(&inner.wasmtime, &wasm).map_err(loading)?;
    Ok(NewArtefact { aot, record })
}

/// Makes a runtime's prepared module, which is WebAssembly, and what is known about it.
pub(crate) fn module(
    inner: &Inner,
    name: &str,
    binary: &Binary,
    recipe: &Recipe,
) -> Result<(Vec<u8>, ImageRecord), RuntimeError> {
    let rewriting = |source| RuntimeError::Rewrite { name: name.to_owned(), source };
    let loading = |error: wasmtime::Error| RuntimeError::Load { name: name.to_owned(), reason: format!("{error:#}") };
    let booting = |reason: String| RuntimeError::Boot { name: name.to_owned(), reason };

    inner.progress.message(&format!("compiling `{name}` to boot it"));
    let bootable = rewrite::with_exports(&binary.bytes, &recipe.exports).map_err(rewriting)?;
    let module = Module::new(&inner.wasmtime, &bootable.bytes).map_err(loading)?;
    let pre = inner.linker.instantiate_pre(&module).map_err(loading)?;

    inner.progress.message(&format!("booting `{name}`"));
    let driver = driver(recipe, inner.is_lean());
    let _running = inner.ticker.running(&inner.wasmtime).map_err(|error| booting(error.to_string()))?;
    let packages = match (&inner.packages, driver.compiler_args()) {
        (Some(packages), Some(args)) => {
            inner.runtimes.fetch_packages(&*inner.progress)?;
            inner.progress.message("compiling the Python packages");
            let compiled = compile_packages(inner, &pre, &*driver, args, packages).map_err(booting)?;
            inner.progress.message(&format!("booting `{name}`"));
            Some(packages.source_with(compiled)?)
        }
        _ => None,
    };
    let wasi =
        boot_wasi(driver.boot_args(), driver.boot_env(), packages).map_err(|error| booting(error.to_string()))?;
    let run = EnginePlatform::default().begin(BOOT_TIMEOUT);
    let mut machine = guest::instantiate(inner, &pre, Box::new(wasi), Limits::MAX_MEMORY_BYTES.into(), run)
        .map_err(|error| booting(error.to_string()))?;
    let anchors = driver.boot(&mut machine).map_err(|error| booting(explain(&error, &mut machine)))?;

    let globals = read_globals(&mut machine, &bootable.globals).map_err(booting)?;
    let image = Image { memory: machine.memory(), globals: &globals };
    let wasm = rewrite::with_image(&bootable.bytes, &image).map_err(rewriting)?;
    let memory_bytes = machine.memory().len() as u64;
    let restorable = rewrite::changes_only_memory_and_globals(&wasm).map_err(rewriting)?;
    let record = ImageRecord {
        sha256: Digest::of(&wasm),
        prepared: true,
        memory_bytes,
        anchors: anchors.0,
        globals: bootable.globals,
        restorable,
        notes: BTreeMap::new(),
    };
    Ok((wasm, record))
}

/// Has the interpreter itself compile the packages, in an instance that is dropped: what compiling takes of memory does not
/// become part of the image.
fn compile_packages(
    inner: &Inner,
    pre: &InstancePre<State>,
    driver: &dyn Boot,
    args: Vec<String>,
    packages: &SharedPackages,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut wasi =
        boot_wasi(args, driver.boot_env(), Some(packages.source_with(Vec::new()).map_err(|error| error.to_string())?))
            .map_err(|error| error.to_string())?;
    wasi.allow_parking(false);
    let run = EnginePlatform::default().begin(BOOT_TIMEOUT);
    let mut machine = guest::instantiate(inner, pre, Box::new(wasi), Limits::MAX_MEMORY_BYTES.into(), run)
        .map_err(|error| error.to_string())?;
    match machine.call(Callee::Export("_start"), &[]) {
        Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => {}
        Err(error) => return Err(explain(&error.into(), &mut machine)),
    }
    let wasi = machine.wasi();
    let root = wasi.mount_root(WORKSPACE).ok_or("the compiler's workspace is gone")?;
    let written = wasi.vfs_mut().read_file(root, COMPILED_FILE, Limits::MAX_MEMORY_BYTES);
    let written = written.map_err(|error| format!("the packages were not compiled: {error}"))?;
    driver.compiled_packages(&written).map_err(|error| error.to_string())
}

fn read_globals(machine: &mut GuestMachine, globals: &[MutableGlobal]) -> Result<Vec<(u32, GlobalValue)>, String> {
    let read = |global: &MutableGlobal| {
        let value = match machine.global_value(&global.export) {
            Some(Val::I32(value)) => GlobalValue::I32(value.cast_unsigned()),
            Some(Val::I64(value)) => GlobalValue::I64(value.cast_unsigned()),
            Some(Val::F32(bits)) => GlobalValue::F32(bits),
            Some(Val::F64(bits)) => GlobalValue::F64(bits),
            _ => return Err(format!("global {} cannot be saved", global.index)),
        };
        Ok((global.index, value))
    };
    globals.iter().map(read).collect()
}

/// Why a boot failed, with what the interpreter wrote about it.
fn explain(error: &DriverError, machine: &mut GuestMachine) -> String {
    let mut text = format!("{error}");
    if let DriverError::Machine(MachineError::Stopped(stop)) = error {
        text.push_str(&format!(" ({stop:?})"));
    }
    let output = machine.wasi().take_output();
    for captured in [output.stdout, output.stderr] {
        if !captured.bytes.is_empty() {
            text.push_str(&format!("; it wrote: {}", captured.text().trim_end()));
        }
    }
    text
}
