//! The components that `guest-shims/component/build` and `tests/programs/build` make, built when a test program first wants them.

use std::{
    collections::BTreeSet,
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use libtest_mimic::{Failed, Trial};

/// The tested providers, and the programs of every push.
const PROVIDERS: &str = "guest-shims/component/build";
const PROGRAMS: &str = "tests/programs/build";
const AT_EVERY_PUSH: [&str; 12] = [
    "agent-rust",
    "agent-c",
    "runner",
    "calculator",
    "prices",
    "cases",
    "forward",
    "cases-forward",
    "wasmtime",
    "wasmtime-py",
    "everywhere",
    "everywhere-abuse",
];
/// Those whose tools take minutes.
const IN_THE_WHOLE_MATRIX: [&str; 5] =
    ["agent-javascript", "agent-python", "everywhere-figures", "everywhere-python-3.15", "runner-component"];
/// The provider that takes minutes.
const LARGE_PROVIDER: &str = "glovebox-python-3.15";

/// Whether to test the whole matrix, `GLOVEBOX_TESTS=full`, as `.ci/full` does. Otherwise what every push tests.
#[must_use]
pub fn whole_matrix() -> bool {
    env::var_os("GLOVEBOX_TESTS").is_some_and(|set| set == "full")
}

/// Builds the components that are tested, as far as this machine has the tools, and reports missing tools on standard
/// error.
///
/// Unchanged components take a few seconds. Builds of several processes wait for each other.
pub fn build_components() {
    let lock = File::create(target().join(".components")).expect("a file in `target` can be made");
    lock.lock().expect("it can be locked");
    let started = Instant::now();
    eprintln!("building the components that are tested: the first time this takes some minutes");
    let mut programs = AT_EVERY_PUSH.to_vec();
    if whole_matrix() {
        programs.extend(IN_THE_WHOLE_MATRIX);
    }
    let mut missing = built(PROVIDERS, &[]);
    if whole_matrix() {
        missing.extend(built(PROVIDERS, &[LARGE_PROVIDER]));
    }
    missing.extend(built(PROGRAMS, &programs));
    eprintln!("they are built, in {} s", started.elapsed().as_secs());
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().collect();
        eprintln!("not tested here, for want of tools: {}", missing.join("; "));
    }
}

/// Runs one of the two scripts; returns what it reports as missing, each with the command that installs it.
fn built(script: &str, names: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(root().join(script));
    // What Cargo says of this package would be news to the build scripts of dependencies, which would be compiled again, and once more
    // by the next Cargo outside.
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"CARGO_PKG_") || name.as_encoded_bytes().starts_with(b"CARGO_MANIFEST_")
        {
            command.env_remove(name);
        }
    }
    let output = command
        .args(names)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("`{script}` cannot be run: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    let is_missing = |line: &&str| line.contains(MISSING);
    let missing =
        said.lines().filter(is_missing).filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect();
    // Complaints of a compiler or an installer are shown unchanged.
    if !output.status.success() {
        said.lines().filter(|line| !is_missing(line)).for_each(|line| eprintln!("{line}"));
    }
    missing
}

/// How both scripts say it: `missing` in `tests/programs/build-functions`.
const MISSING: &str = " is missing; install it with: ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn target() -> PathBuf {
    root().join("target")
}

/// Where a program is, once it is built.
///
/// # Errors
/// The line that builds it.
pub fn program_path(name: &str) -> Result<PathBuf, String> {
    there(format!("programs/{name}.wasm"), "not built", &format!("{PROGRAMS} {name}"))
}

/// Where a provider is, once it is built.
///
/// # Errors
/// The line that builds it.
pub fn provider_path(name: &str) -> Result<PathBuf, String> {
    there(format!("providers/{name}.wasm"), "not built", &format!("{PROVIDERS} {name}"))
}

/// Where the command-line tool of Wasmtime is, once it is there.
///
/// # Errors
/// The line that installs it.
pub fn wasmtime_path() -> Result<PathBuf, String> {
    there("tools/wasmtime/wasmtime_cli/wasmtime".into(), "not installed", &format!("{PROGRAMS} wasmtime"))
}

fn there(path: String, lacks: &str, line: &str) -> Result<PathBuf, String> {
    let path = target().join(path);
    if path.is_file() { Ok(path) } else { Err(format!("{lacks}: {line}")) }
}

/// A trial that needs a program. Where that could not be built it is shown as ignored, with the line that builds it; in CI, which has
/// all tools, it fails.
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
        Err(line) => missing_trial(name, line),
    }
}

/// The one trial that stands for all that cannot run because something could not be built.
pub fn missing_trial(name: impl Into<String>, line: String) -> Trial {
    let failed = line.clone();
    Trial::test(name, move || Err(failed.into())).with_kind(line).with_ignored_flag(env::var_os("CI").is_none())
}
