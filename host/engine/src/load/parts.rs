//! Compiled code of interpreters, split into [parts](glovebox_runtimes::CodePart). The first part is loaded with the
//! runtime. When a guest calls a function of another part, that part and all parts before it are loaded.

use std::{
    fmt::Display,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use glovebox_runtimes::{
    Artefact, ArtefactKey, Binary, CacheKind, Digest, ImageRecord, NewArtefact, Recipe, RuntimeEntry,
    rewrite::{self, BootableModule, MEMORY_IMPORT},
};
use glovebox_weave::Counter;
use wasmtime::{Caller, Instance, Linker, Module, ModuleExport, Ref, Store};

use crate::{
    RuntimeError,
    engine::EngineInner,
    guest::{fuel, machine::TABLE, recycled::GuestStoreData},
    load::aot,
};

/// The source of an interpreter's binary.
#[derive(Clone)]
pub(crate) enum BinarySource {
    /// The manifest. A missing binary is fetched.
    Manifest(Box<RuntimeEntry>),
    /// A file that the caller specified.
    File(PathBuf),
}

/// Inputs of an interpreter's compiled code, which all images of the interpreter share.
#[derive(Clone)]
pub(crate) struct CodeInputs {
    /// The name of the runtime, for error messages.
    pub(crate) name: String,
    pub(crate) binary: BinarySource,
    pub(crate) recipe: Recipe,
    /// The cache key of each part.
    pub(crate) keys: Vec<ArtefactKey>,
}

/// The compiled code of an interpreter.
#[derive(Clone)]
pub(crate) struct Code {
    /// The first part, or the whole code if it is not split.
    pub(crate) base: Module,
    pub(crate) parts: Option<Arc<Parts>>,
}

/// The parts of an interpreter's code after the first, loaded on demand.
pub(crate) struct Parts {
    engine: Weak<EngineInner>,
    inputs: CodeInputs,
    base: Module,
    loaded: Vec<OnceLock<Part>>,
    loading: Mutex<()>,
}

/// A loaded part of the split module.
struct Part {
    module: Module,
    /// For each import: the index of the part that exports the item, and the export.
    imports: Vec<(usize, ModuleExport)>,
}

impl EngineInner {
    pub(crate) fn binary(&self, source: &BinarySource) -> Result<Binary, RuntimeError> {
        Ok(match source {
            BinarySource::Manifest(entry) => self.runtimes.load_or_fetch(entry, &*self.progress)?,
            BinarySource::File(path) => self.runtimes.load_custom(path)?,
        })
    }

    /// Returns an interpreter's binary with the additional exports that its driver needs.
    pub(crate) fn bootable(&self, inputs: &CodeInputs) -> Result<BootableModule, RuntimeError> {
        let bootable = rewrite::with_exports(&self.binary(&inputs.binary)?.bytes, &inputs.recipe.exports);
        bootable.map_err(|source| RuntimeError::Rewrite { name: inputs.name.clone(), source })
    }

    /// Returns an interpreter's code. Compiles its first part if that part is not in the cache.
    pub(crate) fn code(&self, inputs: CodeInputs) -> Result<Code, RuntimeError> {
        let base = self.part(&inputs, 0)?;
        let later = inputs.keys.len().saturating_sub(1);
        let parts = (later > 0).then(|| {
            let loaded = (0..later).map(|_| OnceLock::new()).collect();
            Arc::new(Parts { engine: self.me.clone(), inputs, base: base.clone(), loaded, loading: Mutex::new(()) })
        });
        Ok(Code { base, parts })
    }

    /// Returns a part of an interpreter's code. Compiles the part if it is not in the cache.
    fn part(&self, inputs: &CodeInputs, number: usize) -> Result<Module, RuntimeError> {
        let artefact = self.part_artefact(inputs, number)?;
        aot::load(&self.wasmtime, artefact.aot).map_err(|error| invalid_code(inputs, &error))
    }

    pub(crate) fn part_artefact(&self, inputs: &CodeInputs, number: usize) -> Result<Artefact, RuntimeError> {
        let key = inputs.keys.get(number).ok_or_else(|| no_part(inputs, number))?;
        self.open_or_prepare(&inputs.name, CacheKind::Code, key, || {
            let rewriting = |source| RuntimeError::Rewrite { name: inputs.name.clone(), source };
            let mut wasm = rewrite::code_of(&self.bootable(inputs)?.bytes).map_err(rewriting)?;
            if inputs.keys.len() > 1 {
                wasm = rewrite::part_of(&wasm, &inputs.recipe.parts, number).map_err(rewriting)?;
            }
            let counter = if number == 0 { Counter::Own } else { Counter::ImportedFrom(rewrite::BASE_IMPORT) };
            wasm = fuel::add_metering(self.metering, wasm, counter).map_err(|error| invalid_code(inputs, &error))?;
            self.progress.message(&compiling(inputs, number, wasm.len()));
            // Compiling recurses deeply, and the caller's thread may have a small stack.
            let compiled = self.stacks.run(|| aot::compile(&self.wasmtime, &wasm));
            let aot = compiled.map_err(RuntimeError::Stack)?.map_err(|error| invalid_code(inputs, &error))?;
            Ok(NewArtefact { aot, record: ImageRecord::of_code(Digest::of(&wasm)) })
        })
    }
}

impl Parts {
    /// Loads all parts. Compiles parts that are not in the cache.
    pub(crate) fn load_all(&self) -> Result<(), RuntimeError> {
        (1..=self.loaded.len()).try_for_each(|number| self.part(number).map(drop))
    }

    /// Returns a part, counted from one. Compiles the part if it is not in the cache.
    fn part(&self, number: usize) -> Result<&Part, RuntimeError> {
        let place = number.checked_sub(1).and_then(|nth| self.loaded.get(nth));
        let place = place.ok_or_else(|| no_part(&self.inputs, number))?;
        if let Some(part) = place.get() {
            return Ok(part);
        }
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = place.get() {
            return Ok(part);
        }
        let engine = self.engine.upgrade().ok_or_else(|| no_part(&self.inputs, number))?;
        let part = self.link(number, engine.part(&self.inputs, number)?)?;
        Ok(place.get_or_init(|| part))
    }

    /// Looks up the imports of a part in the exports of the parts before it.
    fn link(&self, number: usize, module: Module) -> Result<Part, RuntimeError> {
        let before = self.loaded.iter().take(number.saturating_sub(1)).filter_map(OnceLock::get);
        let exporting: Vec<&Module> = std::iter::once(&self.base).chain(before.map(|part| &part.module)).collect();
        let find = |import: wasmtime::ImportType<'_>| {
            // The first part exports the memory as `memory`, not under the name of the import.
            let name = if import.module() == MEMORY_IMPORT.0 { MEMORY } else { import.name() };
            let mut found = exporting.iter().enumerate();
            let found = found.find_map(|(nth, module)| Some((nth, module.get_export_index(name)?)));
            found.ok_or_else(|| invalid_code(&self.inputs, &wasmtime::Error::msg(format!("`{name}` is missing"))))
        };
        let imports = module.imports().map(find).collect::<Result<_, _>>()?;
        Ok(Part { module, imports })
    }
}

/// The export name of the memory that WASI requires.
const MEMORY: &str = "memory";

fn no_part(inputs: &CodeInputs, number: usize) -> RuntimeError {
    RuntimeError::Load { name: inputs.name.clone(), reason: format!("its code has no part {number}") }
}

fn invalid_code(inputs: &CodeInputs, error: &dyn Display) -> RuntimeError {
    RuntimeError::Load { name: inputs.name.clone(), reason: format!("{error:#}") }
}

/// Returns the progress message for compiling code. The message contains an estimate of the time, unless the estimate
/// is below [`MIN_SHOWN_SECONDS`].
fn compiling(inputs: &CodeInputs, number: usize, code_bytes: usize) -> String {
    let name = &inputs.name;
    let what = match inputs.recipe.parts.get(number).filter(|_| number > 0) {
        Some(part) => format!("{} of `{name}`", part.name),
        None => format!("`{name}`"),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match code_bytes / COMPILED_BYTES_PER_SECOND / threads {
        0..MIN_SHOWN_SECONDS => format!("compiling {what}"),
        seconds => format!("compiling {what} (once, about {seconds} s; threads: {threads})"),
    }
}

/// The throughput of one compiler thread on an ordinary machine, in bytes per second.
const COMPILED_BYTES_PER_SECOND: usize = 600_000;
/// The shortest estimate to show, in seconds. Shorter compilations need no explanation.
const MIN_SHOWN_SECONDS: usize = 10;

/// The instantiated parts of a guest's code.
#[derive(Clone, Default)]
pub(crate) struct GuestParts {
    parts: Option<Arc<Parts>>,
    /// The instances of the loaded parts, in order, including the first part.
    instances: Vec<Instance>,
}

/// The module and the name of the function that loads parts.
const LOADER: (&str, &str) = ("glovebox", "load");

pub(crate) fn define_loader(linker: &mut Linker<GuestStoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(LOADER.0, LOADER.1, load)?;
    Ok(())
}

/// Enables a new instance of the first part to load the other parts.
pub(crate) fn enable(
    linker: &Linker<GuestStoreData>,
    store: &mut Store<GuestStoreData>,
    instance: Instance,
    parts: &Arc<Parts>,
) -> wasmtime::Result<()> {
    let missing = |name| wasmtime::Error::msg(format!("`{name}` is missing"));
    let slot = instance.get_global(&mut *store, rewrite::LOADER_EXPORT).and_then(|slot| slot.get(&mut *store).i32());
    let slot = slot.ok_or_else(|| missing(rewrite::LOADER_EXPORT))?;
    let table = instance.get_table(&mut *store, TABLE).ok_or_else(|| missing(TABLE))?;
    let loader = linker.get(&mut *store, LOADER.0, LOADER.1)?.into_func().ok_or_else(|| missing(LOADER.1))?;
    table.set(&mut *store, u64::from(slot.cast_unsigned()), Ref::Func(Some(loader)))?;
    store.data_mut().parts = GuestParts { parts: Some(Arc::clone(parts)), instances: vec![instance] };
    Ok(())
}

/// Loads the parts up to `number` that this guest has not loaded yet. If at least one part is loaded, refunds `fuel`,
/// which the guest used to call this function.
///
/// A guest that calls this function directly gains at most [`MAX_STUB_FUEL`](rewrite::MAX_STUB_FUEL) per part.
fn load(mut caller: Caller<'_, GuestStoreData>, number: i32, fuel: i32) -> wasmtime::Result<()> {
    let (fuel, number) = (u64::from(fuel.cast_unsigned()), usize::try_from(number).unwrap_or(usize::MAX));
    let parts = caller.data().parts.parts.clone();
    let parts = parts.filter(|parts| number <= parts.loaded.len() && fuel <= rewrite::MAX_STUB_FUEL.into());
    let parts = parts.ok_or_else(|| {
        wasmtime::Error::msg("the guest requested a part of its code that does not exist, or an excessive refund")
    })?;
    let first = caller.data().parts.instances.len();
    if first > number {
        return Ok(());
    }
    (first..=number).try_for_each(|next| instantiate(&mut caller, &parts, next))?;
    let left = fuel::left(&mut caller);
    fuel::set(&mut caller, left.saturating_add(fuel))
}

/// Instantiates a part. All parts before it must already be instantiated. Extends the guest's timeout by the time that
/// compiling and loading take.
fn instantiate(caller: &mut Caller<'_, GuestStoreData>, parts: &Parts, number: usize) -> wasmtime::Result<()> {
    let begun = caller.data().host.ctx.elapsed();
    let part = parts.part(number).inspect_err(|error| {
        tracing::error!(error = error as &dyn std::error::Error, "cannot load code for a script");
    })?;
    let took = caller.data().host.ctx.elapsed().saturating_sub(begun);
    caller.data_mut().host.ctx.extend(took);
    let mut imports = Vec::with_capacity(part.imports.len());
    for (exporter, export) in &part.imports {
        let exporter = caller.data().parts.instances.get(*exporter).copied();
        let import = exporter.and_then(|exporter| exporter.get_module_export(&mut *caller, export));
        imports.push(import.ok_or_else(|| wasmtime::Error::msg("an export of a part is missing"))?);
    }
    let instance = Instance::new(&mut *caller, &part.module, &imports)?;
    caller.data_mut().parts.instances.push(instance);
    Ok(())
}

#[cfg(test)]
mod tests {
    use glovebox_core::MemoryLimit;
    use glovebox_runtimes::CodePart;
    use glovebox_runtimes::rewrite::{code_of, initial_memory_of, part_of};
    use wasmtime::Val;

    use super::*;
    use crate::{Metering, config, exec::platform::EnginePlatform, guest::instantiate::Template};

    /// A module to split. `run` calls the function in a table slot. Slots 1 and 2 belong to the second part, slots 3
    /// and 4 to the third.
    const MODULE: &str = r#"(module
        (memory (export "memory") 1) (table (export "__table") 5 funcref) (elem (i32.const 1) $add $read $both $throw)
        (global $stack (export "stack") (mut i32) (i32.const 100)) (tag $error (param i64))
        (type $called (func (param i32 i64) (result i64)))
        (func (export "run") (param $slot i32) (param i32 i64) (result i64)
            (block $caught (result i64)
                (try_table (result i64) (catch $error $caught)
                    (call_indirect (type $called) (local.get 1) (local.get 2) (local.get $slot)))))
        (func $base (param i32) (result i64) (i64.extend_i32_u (i32.add (local.get 0) (global.get $stack))))
        (func $unused (drop (call $base (i32.const 0))))
        (func $add (type $called) (i64.add (call $base (local.get 0)) (local.get 1)))
        (func $read (type $called) (i64.load (local.get 0)))
        (func $both (type $called)
            (global.set $stack (i32.const 7))
            (i64.add (call $add (local.get 0) (local.get 1)) (call_indirect (type $called) (local.get 0) (local.get 1) (i32.const 2))))
        (func $throw (type $called) (throw $error (local.get 1)))
        (data (i32.const 8) "\05"))"#;

    fn template(engine: &wasmtime::Engine, ranges: &[(u32, u32)]) -> Template {
        let module = wat::parse_str(MODULE).unwrap();
        let code = code_of(&module).unwrap();
        let compile =
            |wasm: Vec<u8>, counter| Module::new(engine, glovebox_weave::metered(&wasm, counter).unwrap()).unwrap();
        let memory = Module::new(engine, initial_memory_of(&module).unwrap()).unwrap();
        let named: Vec<_> =
            ranges.iter().map(|range| CodePart { name: String::new(), functions: vec![*range] }).collect();
        let Some(later) = named.len().checked_sub(1) else {
            return Template::Apart {
                code: Code { base: compile(code, Counter::Own), parts: None },
                memory,
                globals: Vec::new(),
            };
        };
        let base = compile(part_of(&code, &named, 0).unwrap(), Counter::Own);
        let recipe =
            Recipe { driver: glovebox_runtimes::DriverKind::Cpython, exports: Default::default(), parts: named };
        let binary = BinarySource::File(PathBuf::new());
        let inputs = CodeInputs { name: "some".to_owned(), binary, recipe, keys: Vec::new() };
        let loaded = (0..later).map(|_| OnceLock::new()).collect();
        let parts = Parts { engine: Weak::new(), inputs, base: base.clone(), loaded, loading: Mutex::new(()) };
        for number in 1..=later {
            let part = part_of(&code, &parts.inputs.recipe.parts, number).unwrap();
            let part = compile(part, Counter::ImportedFrom(rewrite::BASE_IMPORT));
            let part = parts.link(number, part).unwrap();
            assert!(parts.loaded[number - 1].set(part).is_ok());
        }
        Template::Apart { code: Code { base, parts: Some(Arc::new(parts)) }, memory, globals: Vec::new() }
    }

    struct Guest {
        store: Store<GuestStoreData>,
        instance: Instance,
    }

    impl Guest {
        fn new(engine: &wasmtime::Engine, ranges: &[(u32, u32)]) -> Self {
            let mut linker = Linker::new(engine);
            define_loader(&mut linker).unwrap();
            fuel::define_refuel(&mut linker).unwrap();
            let state = GuestStoreData::new(Box::default(), MemoryLimit::from(u64::MAX), EnginePlatform::idle());
            let mut store = Store::new(engine, state);
            let instance = template(engine, ranges).instantiate(&linker, &mut store).unwrap();
            fuel::attach(&mut store, &instance);
            fuel::set(&mut store, 100_000).unwrap();
            Self { store, instance }
        }

        /// Returns the result and the remaining fuel.
        fn run(&mut self, slot: i32, args: (i32, i64)) -> (wasmtime::Result<i64>, u64) {
            let run = self.instance.get_typed_func::<(i32, i32, i64), i64>(&mut self.store, "run").unwrap();
            let result = run.call(&mut self.store, (slot, args.0, args.1));
            (result, fuel::left(&mut self.store))
        }

        fn loaded(&self) -> usize {
            self.store.data().parts.instances.len()
        }
    }

    const PARTS: [(u32, u32); 3] = [(0, 3), (3, 5), (5, 7)];

    #[test]
    fn divided_code_has_the_same_results_and_fuel() {
        let engine = config::wasmtime_engine(None, Metering::Fuel).unwrap();
        for order in [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2], [2, 2, 3, 3]] {
            let (mut whole, mut divided) = (Guest::new(&engine, &[]), Guest::new(&engine, &PARTS));
            assert_eq!((whole.loaded(), divided.loaded()), (0, 1));
            for slot in order {
                let (expected, left) = whole.run(slot, (8, 3));
                let (found, divided_left) = divided.run(slot, (8, 3));
                assert_eq!((found.unwrap(), divided_left), (expected.unwrap(), left), "{slot} in {order:?}");
                let global = |guest: &mut Guest| {
                    guest.instance.get_global(&mut guest.store, "stack").unwrap().get(&mut guest.store).i32()
                };
                assert_eq!(global(&mut whole), global(&mut divided));
            }
            assert_eq!(divided.loaded(), 3);
        }
        let mut first = Guest::new(&engine, &PARTS);
        assert_eq!(first.run(1, (1, 2)).0.unwrap(), 103);
        assert_eq!(first.loaded(), 2, "the second part is not needed");
    }

    #[test]
    fn guest_gains_nothing_from_the_loader() {
        let engine = config::wasmtime_engine(None, Metering::Fuel).unwrap();
        let mut guest = Guest::new(&engine, &PARTS);
        let table = guest.instance.get_table(&mut guest.store, TABLE).unwrap();
        let Some(Ref::Func(Some(loader))) = table.get(&mut guest.store, 5) else {
            panic!("the loader is in the last slot")
        };
        let mut call = |number: i32, fuel: i32| {
            let before = fuel::left(&mut guest.store);
            let called = loader.call(&mut guest.store, &[Val::I32(number), Val::I32(fuel)], &mut []);
            (called.is_ok(), fuel::left(&mut guest.store) - before)
        };
        let max = i32::try_from(rewrite::MAX_STUB_FUEL).unwrap();
        for (number, fuel) in [(1, max + 1), (1, -1), (3, 0), (-1, 0), (i32::MAX, 0)] {
            assert_eq!(call(number, fuel), (false, 0), "{number} {fuel}");
        }
        assert_eq!(call(0, max), (true, 0), "the base is loaded");
        assert_eq!(call(2, max), (true, u64::from(rewrite::MAX_STUB_FUEL)));
        assert_eq!(call(2, max), (true, 0), "both parts are loaded");
        assert_eq!(guest.loaded(), 3);
    }

    #[test]
    fn part_that_cannot_be_loaded_gives_no_fuel() {
        let engine = config::wasmtime_engine(None, Metering::Fuel).unwrap();
        let mut guest = Guest::new(&engine, &PARTS);
        let Some(parts) = guest.store.data().parts.parts.clone() else { panic!("the code has parts") };
        let (inputs, base) = (parts.inputs.clone(), parts.base.clone());
        let loaded = vec![OnceLock::new(), OnceLock::new()];
        let absent = Parts { engine: Weak::new(), inputs, base, loaded, loading: Mutex::new(()) };
        guest.store.data_mut().parts.parts = Some(Arc::new(absent));
        let (result, left) = guest.run(1, (8, 3));
        assert!(result.is_err());
        assert!(left < 100_000 + u64::from(rewrite::MAX_STUB_FUEL), "{left}");
        assert_eq!(guest.loaded(), 1);
    }
}
