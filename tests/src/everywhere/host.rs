//! The hosts that run components.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use glovebox_component_host::SandboxHost;
use glovebox_component_runner::{AppConfig, Applications, Input, Output};

use crate::{
    engine,
    process::child_command,
    programs::{program_path, wasmtime_path},
};

/// A component host, with its default stack size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Wasmtime's command-line tool.
    Wasmtime,
    /// Node.js, through jco.
    Node,
    /// Python, through the `wasmtime` package.
    WasmtimePy,
    /// This project's own application runner.
    Own,
}

impl Host {
    /// All hosts.
    pub const ALL: [Self; 4] = [Self::Wasmtime, Self::Node, Self::WasmtimePy, Self::Own];

    /// Returns the host's name as used in trial names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasmtime => "wasmtime",
            Self::Node => "node",
            Self::WasmtimePy => "wasmtime-py",
            Self::Own => "run-component",
        }
    }

    /// Returns the host's name as shown in the generated documentation.
    pub fn title(self) -> &'static str {
        match self {
            Self::Wasmtime => "`wasmtime` 49",
            Self::Node => "Node.js 24",
            Self::WasmtimePy => "wasmtime-py 50",
            Self::Own => "`glovebox run-component`",
        }
    }

    /// Checks that this host and the program are installed.
    ///
    /// # Errors
    /// Fails if a component or tool is missing. The error contains the command that builds it.
    pub fn ready(self, program: &str) -> Result<(), String> {
        self.command(program).map(drop)
    }

    /// Returns a command that calls an export of a component with Wasmtime's command-line tool: `--invoke CALL`, where
    /// `CALL` is in WAVE syntax.
    ///
    /// # Errors
    /// Fails if the tool is missing. The error contains the command that installs it.
    pub fn invoke(component: &Path, call: &str) -> Result<Command, String> {
        Self::invoke_with(component, call, &[])
    }

    /// Like [`invoke`](Self::invoke), but with additional options of `wasmtime run`.
    ///
    /// # Errors
    /// Same as [`invoke`](Self::invoke).
    pub fn invoke_with(component: &Path, call: &str, options: &[&str]) -> Result<Command, String> {
        let mut command = wasmtime()?;
        command.args(options).args(["--invoke", call]).arg(component);
        Ok(command)
    }

    /// Returns a Node.js command that runs in the directory of the test programs for Node.js.
    ///
    /// # Errors
    /// Fails if Node.js is missing. The error contains the command that installs it.
    pub fn node() -> Result<Command, String> {
        let mut command = Command::new(tool("node", "node/node_modules/.bin/node")?);
        command.current_dir(target().join("tools/node"));
        Ok(command)
    }

    /// Returns a command that runs a program built by `programs/build`, with this process's standard streams. Compiled
    /// code is cached.
    ///
    /// # Errors
    /// Fails if the program or the host is missing. The error contains the command that builds it.
    pub fn command(self, program: &str) -> Result<Command, String> {
        let component = program_path(program)?;
        let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts");
        match self {
            Self::Wasmtime => {
                let mut command = wasmtime()?;
                command.arg(component);
                Ok(command)
            }
            Self::Node => {
                let transpiled = target().join("programs-node").join(program);
                let mut command = Self::node()?;
                command.arg("command.mjs").arg(built(transpiled, program)?);
                Ok(command)
            }
            Self::WasmtimePy => {
                tool("wasmtime-py", "wasmtime-py/wasmtime")?;
                let mut command = Command::new("python3");
                command.env("PYTHONPATH", target().join("tools/wasmtime-py"));
                command.arg(hosts.join("python/command.py")).arg(cache_config()).arg(component);
                Ok(command)
            }
            Self::Own => Ok(child_command(&format!("run {program}"))),
        }
    }
}

/// Returns Wasmtime's command-line tool, with its options but without a component.
fn wasmtime() -> Result<Command, String> {
    let mut command = Command::new(wasmtime_path()?);
    let cache = format!("cache-config={}", cache_config().display());
    // Makes the trap the first line of the message, instead of forty lines of Wasmtime's own backtrace.
    command.env("RUST_BACKTRACE", "0").args(["run", "-C", "cache=y", "-C", &cache]);
    Ok(command)
}

/// Returns the path of `target`. It is absolute, because child processes may run in another directory.
fn target() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    fs::canonicalize(&target).unwrap_or(target)
}

/// Returns the path of a tool that `programs/build` installs.
fn tool(name: &str, path: &str) -> Result<PathBuf, String> {
    let path = target().join("tools").join(path);
    if path.exists() { Ok(path) } else { Err(format!("not installed; run `tests/programs/build {name}`")) }
}

fn built(path: PathBuf, program: &str) -> Result<PathBuf, String> {
    if path.exists() { Ok(path) } else { Err(format!("not built; run `tests/programs/build {program}`")) }
}

/// Returns the path of the configuration for Wasmtime's code cache. The tool and the Python package need the cache,
/// because compiling the provider takes half a minute.
fn cache_config() -> PathBuf {
    let cache = target().join("everywhere-cache");
    fs::create_dir_all(&cache).expect("a directory in `target` can be created");
    let config = cache.join("config.toml");
    let text = format!("[cache]\ndirectory = {:?}\n", cache.join("compiled"));
    // Writes a new file and renames it, so that concurrent test programs never read an incomplete file.
    let beside = cache.join(format!("config.{}", std::process::id()));
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, &config)).expect("a file in `target` can be written");
    config
}

/// Runs a program built by `programs/build` in this project's own host, with this process's standard streams. `main`
/// calls this function in a [`Host::Own`] process, whose task is `run PROGRAM`.
///
/// # Errors
/// Fails if the program is missing, cannot be compiled, or does not succeed.
pub fn run_here(program: &str) -> Result<(), String> {
    let bytes = program_path(program).and_then(|path| fs::read(path).map_err(|error| error.to_string()))?;
    let applications = Applications::new(engine()).map_err(|error| error.to_string())?;
    let application = applications.load_bytes(program, &bytes).map_err(|error| error.to_string())?;
    // The program does not import the sandbox, so this host's sandbox stays unused.
    let host = SandboxHost::builder(engine()).build().map_err(|error| error.to_string())?;
    let mut config = AppConfig::default();
    config.limits.fuel = u64::MAX;
    config.limits.timeout_ms = 3_600_000;
    config.limits.memory_bytes = 8 << 30;
    config.stdin = Input::Inherit;
    config.stdout = Output::Inherit;
    config.stderr = Output::InheritStderr;
    let ended = application.run(&host, &config).map_err(|error| error.to_string())?;
    if ended.outcome.is_success() { Ok(()) } else { Err(ended.outcome.describe()) }
}
