//! The components that `tests/programs/build` makes.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use libtest_mimic::{Failed, Trial};

/// Where a program is, once it is built.
///
/// # Errors
/// The line that builds it.
pub fn program_path(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/programs/{name}.wasm"));
    if path.is_file() { Ok(path) } else { Err(format!("not built: tests/programs/build {name}")) }
}

/// Where a provider is, once it is built.
///
/// # Errors
/// The line that builds it.
pub fn provider_path(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/providers/{name}.wasm"));
    if path.is_file() { Ok(path) } else { Err(format!("not built: guest-shims/component/build {name}")) }
}

/// Where the command-line tool of Wasmtime is, once it is there.
///
/// # Errors
/// The line that installs it.
pub fn wasmtime_path() -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/wasmtime/wasmtime_cli/wasmtime");
    if path.is_file() { Ok(path) } else { Err("not installed: tests/programs/build wasmtime".into()) }
}

/// A trial that needs a program. Where that was not built it is shown as ignored, with the line that builds it; in CI, where
/// programs are built first, it fails.
pub fn program_trial(
    name: impl Into<String>,
    program: &str,
    runner: impl FnOnce(&[u8]) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    trial_with(name, program_path(program), move |path| runner(&fs::read(path)?))
}

/// The same for a trial that needs something else that `programs/build` makes.
pub fn trial_with<T: Send + 'static>(
    name: impl Into<String>,
    needed: Result<T, String>,
    runner: impl FnOnce(T) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match needed {
        Ok(needed) => Trial::test(name, move || runner(needed)),
        Err(line) => {
            let failed = line.clone();
            Trial::test(name, move || Err(failed.into())).with_kind(line).with_ignored_flag(env::var_os("CI").is_none())
        }
    }
}
