//! Components that `guest-shims/component/build` and `tests/programs/build` build when a test program first needs them.

use std::{
    collections::BTreeSet,
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use libtest_mimic::{Failed, Trial};

/// The script that builds the providers.
const PROVIDERS: &str = "guest-shims/component/build";
/// The script that builds the programs.
const PROGRAMS: &str = "tests/programs/build";
/// The programs tested at every push.
const AT_EVERY_PUSH: [&str; 19] = [
    "agent-rust",
    "agent-c",
    "runner",
    "calculator",
    "concurrent",
    "concurrent-relay",
    "parallel",
    "parallel-rates",
    "prices",
    "cases",
    "cases-concurrent",
    "forward",
    "cases-forward",
    "wasmtime",
    "wasmtime-py",
    "everywhere",
    "everywhere-abuse",
    "everywhere-0.3",
    "composed-0.3",
];
/// Programs whose build requires tools that take minutes to install.
const IN_THE_WHOLE_MATRIX: [&str; 5] =
    ["agent-javascript", "agent-python", "everywhere-figures", "everywhere-python-3.15", "runner-component"];
/// The provider that takes minutes to build.
const LARGE_PROVIDER: &str = "glovebox-python-3.15";

/// Returns `true` if `GLOVEBOX_TESTS=full` requests the full matrix, as `.ci/full` does.
pub fn whole_matrix() -> bool {
    env::var_os("GLOVEBOX_TESTS").is_some_and(|set| set == "full")
}

/// Builds the components under test that this machine has the tools for, and reports missing tools on standard error.
///
/// Takes a few seconds if the components are up to date. Concurrent builds wait for each other.
pub fn build_components() {
    let lock = File::create(target().join(".components")).expect("a file in `target` can be created");
    lock.lock().expect("the file can be locked");
    let started = Instant::now();
    eprintln!("building the components under test (takes some minutes the first time)");
    let mut programs = AT_EVERY_PUSH.to_vec();
    if whole_matrix() {
        programs.extend(IN_THE_WHOLE_MATRIX);
    }
    let mut missing = built(PROVIDERS, &[]);
    if whole_matrix() {
        missing.extend(built(PROVIDERS, &[LARGE_PROVIDER]));
    }
    missing.extend(built(PROGRAMS, &programs));
    eprintln!("built the components in {} s", started.elapsed().as_secs());
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().collect();
        eprintln!("skipped tests, because tools are missing: {}", missing.join("; "));
    }
}

/// Runs one of the two build scripts. Returns its reports of missing tools, each with the command that installs the
/// tool.
fn built(script: &str, names: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(root().join(script));
    // Removes the variables that Cargo sets for this package. Otherwise the nested build would recompile build scripts
    // of dependencies, and the next outer Cargo run would recompile them again.
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
    let printed = String::from_utf8_lossy(&output.stderr);
    let is_missing = |line: &&str| line.contains(MISSING);
    let missing: BTreeSet<String> =
        printed.lines().filter(is_missing).filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect();
    // Shows the script's other messages, such as a compiler's errors.
    if !output.status.success() {
        printed.lines().filter(|line| !is_missing(line)).for_each(|line| eprintln!("{line}"));
        // Otherwise, the tests would use old components.
        assert!(!missing.is_empty(), "`{script}` failed");
    }
    missing
}

/// The text after a tool's name in the message of the function `missing` in `tests/programs/build-functions`.
const MISSING: &str = " is missing; install it with: ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn target() -> PathBuf {
    root().join("target")
}

/// Returns a program's path.
///
/// # Errors
/// Fails if the program is not built. The error contains the command that builds it.
pub fn program_path(name: &str) -> Result<PathBuf, String> {
    there(format!("programs/{name}.wasm"), "not built", &format!("{PROGRAMS} {name}"))
}

/// Returns a provider's path.
///
/// # Errors
/// Fails if the provider is not built. The error contains the command that builds it.
pub fn provider_path(name: &str) -> Result<PathBuf, String> {
    there(format!("providers/{name}.wasm"), "not built", &format!("{PROVIDERS} {name}"))
}

/// Returns the path of Wasmtime's command-line tool.
///
/// # Errors
/// Fails if the tool is not installed. The error contains the command that installs it.
pub fn wasmtime_path() -> Result<PathBuf, String> {
    there("tools/wasmtime/wasmtime_cli/wasmtime".into(), "not installed", &format!("{PROGRAMS} wasmtime"))
}

fn there(path: String, lacks: &str, line: &str) -> Result<PathBuf, String> {
    let path = target().join(path);
    if path.is_file() { Ok(path) } else { Err(format!("{lacks}: {line}")) }
}

/// Creates a trial that needs a program. If the program is not built, the trial is ignored and shows the command that
/// builds it. In CI, which has all tools, the trial fails instead.
pub fn program_trial(
    name: impl Into<String>,
    program: &str,
    runner: impl FnOnce(&[u8]) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    trial_with(name, program_path(program), move |path| runner(&fs::read(path)?))
}

/// Like [`program_trial`], but for a trial that needs another product of the build scripts.
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

/// Creates a single trial in place of all trials that need a missing component or tool.
pub fn missing_trial(name: impl Into<String>, line: String) -> Trial {
    let failed = line.clone();
    Trial::test(name, move || Err(failed.into())).with_kind(line).with_ignored_flag(env::var_os("CI").is_none())
}
