//! `glovebox runtimes`: the interpreters and tools, and their state on this machine.

mod cache;

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{Engine, Language, PreparedInfo, RuntimeInfo, ToolInfo, escaped};
use serde::Serialize;

use self::cache::{CacheArgs, PruneArgs};
use crate::{
    args::GlobalArgs,
    engine::{Host, Pooling},
    interrupt,
    terminal::{
        Column::{Left, Right},
        HintedError, bytes, out, out_report, table,
    },
};

const AFTER_HELP: &str = "\
Examples:
  glovebox runtimes                     list interpreters and tools, and the contents of the cache
  glovebox runtimes fetch               download the defaults, for example in a container build
  glovebox runtimes prepare --all       download and prepare all: later runs need no network and no compiler
  glovebox runtimes add python-3.12     use it for Python by default; smaller, without numpy and pandas
  glovebox runtimes path python         print the path of the binary
  glovebox runtimes bundle all.zip      write all downloads to one file, for machines without a network (--bundle)
  glovebox runtimes bundle --compiled py.zip python
                                        write compiled code and images, for machines that should not compile (--prepared)
  glovebox runtimes remove quickjs      remove an interpreter
  glovebox runtimes prune --older-than 7d

When compiled code is added, code that has not been used for 30 days (--cache-age) is evicted. The least recently used code \
is evicted as well if prepared images or compiled components exceed 2 GiB (--cache-bytes). `runtimes prune` evicts immediately.";

/// List, download, prepare and remove interpreters
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct RuntimesArgs {
    #[command(subcommand)]
    command: Option<RuntimesCommand>,

    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum RuntimesCommand {
    /// List all or the named interpreters and tools, with their state
    List(ListArgs),
    /// Download and verify interpreters: the named ones, or each language's default and the TypeScript stripper
    Fetch(NameArgs),
    /// Download, boot, snapshot and compile interpreters, so that runs start immediately: the named ones, or each
    /// language's default and the TypeScript stripper
    Prepare(PrepareArgs),
    /// Prepare interpreters and use them for their language by default
    ///
    /// Scripts of the language run on the added interpreter unless --runtime names another one. If several were added,
    /// the last of them in `glovebox runtimes list` is used. `remove` undoes this.
    Add(AddArgs),
    /// Write interpreters and Python packages to one zip file
    ///
    /// Contains the named interpreters, or each language's default and the TypeScript stripper, and all Python
    /// packages. Missing files are downloaded. With `--bundle FILE`, commands use the bundle's files instead of
    /// downloading them.
    ///
    /// With --compiled, the file contains compiled code and booted images instead. `python-3.15` is written with the
    /// code of CPython, `python-3.15-data` with the code of CPython and all libraries. With `--prepared FILE`, commands
    /// use the file's code and images instead of compiling and booting, on machines with the same version of Glovebox
    /// and a similar CPU (x86-64-v3 or later).
    Bundle(BundleArgs),
    /// Print the paths of binaries: the named ones, or each language's default
    Path(NameArgs),
    /// Remove all or the named interpreters and their prepared images; with --all also compiled components
    Remove(NameArgs),
    Cache(CacheArgs),
    Prune(PruneArgs),
}

/// Options of `list`.
#[derive(Args, Debug)]
struct ListArgs {
    /// Names or aliases, as `glovebox runtimes list` prints them
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Interpreters to use.
#[derive(Args, Clone, Debug)]
struct NameArgs {
    /// Names or aliases, as `glovebox runtimes list` prints them
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// All interpreters
    #[arg(long, conflicts_with = "names")]
    all: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Interpreters to prepare.
#[derive(Args, Debug)]
struct PrepareArgs {
    #[command(flatten)]
    names: NameArgs,

    /// Also prepare code without fuel metering, for policies with `metering = "none"`
    #[arg(long)]
    unmetered: bool,
}

/// Interpreters to add.
#[derive(Args, Debug)]
struct AddArgs {
    /// Names or aliases, as `glovebox runtimes list` prints them
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `bundle`.
#[derive(Args, Debug)]
struct BundleArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    file: std::path::PathBuf,

    #[command(flatten)]
    which: NameArgs,

    /// Write compiled code and images instead of downloads
    #[arg(long = "compiled")]
    is_prepared: bool,

    /// With --compiled, leave out the code and images that this file contains
    #[arg(long, value_name = "FILE", requires = "is_prepared")]
    without: Option<std::path::PathBuf>,

    /// Leave out the Python packages
    #[arg(long, conflicts_with = "is_prepared")]
    no_packages: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &RuntimesArgs) -> anyhow::Result<i32> {
    interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    match &args.command {
        None => overview(&host, &args.list),
        Some(RuntimesCommand::List(names)) => list(&host, names),
        Some(RuntimesCommand::Fetch(names)) => fetch(&host, names),
        Some(RuntimesCommand::Prepare(args)) => prepare(&host, args),
        Some(RuntimesCommand::Add(args)) => add(&host, args),
        Some(RuntimesCommand::Bundle(args)) => bundle(&host, args),
        Some(RuntimesCommand::Path(names)) => path(&host, names),
        Some(RuntimesCommand::Remove(names)) => remove(&host, names),
        Some(RuntimesCommand::Cache(args)) => cache::show(&host, args),
        Some(RuntimesCommand::Prune(args)) => cache::prune(&host, args),
    }?;
    Ok(0)
}

/// The selection of interpreters and tools if no name is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefaultSelection {
    Defaults,
    /// Includes the interpreters on which `glovebox run` starts scripts, and the tools that process scripts before an
    /// interpreter runs them.
    DefaultsAndTools,
    None,
}

/// An interpreter, or a tool that processes scripts before an interpreter runs them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum RuntimeOrTool {
    Runtime(RuntimeInfo),
    Tool(ToolInfo),
}

impl RuntimeOrTool {
    fn is_named(&self, name: &str) -> bool {
        match self {
            Self::Runtime(runtime) => runtime.is_named(name),
            Self::Tool(tool) => tool.name == name,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Runtime(runtime) => &runtime.name,
            Self::Tool(tool) => &tool.name,
        }
    }

    fn is_default(&self) -> bool {
        matches!(self, Self::Runtime(runtime) if runtime.default)
    }

    fn is_prepared(&self) -> bool {
        match self {
            Self::Runtime(runtime) => runtime.prepared,
            Self::Tool(tool) => tool.prepared,
        }
    }

    /// Returns the columns for the output of `list`.
    fn row(&self) -> [String; 6] {
        let (language, version, size_bytes, licence) = match self {
            Self::Runtime(it) => (it.language.to_string(), &it.version, it.size_bytes, &it.licence),
            Self::Tool(it) => ("-".to_owned(), &it.version, it.size_bytes, &it.licence),
        };
        let (Self::Runtime(RuntimeInfo { fetched, bundled, .. }) | Self::Tool(ToolInfo { fetched, bundled, .. })) =
            self;
        let name = if self.is_default() { format!("{} (default)", self.name()) } else { self.name().to_owned() };
        let state = match self {
            Self::Runtime(it) if it.prepared && it.added => "added",
            _ if self.is_prepared() => "prepared",
            _ if *fetched => "fetched",
            _ if *bundled => "bundled",
            _ => "not fetched",
        };
        [name, language, version.clone(), state.into(), bytes(size_bytes), licence.clone()]
    }
}

fn runtimes_and_tools(host: &Host) -> anyhow::Result<Vec<RuntimeOrTool>> {
    let tools = host.engine.tools()?.into_iter().map(RuntimeOrTool::Tool);
    Ok(host.engine.runtimes()?.into_iter().map(RuntimeOrTool::Runtime).chain(tools).collect())
}

fn select(host: &Host, args: &NameArgs, unnamed: DefaultSelection) -> anyhow::Result<Vec<RuntimeOrTool>> {
    let known = runtimes_and_tools(host)?;
    if args.names.is_empty() {
        // `glovebox run` uses the default runtime of a language. If that runtime is an image whose preloaded modules
        // the script does not mention, `glovebox run` uses the runtime on which the image is based.
        let starts = Language::ALL.into_iter().map(|language| host.engine.runtime_for(language, ""));
        let starts = starts.collect::<Result<Vec<_>, _>>()?;
        let is_needed = |known: &RuntimeOrTool| match known {
            RuntimeOrTool::Runtime(runtime) => runtime.default || starts.contains(&runtime.name),
            RuntimeOrTool::Tool(_) => true,
        };
        return Ok(match unnamed {
            _ if args.all => known,
            DefaultSelection::Defaults => known.into_iter().filter(RuntimeOrTool::is_default).collect(),
            DefaultSelection::DefaultsAndTools => known.into_iter().filter(is_needed).collect(),
            DefaultSelection::None => {
                return Err(
                    HintedError::new("no runtime given", "use names from `glovebox runtimes list`, or --all").into()
                );
            }
        });
    }
    args.names.iter().map(|name| find(&known, name)).collect()
}

fn find(known: &[RuntimeOrTool], name: &str) -> anyhow::Result<RuntimeOrTool> {
    match known.iter().find(|each| each.is_named(name)) {
        Some(found) => Ok(found.clone()),
        None => {
            let names: Vec<&str> = known.iter().map(RuntimeOrTool::name).collect();
            Err(HintedError::new(
                format!("there is no runtime `{}`", escaped(name)),
                format!("use one of {}", names.join(", ")),
            )
            .into())
        }
    }
}

/// Prints the interpreters, and the contents of the cache.
fn overview(host: &Host, args: &ListArgs) -> anyhow::Result<()> {
    list(host, args)?;
    if !args.json && args.names.is_empty() {
        let usage = host.engine.cache_usage().context("cannot read the cache")?;
        out(&format!("\n{}", cache::usage_table(&usage)))?;
    }
    Ok(())
}

fn list(host: &Host, args: &ListArgs) -> anyhow::Result<()> {
    let mut runtimes = runtimes_and_tools(host)?;
    if !args.names.is_empty() {
        runtimes = args.names.iter().map(|name| find(&runtimes, name)).collect::<anyhow::Result<_>>()?;
    }
    let columns = [Left("NAME"), Left("LANGUAGE"), Left("VERSION"), Left("STATE"), Right("SIZE"), Left("LICENCE")];
    out_report(args.json, &runtimes, || table(columns, runtimes.iter().map(RuntimeOrTool::row)))
}

/// The output of `fetch` and `path`.
#[derive(Debug, Serialize)]
struct LocatedBinary {
    name: String,
    path: std::path::PathBuf,
}

fn fetch(host: &Host, args: &NameArgs) -> anyhow::Result<()> {
    for runtime in select(host, args, DefaultSelection::DefaultsAndTools)? {
        let name = runtime.name().to_owned();
        let path =
            host.with_progress(|engine| engine.fetch(&name)).with_context(|| format!("cannot fetch `{name}`"))?;
        print_located(args, LocatedBinary { name, path })?;
    }
    Ok(())
}

/// The output of `bundle`.
#[derive(Debug, Serialize)]
struct BundleJson<'a> {
    path: &'a std::path::Path,
    size_bytes: u64,
    names: &'a [&'a str],
}

fn bundle(host: &Host, args: &BundleArgs) -> anyhow::Result<()> {
    let selected = select(host, &args.which, DefaultSelection::DefaultsAndTools)?;
    let names: Vec<&str> = selected.iter().map(RuntimeOrTool::name).collect();
    let write = |engine: &Engine| match args.is_prepared {
        true => engine.write_prepared(&names, args.without.as_deref(), &args.file),
        false => engine.write_bundle(&names, !args.no_packages, &args.file),
    };
    let size_bytes = host.with_progress(write).with_context(|| format!("cannot bundle {}", names.join(", ")))?;
    out_report(args.which.json, &BundleJson { path: &args.file, size_bytes, names: &names }, || {
        format!("{}: {}, {}\n", args.file.display(), names.join(", "), bytes(size_bytes))
    })
}

fn path(host: &Host, args: &NameArgs) -> anyhow::Result<()> {
    for known in select(host, args, DefaultSelection::Defaults)? {
        let (RuntimeOrTool::Runtime(RuntimeInfo { name, path, fetched, .. })
        | RuntimeOrTool::Tool(ToolInfo { name, path, fetched, .. })) = known;
        if !fetched {
            return Err(HintedError::new(
                format!("`{name}` has not been fetched"),
                format!("fetch it with `glovebox runtimes fetch {name}`"),
            )
            .into());
        }
        print_located(args, LocatedBinary { name, path })?;
    }
    Ok(())
}

fn print_located(args: &NameArgs, located: LocatedBinary) -> anyhow::Result<()> {
    // Print only the path, so that a shell can use the output.
    out_report(args.json, &located, || format!("{}\n", located.path.display()))
}

/// The output of `prepare` and `add`.
#[derive(Debug, Serialize)]
struct PreparedJson<'a> {
    name: &'a str,
    /// `None` for code without fuel metering, because the previous state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    was_prepared: Option<bool>,
    took_ms: f64,
    #[serde(flatten)]
    info: &'a PreparedInfo,
}

impl<'a> PreparedJson<'a> {
    fn new(name: &'a str, was_prepared: Option<bool>, info: &'a PreparedInfo) -> Self {
        Self { name, was_prepared, took_ms: info.took.as_secs_f64() * 1000.0, info }
    }
}

fn prepare(host: &Host, args: &PrepareArgs) -> anyhow::Result<()> {
    for runtime in select(host, &args.names, DefaultSelection::DefaultsAndTools)? {
        let name = runtime.name().to_owned();
        let prepare = |engine: &Engine| match args.unmetered {
            true => engine.prepare_unmetered(&name),
            false => engine.prepare(&name),
        };
        let info = host.with_progress(prepare).with_context(|| format!("cannot prepare `{name}`"))?;
        let was_prepared = (!args.unmetered).then(|| runtime.is_prepared());
        out_report(args.names.json, &PreparedJson::new(&name, was_prepared, &info), || {
            let how = if was_prepared == Some(true) {
                "was already prepared".into()
            } else {
                format!("prepared in {:.1} s", info.took.as_secs_f64())
            };
            format!("{name}: {how}, image {}\n", info.image_sha256)
        })?;
    }
    Ok(())
}

fn add(host: &Host, args: &AddArgs) -> anyhow::Result<()> {
    let known = runtimes_and_tools(host)?;
    // Report unknown names before preparing the first interpreter.
    let found = args.names.iter().map(|name| find(&known, name)).collect::<anyhow::Result<Vec<_>>>()?;
    for known in &found {
        let RuntimeOrTool::Runtime(runtime) = known else {
            let hint = "tools are used automatically; choose an interpreter";
            return Err(HintedError::new(format!("`{}` is not an interpreter", known.name()), hint).into());
        };
        let name = &runtime.name;
        let info =
            host.with_progress(|engine| engine.add_runtime(name)).with_context(|| format!("cannot add `{name}`"))?;
        out_report(args.json, &PreparedJson::new(name, Some(runtime.prepared), &info), || {
            format!("{name}: added, prepared in {:.1} s\n", info.took.as_secs_f64())
        })?;
    }
    Ok(())
}

fn remove(host: &Host, args: &NameArgs) -> anyhow::Result<()> {
    let freed = |name: &str, freed_bytes: u64| -> anyhow::Result<()> {
        let report = serde_json::json!({ "name": name, "freed_bytes": freed_bytes });
        out_report(args.json, &report, || format!("{name}: freed {}\n", bytes(freed_bytes)))
    };
    // Custom images are prepared like runtimes, and their prepared files can be damaged, too.
    let is_image = |name: &String| host.engine.image(name).is_ok();
    let (images, names): (Vec<String>, Vec<String>) = args.names.iter().cloned().partition(is_image);
    let args = &NameArgs { names, ..args.clone() };
    let selected = if args.names.is_empty() && !images.is_empty() {
        Vec::new()
    } else {
        select(host, args, DefaultSelection::None)?
    };
    for name in images.into_iter().chain(selected.iter().map(|runtime| runtime.name().to_owned())) {
        freed(&name, host.engine.remove(&name).with_context(|| format!("cannot remove `{name}`"))?)?;
    }
    if args.all {
        // The remaining code was compiled from binaries given by path, and from components.
        let freed_bytes = host.engine.clear_prepared().context("cannot remove other compiled code")?;
        if freed_bytes > 0 {
            freed("binaries given by path, and components", freed_bytes)?;
        }
    }
    Ok(())
}
