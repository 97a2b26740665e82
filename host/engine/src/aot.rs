//! Loading AOT-compiled code: the one place with `unsafe` in it.
//!
//! A compiled file is native code, so loading one is running it. What makes that sound here:
//!
//! * The file comes as a handle from [`glovebox_runtimes::PreparedStore`], which opened it below a directory opened
//!   without following links, and checked with `fstat` that directory and file belong to this user and that nobody else may
//!   write them. Whoever can change it could as well change this program.
//! * It was written by [`compile`] or [`compile_component`] in a process of this user, to a new file that was renamed when complete, and its
//!   length was recorded and compared. It is never written in place.
//! * Its name is a digest over the binary, the recipe, the boot code, Wasmtime's version and compile settings and the
//!   CPU, and Wasmtime itself refuses a file of another version, other settings or another CPU. A module is no component
//!   and the other way round: Wasmtime looks at that too.
//!
//! * It is what was written. The file is read-only, no guest is given a directory that reaches it
//!   ([`glovebox_runtimes::guard`]), and outside the cache is recorded what `fstat` said of it when its full digest was last
//!   compared: device, inode, length, times of modification and of change. Where it now says something else, the digest is
//!   compared again before the file is loaded. On every start that would cost more than a whole run.
//!
//! What is left is a disk that changes bytes by itself, which `glovebox doctor` finds, and code that runs as this user.
#![expect(unsafe_code, reason = "deserialising compiled code is unsafe; the proof is above")]

use std::fs::File;
#[cfg(feature = "component")]
use std::{
    io::Read,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

#[cfg(feature = "component")]
use wasmtime::component::Component;
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

/// Compiles a component ahead of time.
#[cfg(feature = "component")]
pub(crate) fn compile_component(engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    engine.precompile_component(wasm)
}

/// Maps a file that [`compile_component`] made and the cache vouches for.
#[cfg(feature = "component")]
pub(crate) fn load_component(engine: &Engine, mut file: File) -> wasmtime::Result<Component> {
    let path = path_of(&file);
    if path.exists() {
        // SAFETY: see the module's documentation; the path is the handle's, whatever has the file's name by now.
        return unsafe { Component::deserialize_file(engine, path) };
    }
    // Without that directory it is read instead of mapped, which costs memory and time.
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // SAFETY: see the module's documentation.
    unsafe { Component::deserialize(engine, bytes) }
}

/// A path that leads to an open file itself. Wasmtime maps a module from a handle, but a component only from a path.
#[cfg(feature = "component")]
fn path_of(file: &File) -> PathBuf {
    Path::new("/dev/fd").join(file.as_raw_fd().to_string())
}

#[cfg(all(test, feature = "component"))]
mod tests {
    use std::{fs, io::Write as _};

    use super::path_of;

    #[test]
    fn the_path_of_a_handle_leads_to_its_file_whatever_has_the_name_now() {
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
