//! The Wasmtime engine for applications.

use wasmtime::{Config, Engine};

/// Maximum stack of WebAssembly calls, twice Wasmtime's default. Interpreters compiled to components need it.
const WASM_STACK_BYTES: usize = 1 << 20;

/// Stack of an application's fiber. The part beyond its own stack is for host functions: those of the sandbox convert
/// whole policies and run guests on separate stacks.
const FIBER_STACK_BYTES: usize = 4 << 20;

/// Creates the engine for applications, with fuel, epochs, and the exceptions that unwind composed providers.
pub(crate) fn wasmtime_engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .wasm_multi_memory(true)
        .wasm_exceptions(true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        // Creates memory images for dense data only. Otherwise two distant bytes would need megabytes of compiled
        // component.
        .memory_guaranteed_dense_image_size(0)
        // Backtraces of an untrusted component do not help its user; the trap's message stays.
        .wasm_backtrace_max_frames(None);
    Engine::new(&config)
}
