//! The executable of the engine.

use std::path::{Path, PathBuf};

use glovebox_runtimes::{HostProgram, Progress, RuntimeError};

use super::EngineError;

/// The engine's program for Linux on x86-64. It is licensed under the Business Source License 1.1, which allows any use except offering Restate
/// itself as a service.
pub const PROGRAM: HostProgram = HostProgram {
    name: "restate-server",
    package: "@restatedev/restate-server-linux-x64",
    version: "1.7.12",
    file: "package/bin/restate-server",
    size_bytes: 225_600_128,
    sha256: "8597e9511a4aeb4f082c33a9f4cc62132ea1fe21289811a6e52ae3d2261a031f",
};

/// Returns the path of the engine's program, downloading it unless it is cached. Linux on x86-64 only.
///
/// # Errors
/// [`EngineError::Platform`] on other platforms, [`EngineError::Program`] if it cannot be fetched.
pub fn find_program(cache_dir: &Path, progress: &dyn Progress) -> Result<PathBuf, EngineError> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(EngineError::Platform);
    }
    PROGRAM.fetch(cache_dir, progress).map_err(|error: RuntimeError| EngineError::Program(Box::new(error)))
}
