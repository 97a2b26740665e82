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

/// A trial that needs a program. Where that was not built it is shown as ignored, with the line that builds it; in CI, where
/// programs are built first, it fails.
pub fn program_trial(
    name: impl Into<String>,
    program: &str,
    runner: impl FnOnce(&[u8]) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match program_path(program) {
        Ok(path) => Trial::test(name, move || runner(&fs::read(path)?)),
        Err(line) => {
            let failed = line.clone();
            Trial::test(name, move || Err(failed.into())).with_kind(line).with_ignored_flag(env::var_os("CI").is_none())
        }
    }
}
