//! The stripper: a WebAssembly module that is fetched, compiled and cached like interpreters. Each call uses a new
//! instance.

use glovebox_runtimes::{
    Artefact, ArtefactKey, BuildError, CacheKind, Digest, ImageRecord, KeyParts, NewArtefact, ToolEntry,
};
use glovebox_wasi::Stop;
use wasmtime::{Instance, InstancePre, Linker, Store, UpdateDeadline};

use super::{
    Strip, Stripped, Wrong,
    glue::{self, Glue},
    values::{Misuse, Value},
};
use crate::{
    Outcome, Resource, RuntimeError, SourceKind, TrapKind,
    engine::{EngineInner, compile_digest},
    guest::state::{Ended, classify},
    load::{aot, resolve::WASMTIME},
};

/// The stripper, ready to be called.
pub(crate) struct Stripper(pub(super) InstancePre<Glue>);

impl Stripper {
    /// Removes a script's types. Returns the result and the fuel used. Called on a guest stack while the epoch
    /// advances.
    ///
    /// # Errors
    /// Fails with Wasmtime's message if no instance could be created.
    pub(crate) fn strip(&self, strip: Strip<'_>) -> Result<(Stripped, u64), String> {
        let Strip { source, name, kind, fuel, memory_bytes, timeout_ms, ctx } = strip;
        let failed = |error: wasmtime::Error| format!("{error:#}");
        let mut store = Store::new(self.0.module().engine(), Glue::new(source.len(), memory_bytes, ctx));
        store.limiter(|glue| &mut glue.limiter);
        if let Some(fuel) = fuel {
            store.set_fuel(fuel).map_err(failed)?;
        }
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            context.data().check()?;
            Ok(UpdateDeadline::Continue(1))
        });
        let result = self.0.instantiate(&mut store).and_then(|instance| {
            store.data().check()?;
            transform(&mut store, &instance, source, name, kind)
        });
        let fuel = fuel.unwrap_or(0);
        let used = fuel.saturating_sub(store.get_fuel().unwrap_or(0));
        let glue = store.data();
        let stripped = match result {
            Ok(value) => understood(&value, source),
            Err(error) => {
                let words = format!("{error:#}");
                match (classify(error), glue.limiter.memory.refused_bytes()) {
                    // The module traps when it is out of memory.
                    (Ended::Trapped(_), Some(wanted)) => {
                        Stripped::Stopped(exhausted(Resource::Memory, memory_bytes, wanted))
                    }
                    (Ended::Trapped(TrapKind::StackOverflow | TrapKind::OutOfBounds), None) => {
                        Stripped::Wrong(Wrong::whole("the script is nested too deeply for its types to be removed"))
                    }
                    (Ended::Trapped(TrapKind::Unreachable), None) => {
                        Stripped::Wrong(Wrong::whole("the types cannot be removed: the TypeScript parser gave up"))
                    }
                    // Instantiation failed, or the module trapped in a way that it should not.
                    (Ended::Trapped(_), None) => return Err(words),
                    (Ended::Stopped(Stop::Deadline), _) => {
                        let ms = u64::try_from(glue.ctx.elapsed().as_millis()).unwrap_or(u64::MAX);
                        Stripped::Stopped(exhausted(Resource::Time, timeout_ms, ms))
                    }
                    (Ended::Stopped(Stop::Cancelled), _) => Stripped::Stopped(Outcome::Cancelled),
                    (Ended::Stopped(_), _) => Stripped::Stopped(exhausted(Resource::Fuel, fuel, fuel)),
                }
            }
        };
        Ok((stripped, used))
    }
}

fn exhausted(resource: Resource, limit: u64, used: u64) -> Outcome {
    Outcome::Exhausted { resource, limit, used }
}

/// Calls `transformSync(source, { mode: "strip-only", … })` like the package's own JavaScript. Returns the result or
/// the thrown error.
fn transform(
    store: &mut Store<Glue>,
    instance: &Instance,
    source: &str,
    name: &str,
    kind: SourceKind,
) -> wasmtime::Result<Value> {
    // `undefined` means to detect the kind.
    let module = match kind {
        SourceKind::Detect => Value::Undefined,
        SourceKind::Script => Value::Bool(false),
        SourceKind::Module => Value::Bool(true),
    };
    let options = [
        ("mode", Value::Text("strip-only".into())),
        ("filename", Value::Text(name.to_owned())),
        ("module", module),
        ("sourceMap", Value::Bool(false)),
    ];
    let options = options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let values = &mut store.data_mut().values;
    let source = values.add(Value::Text(source.to_owned()))?;
    let options = values.add(Value::Object(options))?;
    let stack = instance.get_typed_func::<i32, u32>(&mut *store, "__wbindgen_add_to_stack_pointer")?;
    let transform = instance.get_typed_func::<(u32, u32, u32), ()>(&mut *store, "transformSync")?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or(Misuse::Memory)?;
    let ret = stack.call(&mut *store, -16)?;
    transform.call(&mut *store, (ret, source, options))?;
    let mut words = [0; 12];
    memory.read(&*store, ret as usize, &mut words)?;
    let [given, thrown, is_thrown] = [0, 4, 8].map(|at| {
        let word = words.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        u32::from_le_bytes(word)
    });
    Ok(store.data_mut().values.take(if is_thrown == 0 { given } else { thrown })?)
}

/// Interprets the returned or thrown value.
fn understood(value: &Value, source: &str) -> Stripped {
    match value.property("code") {
        // An error has a code too, such as `InvalidSyntax`, but always a message.
        Value::Text(code) if value.property("message") == Value::Undefined => {
            if lines(&code) == lines(source) {
                return Stripped::Plain(code);
            }
            Stripped::Wrong(Wrong::whole("the types cannot be removed without moving lines"))
        }
        _ => {
            let message = value.property("message");
            let message = message.text().or(value.text()).unwrap_or("the types cannot be removed");
            // The stripper counts columns from 0.
            let column = value.property("startColumn").count().unwrap_or(0).saturating_add(1);
            Stripped::Wrong(Wrong::at(message, value.property("startLine").count().filter(|line| *line > 0), column))
        }
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Name of the stripper in the manifest.
const TOOL: &str = "typescript";

impl EngineInner {
    /// Returns the stripper. Fetches, compiles and loads it first if necessary.
    pub(crate) fn stripper(&self) -> Result<&Stripper, RuntimeError> {
        if let Some(stripper) = self.stripper.get() {
            return Ok(stripper);
        }
        let tool = self.stripper_tool()?;
        let artefact = self.tool_artefact(tool)?;
        let module = aot::load(&self.wasmtime, artefact.aot).map_err(|error| wrong(tool, error))?;
        let mut linker = Linker::new(&self.wasmtime);
        glue::define(&mut linker, &module).map_err(|error| wrong(tool, error))?;
        let pre = linker.instantiate_pre(&module).map_err(|error| wrong(tool, error))?;
        // If two threads load it at once, the first one stays.
        Ok(self.stripper.get_or_init(|| Stripper(pre)))
    }

    /// Returns the stripper's entry in the manifest.
    fn stripper_tool(&self) -> Result<&ToolEntry, RuntimeError> {
        let missing = || RuntimeError::Load { name: TOOL.into(), reason: "the manifest has no such tool".into() };
        self.runtimes.manifest().tool(TOOL).ok_or_else(missing)
    }

    /// Returns a tool's compiled code. Fetches and compiles it first if it is not in the cache.
    pub(crate) fn tool_artefact(&self, tool: &ToolEntry) -> Result<Artefact, RuntimeError> {
        let built = self.open_or_build(CacheKind::Images, &self.tool_key(tool), || self.build_tool(tool));
        built.map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => RuntimeError::Load { name: tool.name.clone(), reason: other.to_string() },
        })
    }

    /// Returns `true` if a tool's compiled code is in the cache.
    pub(crate) fn is_tool_prepared(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(self.runtimes.prepared().open(&self.tool_key(tool))?.is_some())
    }

    /// Returns the cache key of a tool's compiled code.
    fn tool_key(&self, tool: &ToolEntry) -> ArtefactKey {
        ArtefactKey::new(KeyParts {
            label: format!("{}-{}", tool.name, tool.version),
            runtime: tool.sha256,
            recipe: Digest::of(b"a tool"),
            wasmtime: WASMTIME.into(),
            settings: compile_digest(&self.wasmtime).to_string(),
            target: std::env::consts::ARCH.into(),
        })
    }

    fn build_tool(&self, tool: &ToolEntry) -> Result<NewArtefact, RuntimeError> {
        let module = self.runtimes.load_or_fetch_tool(tool, &*self.progress)?;
        self.progress.message(&format!("compiling `{}`", tool.name));
        // Compiling recurses deeply, and the caller may be a thread with a small stack.
        let aot = self.stacks.run(|| aot::compile(&self.wasmtime, &module)).map_err(RuntimeError::Stack)?;
        let aot = aot.map_err(|error| wrong(tool, error))?;
        Ok(NewArtefact { aot, record: ImageRecord::of_code(tool.sha256) })
    }
}

fn wrong(tool: &ToolEntry, error: wasmtime::Error) -> RuntimeError {
    RuntimeError::Load { name: tool.name.clone(), reason: format!("{error:#}") }
}
