//! `glovebox weave`: makes a component that contains the sandbox, for any component host.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use glovebox::{PreparedModule, RuntimeInfo, escaped};
use glovebox_runtimes::{Digest, Progress as _};
use glovebox_weave::{Guest, GuestLibrary, WeaveOptions, WovenComponent, weave};
use serde::Serialize;

use crate::{
    args::GlobalArgs,
    engine::{Host, Pooling},
    file, interrupt,
    terminal::{HintedError, OrHint as _, bytes, out_report},
};

const AFTER_HELP: &str = "\
Examples:
  guest-shims/component/build                          build the shim and weave every provider
  glovebox weave python-3.12 --output glovebox-python.wasm
  glovebox weave javascript --shim shim.wasm --output glovebox-javascript.wasm --json
  glovebox weave --output glovebox.wasm                Python and JavaScript in one
  glovebox weave python-3.15-data --output data.wasm   Python with numpy and pandas: 200 MB, for hosts that support Wasm exceptions
  glovebox weave javascript --contract 0.3 --output glovebox-javascript-0.3.wasm
  glovebox weave python-3.12 --http --output box.wasm  answer HTTP requests: `wasmtime serve -S cli … box.wasm`

The component exports the interface `glovebox:sandbox/sandbox` and runs in any component host: limits and fuel metering are \
part of its code. It does not contain the Python packages. The same shim and interpreters produce the same bytes.";

/// The path to which `guest-shims/component/build` writes the shim.
const SHIM: &str = "target/providers/shim.wasm";
/// The path of the shim for version 0.3.0 of the contract.
const CONCURRENT_SHIM: &str = "target/providers/shim-0.3.wasm";
/// The path of the shim for providers without imports.
const CLOSED_SHIM: &str = "target/providers/shim-closed.wasm";
/// The path of the HTTP adapter.
const HTTP: &str = "target/providers/http.wasm";

/// Make a provider component from interpreters, for use in any component host
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WeaveArgs {
    /// Names or aliases, as `glovebox runtimes list` prints them [default: for each language, an interpreter that makes
    /// a small component]
    #[arg(value_name = "RUNTIME")]
    names: Vec<String>,

    /// Version of the contract that the component exports; version 0.3 needs a host with asynchronous functions and
    /// WASI 0.3
    #[arg(long, value_name = "VERSION", default_value = "0.2", conflicts_with = "shim")]
    contract: Contract,

    /// Core module that exports the interface, made by `guest-shims/component/build` [default:
    /// target/providers/shim.wasm; with --contract 0.3 target/providers/shim-0.3.wasm; with --http
    /// target/providers/shim-closed.wasm]
    #[arg(long, value_name = "FILE")]
    shim: Option<PathBuf>,

    /// HTTP adapter to compose with the provider; the component then answers requests in hosts such as `wasmtime
    /// serve`, Spin and wasmCloud
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = HTTP)]
    http: Option<PathBuf>,

    /// File for the component
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Also write the component's core module to this file
    #[arg(long, value_name = "FILE")]
    core: Option<PathBuf>,

    /// Limit on the estimated native stack usage of nested calls in an interpreter; the default fits the default stack
    /// sizes of Wasmtime and V8
    #[arg(long, value_name = "BYTES", default_value_t = WeaveOptions::default().stack_bytes)]
    stack_bytes: u32,

    /// Do not meter fuel, to measure its cost; scripts can then run forever
    #[arg(long, hide = true)]
    unmetered: bool,

    /// Print statistics as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// A version of the contract.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Contract {
    #[value(name = "0.2")]
    V02,
    #[value(name = "0.3")]
    V03,
}

/// Statistics of the component.
#[derive(Debug, Serialize)]
struct WovenJson<'a> {
    file: String,
    runtimes: Vec<&'a str>,
    bytes: usize,
    sha256: String,
    code_bytes: usize,
    data_bytes: usize,
    stack_bytes: u32,
    imports: &'a [String],
    exports: &'a [String],
}

pub(crate) fn run(global: &GlobalArgs, args: &WeaveArgs) -> anyhow::Result<i32> {
    interrupt::install()?;
    let usual = match args.contract {
        Contract::V02 if args.http.is_some() => CLOSED_SHIM,
        Contract::V02 => SHIM,
        Contract::V03 => CONCURRENT_SHIM,
    };
    let shim = read("the shim", args.shim.as_deref().unwrap_or(Path::new(usual)), "--shim FILE")?;
    let adapter = args.http.as_deref().map(|path| read("the adapter", path, "--http=FILE")).transpose()?;
    // Leave out the Python packages, which would make up most of the component.
    let global = GlobalArgs { no_packages: true, ..global.clone() };
    let host = Host::open(&global, Pooling::Single)?;
    let names = select(&host.engine.runtimes()?, &args.names)?;
    let mut modules = Vec::new();
    for name in &names {
        let module = host.with_progress(|engine| engine.prepared_module(name));
        modules.push(module.with_context(|| format!("cannot prepare `{name}`"))?);
    }
    let guests: Vec<_> = modules.iter().map(guest).collect();
    let mut options = WeaveOptions::default();
    options.metered = !args.unmetered;
    options.stack_bytes = args.stack_bytes;
    host.steps.message(&format!("weaving {}", names.join(" and ")));
    let mut woven = host.with_progress(|_| weave(&shim, &guests, &options)).context("cannot weave the provider")?;
    if let Some(adapter) = adapter {
        woven = woven.served(&adapter).context("cannot compose the provider with the HTTP adapter")?;
    }
    file::replace_shared(&args.output, &woven.component)?;
    if let Some(path) = &args.core {
        file::replace_shared(path, &woven.core)?;
    }
    let made = WovenJson::new(args, &names, &woven);
    out_report(args.json, &made, || made.to_string())?;
    Ok(0)
}

fn guest(module: &PreparedModule) -> Guest<'_> {
    Guest {
        name: &module.entry.name,
        aliases: &module.entry.aliases,
        language: module.entry.language.as_str(),
        driver: module.driver,
        version: &module.entry.version,
        module: &module.wasm,
        image_sha256: module.record.sha256,
        anchors: &module.record.anchors,
        globals: &module.record.globals,
        exports: &module.exports,
        library: module.library.as_ref().map(|library| GuestLibrary {
            guest_path: &library.guest_path,
            archive: &library.archive,
            files: &library.files,
            files_directory: &library.files_directory,
        }),
    }
}

/// Reads a file made by `guest-shims/component/build`.
fn read(what: &str, path: &Path, flag: &str) -> anyhow::Result<Vec<u8>> {
    let hint = format!("build it with `guest-shims/component/build`, or pass its path with {flag}");
    Ok(fs::read(path).or_hint(|| format!("cannot read {what} `{}`", escaped(path)), &hint)?)
}

/// Returns the names of the selected runtimes. Fails if a runtime is unknown or selected twice.
fn select(known: &[RuntimeInfo], names: &[String]) -> anyhow::Result<Vec<String>> {
    if names.is_empty() {
        return Ok(suggested_runtimes(known));
    }
    let mut selected = Vec::new();
    for name in names {
        let Some(runtime) = known.iter().find(|runtime| runtime.is_named(name)) else {
            let all: Vec<&str> = known.iter().map(|runtime| runtime.name.as_str()).collect();
            let hint = format!("use one of {}", all.join(", "));
            return Err(HintedError::new(format!("there is no runtime `{name}`"), hint).into());
        };
        if selected.contains(&runtime.name) {
            return Err(HintedError::new(format!("`{name}` is listed twice"), "list each runtime once").into());
        }
        selected.push(runtime.name.clone());
    }
    Ok(selected)
}

/// Returns a runtime for each language: the default if it is suitable, otherwise the first suitable runtime. A suitable
/// runtime is portable and has no data library, which would make the component large.
fn suggested_runtimes(known: &[RuntimeInfo]) -> Vec<String> {
    let mut portable: Vec<&RuntimeInfo> =
        known.iter().filter(|runtime| runtime.portable && !runtime.has_library).collect();
    portable.sort_by_key(|runtime| !runtime.default);
    let mut languages = BTreeSet::new();
    portable.retain(|runtime| languages.insert(runtime.language));
    known
        .iter()
        .filter(|runtime| portable.iter().any(|it| it.name == runtime.name))
        .map(|runtime| runtime.name.clone())
        .collect()
}

impl<'a> WovenJson<'a> {
    fn new(args: &WeaveArgs, names: &'a [String], woven: &'a WovenComponent) -> Self {
        Self {
            file: args.output.display().to_string(),
            runtimes: names.iter().map(String::as_str).collect(),
            bytes: woven.component.len(),
            sha256: Digest::of(&woven.component).to_string(),
            code_bytes: woven.code_bytes,
            data_bytes: woven.data_bytes,
            stack_bytes: woven.description.weave.stack_bytes,
            imports: &woven.imports,
            exports: &woven.exports,
        }
    }
}

impl std::fmt::Display for WovenJson<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = |size: usize| bytes(u64::try_from(size).unwrap_or(u64::MAX));
        let (all, code, data) = (size(self.bytes), size(self.code_bytes), size(self.data_bytes));
        writeln!(f, "{}: {all} ({code} code, {data} data), {}", self.file, self.runtimes.join(" and "))?;
        writeln!(f, "  sha256   {}", self.sha256)?;
        let list = |items: &[String]| if items.is_empty() { "nothing".to_owned() } else { items.join(", ") };
        writeln!(f, "  imports  {}", list(self.imports))?;
        writeln!(f, "  exports  {}", list(self.exports))
    }
}
