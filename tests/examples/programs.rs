//! Replaces WebAssembly tools that `tests/programs/build` would otherwise have to install. Uses the libraries of these
//! tools, at the versions in `Cargo.lock`.
//!
//! * `componentize CORE OUT none|command|reactor`: makes a component from a core module that was compiled with
//!   bindings. The last argument is the adapter for its WASI preview 1 imports.
//! * `c-bindings WORLD OUT_DIR`: writes the C bindings for a world in `wit/`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::Files;
use wit_component::ComponentEncoder;
use wit_parser::Resolve;

const USAGE: &str = "usage: programs componentize CORE OUT none|command|reactor | c-bindings WORLD OUT_DIR";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match *args.as_slice() {
        ["componentize", core, out, adapter] => componentize(core.as_ref(), out.as_ref(), adapter),
        ["c-bindings", world, out] => c_bindings(world, out.as_ref()),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn componentize(core: &Path, out: &Path, adapter: &str) -> Result<(), Box<dyn Error>> {
    let adapter = match adapter {
        "none" => None,
        "command" => Some(WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER),
        "reactor" => Some(WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER),
        other => return Err(format!("unknown adapter `{other}`; use `none`, `command` or `reactor`").into()),
    };
    let mut encoder = ComponentEncoder::default().module(&fs::read(core)?)?.validate(true);
    if let Some(adapter) = adapter {
        encoder = encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter)?;
    }
    // The debug format shows the whole chain of causes.
    let component = encoder.encode().map_err(|error| format!("`{}`: {error:?}", core.display()))?;
    // Written to a temporary file and renamed: an interrupted build leaves no partial component.
    let beside = out.with_extension("part");
    fs::write(&beside, component)?;
    fs::rename(&beside, out)?;
    Ok(())
}

fn c_bindings(world: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit_dir())?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = Files::default();
    // Shortens names: `sandbox_execute` instead of `glovebox_sandbox_sandbox_execute`.
    let rename = ["sandbox", "types"]
        .map(|interface| (format!("glovebox:sandbox/{interface}@0.2.0"), interface.to_owned()))
        .to_vec();
    let options = wit_bindgen_c::Opts { rename, ..wit_bindgen_c::Opts::default() };
    options.build().generate(&mut resolve, world, &mut files)?;
    fs::create_dir_all(out)?;
    for (name, contents) in files.iter() {
        fs::write(out.join(name), contents)?;
    }
    Ok(())
}

fn wit_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")
}
