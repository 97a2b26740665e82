//! Compiles and loads AOT-compiled code. Contains the only `unsafe` code of this crate.
//!
//! A compiled file is native code, so loading the file means running it. This is sound for the following reasons:
//!
//! * The file comes as a handle from [`glovebox_runtimes::PreparedStore`], which opens it below a directory that was
//!   opened without following links. `fstat` confirmed that the current user owns the directory and the file, and that
//!   no other user can write to them. A user who can change the file could also change this program.
//! * A process of this user wrote the file with [`compile`] or [`compile_component`] under a temporary name, and
//!   renamed it when it was complete. The length of the file was recorded and compared. The file is never written in
//!   place.
//! * The file's name contains a digest of the binary, the recipe, the boot code, the CPU, and Wasmtime's version and
//!   compile settings. Wasmtime also rejects a file for another version, other settings or another CPU, a module in
//!   place of a component, and a component in place of a module.
//! * The file's content is unchanged. The file is read-only, and no guest can access a directory that contains it
//!   ([`glovebox_runtimes::guard`]). A seal outside the cache records the `fstat` result of the last full digest
//!   comparison: device, inode, length, and the modification and change times. If the current result differs, the
//!   digest is computed and compared again before the file is loaded. Computing it at every start would take longer
//!   than running a short script.
//!
//! Code from a prepared bundle ([`EngineConfig::prepared`](crate::EngineConfig::prepared)) is written by this process,
//! but was compiled elsewhere. The bundle must therefore be as trustworthy as this program.
//!
//! Two risks remain: a disk that corrupts bytes, which `glovebox doctor` detects, and other code that runs as this
//! user.
#![expect(unsafe_code, reason = "deserializing compiled code is unsafe; the proof is above")]

use std::fs::File;
use std::{
    io::Read,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use wasmtime::component::Component;
use wasmtime::{Config, Engine, Module};

/// Returns Wasmtime's default configuration. On x86-64 Linux, code is compiled for the level x86-64-v3 if this CPU
/// supports it, so other machines can use the code too. Otherwise, code is compiled for this CPU only.
pub(crate) fn config_for_cpu() -> Config {
    let mut config = Config::new();
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if has_v3() {
        let target = if cfg!(target_env = "musl") { "x86_64-unknown-linux-musl" } else { "x86_64-unknown-linux-gnu" };
        if config.target(target).is_ok() {
            // SAFETY: this only enables CPU features. Wasmtime compares each of them with this CPU before it runs code.
            unsafe { config.cranelift_flag_enable("x86-64-v3") };
        }
    }
    config
}

/// Checks for the CPU features of the level x86-64-v3 that the compiler uses.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_v3() -> bool {
    is_x86_feature_detected!("sse4.2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("cmpxchg16b")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
}

/// Compiles a module ahead of time.
pub(crate) fn compile(engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    engine.precompile_module(wasm)
}

/// Maps a file that was written by [`compile`] and verified by the cache.
pub(crate) fn load(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: see the module's documentation.
    unsafe { Module::deserialize_open_file(engine, file) }
}

/// Compiles a component ahead of time.
pub(crate) fn compile_component(engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    engine.precompile_component(wasm)
}

/// Maps a file that was written by [`compile_component`] and verified by the cache.
pub(crate) fn load_component(engine: &Engine, mut file: File) -> wasmtime::Result<Component> {
    let path = path_of(&file);
    if path.exists() {
        // SAFETY: see the module's documentation. The path refers to the open handle, even if the file's name has been
        // reused.
        return unsafe { Component::deserialize_file(engine, path) };
    }
    // Without `/dev/fd`, the file is read instead of mapped, which costs memory and time.
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // SAFETY: see the module's documentation.
    unsafe { Component::deserialize(engine, bytes) }
}

/// Returns a path to an open file. Wasmtime maps modules from a handle, but components only from a path.
fn path_of(file: &File) -> PathBuf {
    Path::new("/dev/fd").join(file.as_raw_fd().to_string())
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::path_of;

    #[test]
    fn handle_path_follows_the_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("checked"), dir.path().join("other"));
        fs::File::create(&path).unwrap().write_all(b"checked").unwrap();
        fs::write(&other, "other").unwrap();
        let file = fs::File::open(&path).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(fs::read_to_string(path_of(&file)).unwrap(), "checked");
        assert_eq!(fs::read_to_string(&path).unwrap(), "other");
    }
}
