//! Loading AOT-compiled code: the one place with `unsafe` in it.
//!
//! A compiled file is native code, so loading one is running it. What makes that sound here:
//!
//! * The file comes as a handle from [`glovebox_runtimes::PreparedStore`], which opened it below a directory opened
//!   without following links, and checked with `fstat` that directory and file belong to this user and that nobody else may
//!   write them. Whoever can change it could as well change this program.
//! * It was written by [`compile`] in a process of this user, to a new file that was renamed when complete, and its
//!   length was recorded and compared. It is never written in place.
//! * Its name is a digest over the binary, the recipe, the boot code, Wasmtime's version and compile settings and the
//!   CPU, and Wasmtime itself refuses a file of another version, other settings or another CPU.
//!
//! What is left is damage to the disk below the file's length; `glovebox doctor` compares the full digest, which
//! would cost more than a whole run on every start.
#![expect(unsafe_code, reason = "Module::deserialize_open_file is unsafe; the proof is above")]

use std::fs::File;

use wasmtime::{Engine, Module};

/// Compiles a module ahead of time.
pub(crate) fn compile(engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    engine.precompile_module(wasm)
}

/// Maps a file that [`compile`] made and the cache vouches for.
pub(crate) fn load(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: see the module's documentation.
    unsafe { Module::deserialize_open_file(engine, file) }
}
