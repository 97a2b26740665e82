//! Grants and limits of a component: for its own code, and for its use of the sandbox.

use std::path::PathBuf;

use clap::Args;
use glovebox::escaped;
use glovebox_component_host::Quotas;
use glovebox_component_runner::{AppConfig, AppLimits, CompileLimits, Compiler, Directory, Input, Output};

use super::{bytes, count, count_u32};
use crate::{
    own_program,
    terminal::{HintedError, OrHint as _},
};

/// Grants and limits of the component's own code. Scripts have the limits of the policy.
#[derive(Args, Debug, Default)]
pub(crate) struct AppArgs {
    /// Directory that the component may open, read-only with `:ro`; the amount written is not limited; repeatable
    #[arg(long, value_name = "HOST[::GUEST][:ro]", help_heading = "Component")]
    dir: Vec<Directory>,

    /// Environment variable for the component; NAME alone passes this process's value; repeatable. No other variables
    /// are passed
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "Component")]
    env: Vec<String>,

    /// Allow TCP, UDP and DNS lookups
    ///
    /// The component can then connect to everything that this machine can reach, including itself and private
    /// networks, and listen on this machine's ports.
    #[arg(long, help_heading = "Component")]
    network: bool,

    /// Fuel for the component's own code, about one unit per WebAssembly operator [default: 100000000000]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Component limits")]
    app_fuel: Option<u64>,

    /// Memory for the component's own code: linear memories, tables, and the host's data for its instances [default:
    /// 536870912]
    #[arg(long, value_name = "N", value_parser = bytes, help_heading = "Component limits")]
    app_memory_bytes: Option<u64>,

    /// Wall-clock milliseconds for the component's whole run, including scripts and waiting [default: 600000]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Component limits")]
    app_timeout_ms: Option<u64>,

    /// Maximum number of open files, streams, sockets and timers [default: 512]
    #[arg(long, value_name = "N", value_parser = count_u32, help_heading = "Component limits", hide_short_help = true)]
    app_open_handles: Option<u32>,
}

/// Limits on the child process that compiles a component. Cached components are not compiled.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Component limits")]
pub(crate) struct CompileArgs {
    /// Memory for compiling the component, and for each component in --tools [default: 4294967296]
    #[arg(long, value_name = "N", value_parser = bytes, hide_short_help = true)]
    compile_memory_bytes: Option<u64>,

    /// Wall-clock milliseconds for compiling the component, and for each component in --tools [default: 300000]
    #[arg(long, value_name = "N", value_parser = count, hide_short_help = true)]
    compile_timeout_ms: Option<u64>,
}

/// Quotas for the component's use of the sandbox.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Quotas")]
pub(crate) struct QuotaArgs {
    /// Maximum number of open sessions [default: 64]
    #[arg(long, value_name = "N", value_parser = count_u32)]
    max_sessions: Option<u32>,

    /// Maximum number of executions in total, including validations and variable accesses [default: 1000000]
    #[arg(long, value_name = "N", value_parser = count)]
    max_executions: Option<u64>,

    /// Maximum fuel of all scripts in total [default: 100000000000000]
    #[arg(long, value_name = "N", value_parser = count)]
    max_fuel: Option<u64>,

    /// Maximum number of concurrent stepped executions [default: 16]
    #[arg(long, value_name = "N", value_parser = count_u32, hide_short_help = true)]
    max_started: Option<u32>,

    /// Maximum number of calls of version 0.3.0 that run concurrently; further calls wait [default: 16]
    #[arg(long, value_name = "N", value_parser = count_u32, hide_short_help = true)]
    max_calls_at_once: Option<u32>,

    /// Maximum bytes held for the component: files, hibernated sessions, output [default: 268435456]
    #[arg(long, value_name = "N", value_parser = bytes, hide_short_help = true)]
    max_held_bytes: Option<u64>,

    /// Maximum number of handles to sessions, executions, files and blobs [default: 10000]
    #[arg(long, value_name = "N", value_parser = count_u32, hide_short_help = true)]
    max_handles: Option<u32>,
}

/// Components that implement tools for scripts.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolsArgs {
    /// Component that exports `glovebox:sandbox/tools`; repeatable. Scripts call its tools as `tools.NAME(…)`
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    /// Like --dir, but for the tools; repeatable
    #[arg(long, requires = "tools", value_name = "HOST[::GUEST][:ro]")]
    tools_dir: Vec<Directory>,

    /// Like --env, but for the tools; repeatable
    #[arg(long, requires = "tools", value_name = "NAME[=VALUE]")]
    tools_env: Vec<String>,

    /// Like --network, but for the tools
    #[arg(long, requires = "tools")]
    tools_network: bool,
}

impl AppArgs {
    /// Returns the component's configuration, without its arguments.
    pub(crate) fn config(&self) -> anyhow::Result<AppConfig> {
        let mut config = AppConfig::default();
        let limits = &mut config.limits;
        limits.fuel = self.app_fuel.unwrap_or(limits.fuel);
        limits.memory_bytes = self.app_memory_bytes.unwrap_or(limits.memory_bytes);
        limits.timeout_ms = self.app_timeout_ms.unwrap_or(limits.timeout_ms);
        let handles = self.app_open_handles.and_then(|max| max.try_into().ok());
        limits.wasi_handles = handles.unwrap_or(limits.wasi_handles);
        config.directories.clone_from(&self.dir);
        config.env = variables(&self.env)?;
        config.network = self.network;
        (config.stdin, config.stdout, config.stderr) = (Input::Inherit, Output::Inherit, Output::Inherit);
        Ok(config)
    }
}

impl CompileArgs {
    fn limits(&self) -> CompileLimits {
        let mut limits = CompileLimits::default();
        limits.memory_bytes = self.compile_memory_bytes.unwrap_or(limits.memory_bytes);
        limits.timeout_ms = self.compile_timeout_ms.unwrap_or(limits.timeout_ms);
        limits
    }

    /// Returns the compiler that runs `glovebox parse-component`, which converts a component's text to a binary.
    pub(crate) fn parser(&self) -> Compiler {
        Compiler::new(own_program(), ["parse-component"]).limits(self.limits())
    }

    /// Returns the compiler that runs `glovebox compile-component`.
    pub(crate) fn compiler(&self) -> Compiler {
        Compiler::new(own_program(), ["compile-component"]).limits(self.limits())
    }
}

impl QuotaArgs {
    pub(crate) fn quotas(&self) -> Quotas {
        let mut quotas = Quotas::default();
        quotas.sessions = self.max_sessions.unwrap_or(quotas.sessions);
        quotas.executions = self.max_executions.unwrap_or(quotas.executions);
        quotas.fuel = self.max_fuel.unwrap_or(quotas.fuel);
        quotas.started = self.max_started.unwrap_or(quotas.started);
        quotas.calls_at_once = self.max_calls_at_once.unwrap_or(quotas.calls_at_once);
        quotas.held_bytes = self.max_held_bytes.unwrap_or(quotas.held_bytes);
        quotas.handles = self.max_handles.unwrap_or(quotas.handles);
        quotas
    }
}

impl ToolsArgs {
    /// Returns the tools' configuration. The tools' output goes to standard error, because standard output is for the
    /// component only.
    pub(crate) fn config(&self) -> anyhow::Result<AppConfig> {
        let mut config = AppConfig::default();
        config.limits = AppLimits::for_tools();
        config.directories.clone_from(&self.tools_dir);
        config.env = variables(&self.tools_env)?;
        config.network = self.tools_network;
        (config.stdout, config.stderr) = (Output::InheritStderr, Output::Inherit);
        Ok(config)
    }
}

fn variables(flags: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    flags.iter().map(|flag| variable(flag)).collect()
}

fn variable(flag: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
    if name.is_empty() {
        return Err(HintedError::new(
            format!("`{}` is not a valid environment variable", escaped(flag)),
            "write it as `NAME` or `NAME=VALUE`",
        )
        .into());
    }
    let value = match value {
        Some(value) => value.to_owned(),
        None => std::env::var(name).or_hint(
            || format!("cannot pass on the environment variable `{}`", escaped(name)),
            &format!("set a value: `{}=VALUE`", escaped(name)),
        )?,
    };
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use glovebox_component_host::Quotas;
    use glovebox_component_runner::{AppLimits, CompileLimits};

    use super::{AppArgs, CompileArgs, QuotaArgs, variable};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        app: AppArgs,
        #[command(flatten)]
        quotas: QuotaArgs,
        #[command(flatten)]
        compile: CompileArgs,
    }

    #[test]
    fn the_help_states_the_defaults() {
        let (limits, quotas, compile) = (AppLimits::default(), Quotas::default(), CompileLimits::default());
        let defaults = [
            ("app-fuel", limits.fuel),
            ("app-memory-bytes", limits.memory_bytes),
            ("app-timeout-ms", limits.timeout_ms),
            ("app-open-handles", limits.wasi_handles as u64),
            ("compile-memory-bytes", compile.memory_bytes),
            ("compile-timeout-ms", compile.timeout_ms),
            ("max-sessions", quotas.sessions.into()),
            ("max-executions", quotas.executions),
            ("max-fuel", quotas.fuel),
            ("max-started", quotas.started.into()),
            ("max-calls-at-once", quotas.calls_at_once.into()),
            ("max-held-bytes", quotas.held_bytes),
            ("max-handles", quotas.handles.into()),
        ];
        let command = Line::command();
        for (flag, default) in defaults {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "--{flag}: {help}");
        }
    }

    #[test]
    fn each_flag_sets_its_limit() {
        let flags = ["--app-fuel", "--app-memory-bytes", "--app-timeout-ms", "--app-open-handles", "--max-sessions"];
        let flags = flags.into_iter().chain(["--max-executions", "--max-fuel", "--max-started", "--max-held-bytes"]);
        let line: Vec<String> = flags
            .chain(["--max-handles", "--compile-memory-bytes", "--compile-timeout-ms", "--max-calls-at-once"])
            .zip(1..)
            .flat_map(|(flag, at)| [flag.to_owned(), at.to_string()])
            .collect();
        let line = Line::try_parse_from([String::from("x")].into_iter().chain(line)).unwrap();
        let limits = line.app.config().unwrap().limits;
        assert_eq!((limits.fuel, limits.memory_bytes, limits.timeout_ms, limits.wasi_handles), (1, 2, 3, 4));
        let quotas = line.quotas.quotas();
        assert_eq!((quotas.sessions, quotas.executions, quotas.fuel), (5, 6, 7));
        assert_eq!((quotas.started, quotas.held_bytes, quotas.handles, quotas.calls_at_once), (8, 9, 10, 13));
        let compile = line.compile.limits();
        assert_eq!((compile.memory_bytes, compile.timeout_ms), (11, 12));
    }

    #[test]
    fn environment_variable_has_a_value_or_is_inherited() {
        assert_eq!(variable("A=b=c").unwrap(), ("A".into(), "b=c".into()));
        assert_eq!(variable("A=").unwrap(), ("A".into(), String::new()));
        assert_eq!(variable("PATH").unwrap().1, std::env::var("PATH").unwrap());
        for wrong in ["", "=x", "GLOVEBOX_NO_SUCH_VARIABLE"] {
            assert!(variable(wrong).is_err(), "{wrong}");
        }
    }
}
