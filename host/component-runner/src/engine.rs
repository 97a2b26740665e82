//! The Wasmtime engine that applications are compiled for and run by.

use wasmtime::{Config, Engine};

/// How deep an application may recurse. Wasmtime's default is half of it; interpreters compiled to components need more.
const WASM_STACK_BYTES: usize = 1 << 20;

/// The fiber that an application runs on. What is above its own stack is for the host functions that it calls: those of
/// the sandbox convert whole policies and run guests on stacks of their own.
const FIBER_STACK_BYTES: usize = 4 << 20;

/// Wasmtime for applications: fuel, epochs, and exceptions, which composed providers are unwound with.
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
        // Images of memories are made only of data that is dense. Otherwise two bytes far apart would be megabytes of compiled component.
        .memory_guaranteed_dense_image_size(0)
        // What a trap was is told; frames of a stranger's component tell its user nothing.
        .wasm_backtrace_max_frames(None);
    Engine::new(&config)
}
