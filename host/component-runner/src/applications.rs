//! Loads and runs components.

use std::{fmt, fs::File, io::Read as _, path::Path, time::Duration};

use glovebox::{CompileError, Engine};
use glovebox_component_host::{SandboxCtx, SandboxHost, add_to_linker, add_to_linker_concurrent};
use wasmtime::component::{Component, InstancePre, Linker, Val, types::ComponentItem};

use crate::{
    AppConfig, AppOutcome, AppReport, Compiler, Export, InvokeError, LoadError, RunError,
    compiler::wasmtime_engine,
    preflight::{self, Refusal},
    run::{self, Call, CallReport, Job, exports, run},
    store::StoreState,
};

/// Maximum component size in bytes. Compilation needs many times as much memory.
const COMPONENT_BYTES: u64 = 512 << 20;

/// Prefixes of the interface that a command exports. Any patch version matches. In version 0.3, `run` is asynchronous.
const RUN: [&str; 2] = ["wasi:cli/run@0.2.", "wasi:cli/run@0.3."];

/// Prefixes of the supported WASI 0.2 interfaces. Imports of other `wasi:` interfaces are reported as missing.
const WASI: [&str; 6] = ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// The prefix of the sandbox interfaces of version 0.2. Applications can import them in addition to WASI.
const SANDBOX: &str = "glovebox:sandbox/";

/// Prefixes of the asynchronous sandbox interfaces. Any patch version matches.
const CONCURRENT_SANDBOX: [&str; 3] =
    ["glovebox:sandbox/sandbox@0.3.", "glovebox:sandbox/session@0.3.", "glovebox:sandbox/tools@0.3."];

/// A loader of applications. Create one loader per program and engine; clones are cheap.
#[derive(Clone)]
pub struct Applications {
    engine: Engine,
    wasmtime: wasmtime::Engine,
    /// The engine for components with asynchronous functions.
    concurrent: wasmtime::Engine,
    compiler: Option<Compiler>,
}

impl fmt::Debug for Applications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applications").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// A loaded component. Clones are cheap. Each run creates a new instance; any number of runs can be concurrent.
#[derive(Clone)]
pub struct Application {
    name: String,
    instance: InstancePre<StoreState<SandboxCtx>>,
    instance_bytes: u64,
    exports: Vec<Export>,
}

/// A loaded component that can import WASI, but not the sandbox.
pub(crate) struct WasiComponent {
    pub(crate) instance: InstancePre<StoreState<()>>,
    pub(crate) instance_bytes: u64,
    pub(crate) exports: Vec<Export>,
}

struct CompiledComponent {
    component: Component,
    /// The host memory per instance, in bytes.
    instance_bytes: u64,
    /// `true` if the engine of the component supports asynchronous functions.
    is_concurrent: bool,
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").field("name", &self.name).field("exports", &self.exports).finish_non_exhaustive()
    }
}

impl Applications {
    /// Creates a loader. `engine` provides the cache for compiled components.
    ///
    /// # Errors
    /// [`LoadError::Settings`] if Wasmtime does not support the required settings on this machine.
    pub fn new(engine: &Engine) -> Result<Self, LoadError> {
        let settings = |error: wasmtime::Error| LoadError::Settings(format!("{error:#}"));
        let wasmtime = wasmtime_engine(false).map_err(settings)?;
        let concurrent = wasmtime_engine(true).map_err(settings)?;
        Ok(Self { engine: engine.clone(), wasmtime, concurrent, compiler: None })
    }

    /// Compiles uncached components in child processes, within the limits of `compiler`.
    ///
    /// By default, components are compiled in this process without limits. An untrusted component of a few kilobytes
    /// can then keep this process busy for hours or exhaust all memory.
    #[must_use]
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// Loads a component of at most 512 MiB from a file. Compiles the component if it is not cached.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is too large or is not a component. Also fails if the component is rejected
    /// before compilation, or cannot be compiled.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Application, LoadError> {
        let (name, bytes) = read(path.as_ref())?;
        self.load_bytes(name, &bytes)
    }

    /// Loads a component from memory. `name` identifies the component in error messages.
    ///
    /// # Errors
    /// Fails if the bytes are not a component, are rejected before compilation, or cannot be compiled.
    pub fn load_bytes(&self, name: impl Into<String>, bytes: &[u8]) -> Result<Application, LoadError> {
        let name = name.into();
        let CompiledComponent { component, instance_bytes, is_concurrent } = self.compile(&name, bytes)?;
        let mut linker = wasi(&name, &component)?;
        add_to_linker(&mut linker).map_err(|error| link_error(&name, &error))?;
        if is_concurrent {
            add_to_linker_concurrent(&mut linker).map_err(|error| link_error(&name, &error))?;
        }
        let provided: Vec<&str> = WASI.into_iter().chain([SANDBOX]).chain(CONCURRENT_SANDBOX).collect();
        let instance = link(&name, &linker, &provided, &component)?;
        Ok(Application { name, instance, instance_bytes, exports: exports(component.engine(), &component) })
    }

    /// Loads a component that can import WASI, but not the sandbox.
    pub(crate) fn load_wasi_component(&self, name: &str, bytes: &[u8]) -> Result<WasiComponent, LoadError> {
        let CompiledComponent { component, instance_bytes, .. } = self.compile(name, bytes)?;
        let instance = link(name, &wasi(name, &component)?, &WASI, &component)?;
        Ok(WasiComponent { instance, instance_bytes, exports: exports(component.engine(), &component) })
    }

    fn compile(&self, name: &str, bytes: &[u8]) -> Result<CompiledComponent, LoadError> {
        let name = || name.to_owned();
        match bytes {
            [b'\0', b'a', b's', b'm', _, _, 1, 0, ..] => {}
            [b'\0', b'a', b's', b'm', _, _, 0, 0, ..] => return Err(LoadError::CoreModule { name: name() }),
            _ => return Err(LoadError::NotWasm { name: name() }),
        }
        let instance_bytes = preflight::check(bytes).map_err(|refusal| match refusal {
            Refusal::Malformed(words) => LoadError::Compile { name: name(), source: CompileError::Compile(words) },
            refusal => LoadError::Excess { name: name(), reason: refusal.to_string() },
        })?;
        let is_concurrent = preflight::is_concurrent(bytes);
        let wasmtime = if is_concurrent { &self.concurrent } else { &self.wasmtime };
        let compiled = match &self.compiler {
            Some(compiler) => glovebox::compile_with(&self.engine, wasmtime, bytes, |bytes| compiler.compile(bytes)),
            None => glovebox::compile(&self.engine, wasmtime, bytes),
        };
        let component = compiled.map_err(|source| LoadError::Compile { name: name(), source })?;
        Ok(CompiledComponent { component, instance_bytes, is_concurrent })
    }
}

/// Creates a linker that provides only WASI, for a component's engine.
fn wasi<S: Send + 'static>(name: &str, component: &Component) -> Result<Linker<StoreState<S>>, LoadError> {
    let mut linker = Linker::new(component.engine());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(|error| link_error(name, &error))?;
    Ok(linker)
}

/// Links a component. `provided` lists the prefixes of the interfaces in `linker`, for an error that names the missing
/// import.
fn link<S: Send + 'static>(
    name: &str,
    linker: &Linker<StoreState<S>>,
    provided: &[&str],
    component: &Component,
) -> Result<InstancePre<StoreState<S>>, LoadError> {
    linker.instantiate_pre(component).map_err(|error| match missing(provided, component) {
        Some(import) => LoadError::MissingImport { name: name.to_owned(), import },
        None => link_error(name, &error),
    })
}

/// Returns the first import that `provided` does not cover. Interfaces that contain only types are not required.
fn missing(provided: &[&str], component: &Component) -> Option<String> {
    let engine = component.engine();
    let component = component.component_type();
    let mut imports = component.imports(engine);
    let missing = imports.find(|(import, item)| {
        // The linker ignores patch versions. A prefix without a version stands for version 0.2.
        let has =
            |interface: &&str| import.starts_with(*interface) && (interface.contains('@') || import.contains("@0.2."));
        let is_only_types = match &item.ty {
            ComponentItem::ComponentInstance(instance) => {
                instance.exports(engine).all(|(_, item)| matches!(item.ty, ComponentItem::Type(_)))
            }
            _ => false,
        };
        !is_only_types && !provided.iter().any(has)
    });
    missing.map(|(import, _)| import.to_owned())
}

impl Application {
    /// Returns the name that error messages use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the exported functions, sorted by name.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Returns `true` if the component is a command: it exports `wasi:cli/run`.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.main().is_some()
    }

    fn main(&self) -> Option<&Export> {
        let is_run = |name: &str| RUN.iter().any(|run| name.starts_with(run)) && name.ends_with(".run");
        self.exports.iter().find(|export| is_run(&export.name))
    }

    /// Runs the component as a command and waits until it ends.
    ///
    /// The run uses its own thread. It ends within milliseconds of its wall-clock limit or of `config.cancel`. The
    /// component's scripts can delay the end by at most the soft-limit reserve of their policy. If a write to this
    /// process's own output still blocks the thread two seconds later, this function returns without waiting for the
    /// thread to end.
    ///
    /// # Errors
    /// [`RunError::NotACommand`] if the component does not export `wasi:cli/run`. Also fails if a granted directory
    /// cannot be opened, or no thread can be created. A trap or a reached limit is an outcome, not an error.
    pub fn run(&self, host: &SandboxHost, config: &AppConfig) -> Result<AppReport, RunError> {
        let Some(main) = self.main() else {
            return Err(RunError::NotACommand { name: self.name.clone(), exports: self.exports.clone() });
        };
        let call = Call { function: main.index, arguments: Vec::new(), result_count: main.result_count };
        Ok(app_report(self.call(host, config, call)?, |_| None))
    }

    /// Calls an export in a new instance, like [`run`](Self::run), and returns its result as WAVE.
    ///
    /// `call` is written in WAVE as well, such as `f(1, {a: "x"})`. A function in an interface is named
    /// `ns:pkg/iface@0.1.0.f`; version, package and interface can be omitted if the name stays unambiguous. Trailing
    /// optional arguments and optional record fields can be omitted.
    ///
    /// # Errors
    /// Fails if `call` is not a call in WAVE, if its name matches no export or several exports, or if its arguments do
    /// not match the signature. Also fails like [`run`](Self::run), except that the component need not be a command.
    pub fn invoke(&self, call: &str, host: &SandboxHost, config: &AppConfig) -> Result<AppReport, InvokeError> {
        let call = run::parse(&self.name, &self.exports, call)?;
        Ok(app_report(self.call(host, config, call)?, |value| value.to_wave().ok()))
    }

    fn call(&self, host: &SandboxHost, config: &AppConfig, call: Call) -> Result<CallReport<SandboxCtx>, RunError> {
        let sandbox = host.ctx();
        let reserve = Duration::from_millis(host.policy().limits.timeout_reserve_ms);
        let scripts = Some((sandbox.cancel_token(), reserve));
        run(Job {
            instance: self.instance.clone(),
            instance_bytes: self.instance_bytes,
            state: StoreState::new(config, sandbox)?,
            call,
            limits: config.limits.clone(),
            deadline: None,
            cancel: config.cancel.clone(),
            scripts,
        })
    }
}

fn app_report(done: CallReport<SandboxCtx>, text: impl Fn(&Val) -> Option<String>) -> AppReport {
    let (outcome, value) = match done.result {
        Ok(values) => {
            let failed = matches!(values.first(), Some(Val::Result(Err(_))));
            let outcome = if failed { AppOutcome::Failed } else { AppOutcome::Returned };
            (outcome, values.first().and_then(text))
        }
        Err(outcome) => (outcome, None),
    };
    AppReport {
        outcome,
        value,
        fuel_consumed: done.fuel_consumed,
        memory_bytes: done.memory_bytes,
        duration: done.duration,
        is_left_behind: done.sandbox.is_none(),
        sandbox: done.sandbox.map(|sandbox| sandbox.usage()).unwrap_or_default(),
    }
}

/// Reads a component file. Returns its path, which serves as its name, and its bytes.
pub(crate) fn read(path: &Path) -> Result<(String, Vec<u8>), LoadError> {
    let name = path.display().to_string();
    let reading = |source| LoadError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(reading)?;
    // Rejects a large file before reading it. A pipe has no length, so its size is checked after reading.
    let announced = file.metadata().map_err(reading)?.len();
    if announced <= COMPONENT_BYTES {
        file.take(COMPONENT_BYTES + 1).read_to_end(&mut bytes).map_err(reading)?;
    }
    if announced.max(u64::try_from(bytes.len()).unwrap_or(u64::MAX)) > COMPONENT_BYTES {
        return Err(LoadError::TooLarge { name, max: COMPONENT_BYTES });
    }
    Ok((name, bytes))
}

fn link_error(name: &str, error: &wasmtime::Error) -> LoadError {
    LoadError::Link { name: name.to_owned(), reason: format!("{error:#}") }
}
