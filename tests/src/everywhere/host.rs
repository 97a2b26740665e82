//! The hosts of components.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use glovebox::component::SandboxHost;
use glovebox_component_runner::{AppConfig, Applications, Input, Output};

use crate::{
    engine,
    process::child_command,
    programs::{program_path, wasmtime_path},
};

/// A host of components, each with its default stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// The command-line tool of Wasmtime.
    Wasmtime,
    /// Node.js, through jco.
    Node,
    /// Python, through Wasmtime's package for it.
    WasmtimePy,
    /// The project's own runner of applications.
    Own,
}

impl Host {
    /// All hosts.
    pub const ALL: [Self; 4] = [Self::Wasmtime, Self::Node, Self::WasmtimePy, Self::Own];

    /// Returns the name in trials.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasmtime => "wasmtime",
            Self::Node => "node",
            Self::WasmtimePy => "wasmtime-py",
            Self::Own => "run-component",
        }
    }

    /// Returns the host's name in the generated documentation.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Wasmtime => "`wasmtime` 49",
            Self::Node => "Node.js 24",
            Self::WasmtimePy => "wasmtime-py 50",
            Self::Own => "`glovebox run-component`",
        }
    }

    /// Checks that everything for running a command in this host exists.
    ///
    /// # Errors
    /// The command that builds the missing part.
    pub fn ready(self, program: &str) -> Result<(), String> {
        self.command(program).map(drop)
    }

    /// Returns a command that calls an export of a component with the command-line tool of Wasmtime: `--invoke CALL`,
    /// in the language WAVE.
    ///
    /// # Errors
    /// The command that installs it.
    pub fn invoke(component: &Path, call: &str) -> Result<Command, String> {
        Self::invoke_with(component, call, &[])
    }

    /// Like [`invoke`](Self::invoke), with options of `wasmtime run`.
    ///
    /// # Errors
    /// The command that installs it.
    pub fn invoke_with(component: &Path, call: &str, options: &[&str]) -> Result<Command, String> {
        let mut command = wasmtime()?;
        command.args(options).args(["--invoke", call]).arg(component);
        Ok(command)
    }

    /// Returns a Node.js command, in the directory with the test programs for Node.js.
    ///
    /// # Errors
    /// The command that installs it.
    pub fn node() -> Result<Command, String> {
        let mut command = Command::new(tool("node", "node/node_modules/.bin/node")?);
        command.current_dir(target().join("tools/node"));
        Ok(command)
    }

    /// Returns a command that runs a program of `programs/build` with this process's standard streams. Compiled code is
    /// cached.
    ///
    /// # Errors
    /// The command that builds the missing part.
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

/// Returns the command-line tool of Wasmtime, without a component.
fn wasmtime() -> Result<Command, String> {
    let mut command = Command::new(wasmtime_path()?);
    let cache = format!("cache-config={}", cache_config().display());
    // Makes the trap the first line of the message, instead of forty lines of Wasmtime's own stack.
    command.env("RUST_BACKTRACE", "0").args(["run", "-C", "cache=y", "-C", &cache]);
    Ok(command)
}

/// Returns an absolute path, because a process may have another working directory.
fn target() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    fs::canonicalize(&target).unwrap_or(target)
}

/// Returns the path of a tool that `programs/build` installs.
fn tool(name: &str, path: &str) -> Result<PathBuf, String> {
    let path = target().join("tools").join(path);
    if path.exists() { Ok(path) } else { Err(format!("not installed: tests/programs/build {name}")) }
}

fn built(path: PathBuf, program: &str) -> Result<PathBuf, String> {
    if path.exists() { Ok(path) } else { Err(format!("not built: tests/programs/build {program}")) }
}

/// Returns the configuration of Wasmtime's code cache, for the tool and the Python package: compiling the provider
/// takes half a minute.
fn cache_config() -> PathBuf {
    let cache = target().join("everywhere-cache");
    fs::create_dir_all(&cache).expect("a directory in `target` can be made");
    let config = cache.join("config.toml");
    let text = format!("[cache]\ndirectory = {:?}\n", cache.join("compiled"));
    // Writes a new file and renames it, so that concurrent test programs always read a complete file.
    let beside = cache.join(format!("config.{}", std::process::id()));
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, &config)).expect("a file in `target` can be written");
    config
}

/// Runs a program of `programs/build` in this project's own host, with this process's standard streams. A process of
/// [`Host::Own`] calls this function when its `main` gets the task `run PROGRAM`.
///
/// # Errors
/// The reason for the failure.
pub fn run_here(program: &str) -> Result<(), String> {
    let bytes = program_path(program).and_then(|path| fs::read(path).map_err(|error| error.to_string()))?;
    let applications = Applications::new(engine()).map_err(|error| error.to_string())?;
    let application = applications.load_bytes(program, &bytes).map_err(|error| error.to_string())?;
    // The program imports no sandbox, so this one stays unused.
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
