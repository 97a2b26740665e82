//! An embedder that runs components on its own Wasmtime engine and gives them the sandbox. `docs/embed.md` explains the
//! code.
//!
//! `cargo run --workspace --example embed target/programs/calculator.wasm '6 * 7'`

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::{
    error::Error,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use glovebox::{Engine, EngineConfig, Policy};
use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, SandboxView, add_to_linker};
use wasmtime::{
    Config, Store, StoreLimits, StoreLimitsBuilder,
    component::{Component, Linker},
};

/// The data of a store: the limits and the sandbox of its component.
struct State {
    limits: StoreLimits,
    sandbox: SandboxCtx,
}

impl SandboxView for State {
    fn sandbox(&mut self) -> &mut SandboxCtx {
        &mut self.sandbox
    }
}

/// Calls the `evaluate` export of the component in a file.
pub(crate) fn evaluate(file: &Path, expression: &str) -> Result<Result<String, String>, Box<dyn Error>> {
    // Once per program: the engine for scripts, and the sandbox host for components.
    let engine = Engine::new(EngineConfig::default())?;
    let mut policy = Policy::default();
    policy.limits.fuel = 1_000_000_000;
    let host = SandboxHost::builder(&engine).policy(policy).build()?;

    // Once per program: your own Wasmtime engine and linker.
    let wasmtime = wasmtime::Engine::new(Config::new().consume_fuel(true).epoch_interruption(true))?;
    let mut linker = Linker::new(&wasmtime);
    add_to_linker(&mut linker)?;
    let application = Component::from_file(&wasmtime, file)?;

    // Once per instance: its sandbox, and limits on the component itself.
    let limits = StoreLimitsBuilder::new().memory_size(64 << 20).build();
    let mut store = Store::new(&wasmtime, State { limits, sandbox: host.ctx() });
    store.limiter(|state| &mut state.limits);
    store.set_fuel(1_000_000_000)?;
    store.set_hostcall_fuel(LIFT_BYTES);
    store.set_epoch_deadline(1);

    // After a timeout, cancel the scripts, and make the component trap at its next epoch check.
    let (finished, is_finished) = mpsc::channel::<()>();
    let (scripts, component) = (store.data().sandbox.cancel_token(), wasmtime.clone());
    thread::spawn(move || {
        if is_finished.recv_timeout(Duration::from_secs(30)) == Err(RecvTimeoutError::Timeout) {
            scripts.cancel();
            component.increment_epoch();
        }
    });

    let instance = linker.instantiate(&mut store, &application)?;
    let evaluate = instance.get_typed_func::<(&str,), (Result<String, String>,)>(&mut store, "evaluate")?;
    let (value,) = evaluate.call(&mut store, (expression,))?;
    drop(finished);
    Ok(value)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, expression] = arguments.as_slice() else {
        return Err("usage: embed COMPONENT EXPRESSION".into());
    };
    match evaluate(Path::new(file), expression)? {
        Ok(value) => println!("{value}"),
        Err(message) => println!("it failed: {message}"),
    }
    Ok(())
}
