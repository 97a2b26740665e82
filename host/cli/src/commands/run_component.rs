//! `glovebox run-component`: runs a component that uses the sandbox.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
};

use anyhow::Context;
use clap::Args;
use glovebox::{CompileError, Resource, escaped, escaped_text};
use glovebox_component_host::{SandboxHost, Usage};
use glovebox_component_runner::{
    AppOutcome, AppReport, Application, Applications, Export, InvokeError, LoadError, RunError, ToolsComponent,
    transform_stdin,
};
use serde::Serialize;

use crate::{
    args::{AppArgs, CompileArgs, GlobalArgs, GrantArgs, QuotaArgs, ToolsArgs},
    engine::{Host, Pooling},
    interrupt,
    output::show_value,
    script_packages::add_allowed,
    terminal::{HintedError, OrHint as _, err_json, note},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox run-component agent.wasm --task 'sum the numbers'
  glovebox run-component --dir data::/data:ro --env API_KEY agent.wasm
  glovebox run-component --tools search.wasm --tools-network agent.wasm
  glovebox run-component --fuel 1_000_000_000 --timeout-ms 2000 --max-executions 100 agent.wasm
  glovebox run-component --invoke 'summarise(\"a text\", {words: 100})' library.wasm

APP.wasm is a component in binary format, or in text format with the extension .wat. A command (it exports `wasi:cli/run`) \
receives the arguments after its name, and standard input, output and error. It may import `glovebox:sandbox`, whose WIT is in \
`wit/`, and WASI 0.2. An asynchronous component may import the draft in `wit/0.3`, and export `wasi:cli/run` of WASI 0.3. \
Components can use WASI clocks, timers and random numbers, and files, environment and network only as granted by flags.

There are three kinds of limits. The policy (--fuel, --timeout-ms, …) limits each script. The quotas (--max-…) limit all scripts \
together. The component's own limits (--app-…) apply to its own code.

The exit code is the component's own, or one of these:
  0    returned                     124  out of time (--app-timeout-ms)
  1    returned an error            137  out of fuel or memory (--app-fuel, --app-memory-bytes)
  134  trapped                      130  cancelled with Ctrl-C (twice: killed)
                                    125  glovebox itself failed (2: wrong flags)

With --json, the last line on standard error is an object with these keys: success, outcome, exit_code, value, fuel_consumed, \
memory_bytes, duration_ms, sandbox (sessions, started, executions, fuel, held_bytes, handles: the usage of its quotas at the end).";

/// Run a component that uses the sandbox
///
/// The component is as untrusted as its scripts: it has its own limits, and only the access to this machine that
/// flags grant. It is compiled once, in a child process, and stored in the cache; a large component takes a while.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, override_usage = "glovebox run-component [OPTIONS] APP.wasm [ARGS]...")]
pub(crate) struct RunComponentArgs {
    /// Component to run, followed by its own arguments and flags
    #[arg(value_name = "APP.wasm", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,

    /// Call an export with arguments in WAVE (WebAssembly Value Encoding), and print its result
    ///
    /// Examples: 'add(1, 2)', 'ns:pkg/iface@0.1.0.add({a: 1})'. Version, package and interface are optional if the rest
    /// is unambiguous. Without this flag, the component runs as a command.
    #[arg(long, value_name = "CALL")]
    invoke: Option<String>,

    /// Report outcome and resource usage as JSON, in the last line on standard error
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tools: ToolsArgs,

    #[command(flatten)]
    app: AppArgs,

    #[command(flatten)]
    compile: CompileArgs,

    #[command(flatten)]
    quotas: QuotaArgs,

    #[command(flatten)]
    granted: GrantArgs,
}

/// Machine-readable report of a run.
#[derive(Serialize)]
struct Report<'a> {
    success: bool,
    outcome: &'a AppOutcome,
    exit_code: i32,
    value: Option<&'a str>,
    fuel_consumed: u64,
    memory_bytes: u64,
    duration_ms: f64,
    sandbox: &'a Usage,
}

pub(crate) fn run(global: &GlobalArgs, args: &RunComponentArgs) -> anyhow::Result<i32> {
    let policy = args.granted.resolve()?;
    add_allowed(&policy)?;
    let mut config = args.app.config()?;
    let component = args.command.first().map(Path::new).context("no component given; name a file")?;
    config.args = args.command.iter().map(argument).collect::<anyhow::Result<_>>()?;
    config.cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let applications = Applications::new(&host.engine).map_err(load_hint)?.compiler(args.compile.compiler());

    let mut builder = SandboxHost::builder(&host.engine).policy(policy).quotas(args.quotas.quotas());
    for path in &args.tools.tools {
        let mut tools = args.tools.config()?;
        tools.cancel = config.cancel.clone();
        for tool in host.with_progress(|_| load_tools(&applications, path, &args.compile, tools.clone()))?.tools() {
            builder = builder.tool(tool);
        }
    }
    let sandbox = builder.build().context("cannot set up the sandbox")?;
    let application = host.with_progress(|_| load(&applications, component, &args.compile))?;
    let ended = interrupt::run_guest(|| match &args.invoke {
        Some(call) => application.invoke(call, &sandbox, &config).map_err(invoke_hint),
        None => application.run(&sandbox, &config).map_err(run_hint),
    })?;
    // Print the component's output before the report. A component that blocks in a write holds the lock on standard
    // output, so flushing would also block.
    let flushed = if ended.is_left_behind { Ok(()) } else { io::stdout().flush() };
    if let Some(value) = &ended.value {
        show_value(value)?;
    }
    explain(&ended.outcome);
    if args.json {
        err_json(&report(&ended))?;
    }
    flushed.context("cannot write the component's output")?;
    Ok(ended.outcome.exit_code())
}

/// Returns an argument as text, which WASI requires.
fn argument(argument: &OsString) -> anyhow::Result<String> {
    argument.clone().into_string().map_err(|argument| {
        let message = format!("argument `{}` is not valid UTF-8", escaped(&argument));
        HintedError::new(message, "pass only UTF-8 arguments to a component").into()
    })
}

fn load(applications: &Applications, path: &Path, limits: &CompileArgs) -> anyhow::Result<Application> {
    let loaded = match text(path, limits)? {
        Some(bytes) => applications.load_bytes(path.display().to_string(), &bytes),
        None => applications.load(path),
    };
    loaded.map_err(load_hint)
}

fn load_tools(
    applications: &Applications,
    path: &Path,
    limits: &CompileArgs,
    config: glovebox_component_runner::AppConfig,
) -> anyhow::Result<ToolsComponent> {
    let loaded = match text(path, limits)? {
        Some(bytes) => ToolsComponent::load_bytes(applications, path.display().to_string(), &bytes, config),
        None => ToolsComponent::load(applications, path, config),
    };
    loaded.map_err(load_hint)
}

/// Converts a component's text on standard input to a binary. Runs in a child process: parsing needs ninety times the
/// text's size in memory. Returns the exit code.
pub(crate) fn parse_stdin() -> i32 {
    transform_stdin(|text| match wat::parse_bytes(&text) {
        Ok(binary) => Ok(binary.into_owned()),
        Err(error) => Err(error.to_string()),
    })
}

/// Converts a component in text format to a binary. Returns `None` if the file is not a `.wat` file.
fn text(path: &Path, limits: &CompileArgs) -> anyhow::Result<Option<Vec<u8>>> {
    /// Maximum length of the text in bytes. Larger components are built by compilers, which write binaries.
    const TEXT_BYTES: u64 = 16 << 20;
    if path.extension().is_none_or(|extension| extension != "wat") {
        return Ok(None);
    }
    let file = File::open(path).or_hint(|| format!("cannot read `{}`", escaped(path)), "check the path")?;
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read `{}`", escaped(path)))?;
    if bytes.len() as u64 > TEXT_BYTES {
        let message = format!("`{}` is larger than {TEXT_BYTES} bytes", escaped(path));
        return Err(HintedError::new(message, "convert it to a binary, for example with `wasm-tools parse`").into());
    }
    let binary = limits.parser().compile(&bytes).map_err(|error| match error {
        CompileError::Compile(words) => anyhow::Error::msg(words),
        error => error.into(),
    });
    Ok(Some(binary.with_context(|| format!("`{}` is not a component in text format", escaped(path)))?))
}

/// Reports the reason why the component ended, and the flag that raises an exceeded limit.
fn explain(outcome: &AppOutcome) {
    let flag = match outcome {
        AppOutcome::Exhausted { resource: Resource::Fuel, .. } => "; raise the limit with --app-fuel N",
        AppOutcome::Exhausted { resource: Resource::Time, .. } => "; raise the limit with --app-timeout-ms N",
        AppOutcome::Exhausted { .. } => "; raise the limit with --app-memory-bytes N",
        AppOutcome::Cancelled | AppOutcome::Trapped { .. } => "",
        // The component's own output explains the other outcomes.
        _ => return,
    };
    note(&format!("{}{flag}", outcome.describe()));
}

fn report(ended: &AppReport) -> Report<'_> {
    Report {
        success: ended.outcome.is_success(),
        outcome: &ended.outcome,
        exit_code: ended.outcome.exit_code(),
        value: ended.value.as_deref(),
        fuel_consumed: ended.fuel_consumed,
        memory_bytes: ended.memory_bytes,
        duration_ms: ended.duration.as_secs_f64() * 1000.0,
        sandbox: &ended.sandbox,
    }
}

fn load_hint(error: LoadError) -> anyhow::Error {
    let hint = match &error {
        LoadError::Read { .. } => "check the path; put flags of `glovebox run-component` before it".to_owned(),
        LoadError::NotWasm { .. } => "use a component; a file in the text format needs the extension .wat".to_owned(),
        LoadError::CoreModule { .. } => "convert it with `wasm-tools component new`, with `--adapt` if it imports \
                                         `wasi_snapshot_preview1`, or compile for a component target such as \
                                         wasm32-wasip2"
            .to_owned(),
        LoadError::MissingImport { import, .. } => import_hint(import),
        LoadError::Compile { source: CompileError::Compiler(_), .. } => {
            "if you trust it, raise --compile-memory-bytes or --compile-timeout-ms".to_owned()
        }
        _ => return error.into(),
    };
    // The report omits the cause, because the error has the same message.
    HintedError::new(error.to_string(), hint).caused_by(error).into()
}

/// Returns a hint for a missing import.
fn import_hint(import: &str) -> String {
    if import.starts_with("glovebox:sandbox/") {
        return "this glovebox provides `glovebox:sandbox@0.2` and `glovebox:sandbox@0.3` to components, but no sandbox \
                to tools; compile the component for one of these versions"
            .into();
    }
    if import.starts_with("wasi:") {
        return "the supported WASI interfaces are cli, clocks, filesystem, io, random and sockets, version 0.2; compile \
                the component for them, or compose it with a component that provides the missing ones"
            .into();
    }
    "compose it with a component that exports this interface: `wac plug --plug provider.wasm app.wasm`".into()
}

fn run_hint(error: RunError) -> anyhow::Error {
    match &error {
        RunError::NotACommand { exports, .. } => HintedError::new(
            error.to_string(),
            format!("call one of its exports with --invoke{}", format_exports(exports)),
        )
        .into(),
        RunError::Directory { .. } => HintedError::new(error.to_string(), "check the path given to --dir").into(),
        _ => error.into(),
    }
}

fn invoke_hint(error: InvokeError) -> anyhow::Error {
    match error {
        InvokeError::NoSuchFunction { ref exports, .. } => {
            HintedError::new(error.to_string(), format!("it exports{}", format_exports(exports))).into()
        }
        InvokeError::Ambiguous { .. } => HintedError::new(error.to_string(), "write the full name").into(),
        InvokeError::Run(error) => run_hint(error),
        _ => error.into(),
    }
}

/// Maximum number of exports in an error message.
const MAX_LISTED: usize = 50;

/// Returns functions with their types, one per line.
fn format_exports(exports: &[Export]) -> String {
    if exports.is_empty() {
        return " no functions".into();
    }
    let line = |export: &Export| {
        let not = if export.is_invocable { "" } else { "  (cannot be invoked)" };
        format!("\n    {}{not}", escaped_text(&export.signature))
    };
    let left = exports.len().saturating_sub(MAX_LISTED);
    let more = if left > 0 { format!("\n    … and {left} more") } else { String::new() };
    format!(":{}{more}", exports.iter().take(MAX_LISTED).map(line).collect::<String>())
}
