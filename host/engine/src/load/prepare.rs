//! Prepares a runtime: boots it once, parks it, and saves its memory as the module's initial data. Also fills, measures
//! and prunes the cache of compiled code.
//!
//! Preparation is deterministic: the same binary and the same boot code produce the same image, byte for byte. The boot
//! has a fixed clock, seeded entropy, a fixed environment, and only the files of the library, the packages and the
//! image. Equal fuel use, resuming on other machines, and replay depend on deterministic preparation.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox_core::{Library, LibraryMount, PACKAGES_PATH, WORKSPACE, boot_wasi};
use glovebox_interpreters::{Anchors, Boot, COMPILED_FILE, DriverError, Machine, MachineError};
use glovebox_runtimes::{
    Artefact, ArtefactKey, BuildError, CacheEntry, CacheKind, CustomImage, Digest, Eviction, ImageDefinition,
    ImageInputs, ImageOf, ImageRecord, NewArtefact, Recipe,
    rewrite::{self, BootableModule, GlobalKind, GlobalValue, Image, MutableGlobal},
};
use glovebox_vfs::MountSource;
use glovebox_wasi::{Stop, WasiLimits};
use serde::Serialize;
use wasmtime::{Module, Val};

use crate::{
    CacheLimits, Engine, Limits, RuntimeError, Timestamp,
    engine::EngineInner,
    exec::platform::EnginePlatform,
    guest::{self, instantiate::Template, machine::GuestMachine},
    load::{
        parts::Code,
        runtime::{SharedPackages, driver},
    },
};

/// The timeout of a boot. Long enough for a slow machine.
const BOOT_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of trailing characters of the output to quote if an interpreter does not boot.
const EXPLAINED_CHARS: usize = 2000;

/// The key of the setup's output in the notes of an image record. Only the last `NOTED_CHARS` characters are stored.
pub(crate) const SETUP_OUTPUT: &str = "setup_output";
const NOTED_CHARS: usize = 16_000;

/// The setup to run in a booted interpreter before the snapshot.
pub(crate) struct Setup<'a> {
    image: &'a ImageOf,
    own: Option<&'a ImageDefinition>,
    inputs: ImageInputs,
    packages: Vec<(String, Vec<u8>)>,
}

impl<'a> Setup<'a> {
    pub(crate) fn of(image: &'a ImageOf, own: Option<&'a CustomImage>) -> Result<Self, RuntimeError> {
        let (inputs, packages) = match own {
            Some(own) => (own.inputs()?, own.packages()?),
            None => Default::default(),
        };
        Ok(Self { image, own: own.map(CustomImage::definition), inputs, packages })
    }

    /// Takes the input files and returns them as a mount source for the workspace.
    fn workspace(&mut self) -> Option<Arc<dyn MountSource>> {
        let mut files = std::mem::take(&mut self.inputs.files);
        files.sort();
        (!files.is_empty()).then(|| Arc::new(Library(files)) as _)
    }

    /// Returns the interpreter's memory limit in bytes, and the time limit of each step, including its preload and its
    /// script.
    fn limits(&self) -> (u64, Duration) {
        match self.own {
            Some(definition) => (definition.memory_bytes, Duration::from_millis(definition.timeout_ms)),
            None => (Limits::MAX_MEMORY_BYTES, BOOT_TIMEOUT),
        }
    }

    /// Runs all steps and returns their output.
    fn run(
        &self,
        driver: &dyn Boot,
        machine: &mut GuestMachine,
        anchors: &Anchors,
        inner: &EngineInner,
    ) -> Result<String, String> {
        let (memory_bytes, timeout) = self.limits();
        let mut wrote = String::new();
        for step in &self.image.steps {
            let started = Instant::now();
            for code in [driver.preload_code(&step.preload), step.code.clone()] {
                if code.trim().is_empty() {
                    continue;
                }
                let progress = Some(Arc::clone(&inner.progress) as _);
                let platform = EnginePlatform { progress, ..EnginePlatform::default() };
                machine.store.data_mut().host.ctx = platform.begin(timeout.saturating_sub(started.elapsed()));
                driver.set_up(machine, anchors, &code).map_err(|error| match error {
                    DriverError::Setup(raised) => with_memory(raised, machine, memory_bytes),
                    DriverError::Machine(MachineError::Stopped(Stop::Deadline)) => {
                        format!(
                            "it did not end within {} ms; raise the limit (`--timeout-ms`) or reduce the setup",
                            timeout.as_millis()
                        )
                    }
                    DriverError::Machine(MachineError::Stopped(Stop::Cancelled)) => "it was cancelled".to_owned(),
                    error => with_memory(explain(&error, machine), machine, memory_bytes),
                })?;
                let output = machine.wasi().take_output();
                for captured in [output.stdout, output.stderr] {
                    wrote.push_str(&captured.text());
                }
            }
        }
        Ok(wrote)
    }
}

/// Adds the memory limit to an error message if the guest was refused memory.
fn with_memory(mut reason: String, machine: &GuestMachine, memory_bytes: u64) -> String {
    if machine.store.data().host.limiter.refused_bytes().is_some() {
        reason.truncate(reason.trim_end().len());
        reason.push_str(&format!("\nthe memory limit is {memory_bytes} bytes; raise the limit (`--memory-bytes`)"));
    }
    reason
}

/// The modules and the record of an interpreter that was booted and parked.
pub(crate) struct BootedInterpreter {
    /// The module with the image as its initial state: the input for weaving providers. The module's digest is the
    /// image's identity.
    pub(crate) module: Vec<u8>,
    /// The module that defines only the image's memory, which the interpreter's code imports.
    pub(crate) memory: Vec<u8>,
    pub(crate) record: ImageRecord,
}

/// Boots an interpreter, runs its setup and takes the snapshot.
pub(crate) fn boot(
    inner: &EngineInner,
    name: &str,
    bootable: BootableModule,
    code: Code,
    recipe: &Recipe,
    (library, mut setup): (Option<&LibraryMount>, Option<Setup<'_>>),
) -> Result<BootedInterpreter, RuntimeError> {
    let rewriting = |source| RuntimeError::Rewrite { name: name.to_owned(), source };
    let loading = |error: wasmtime::Error| RuntimeError::Load { name: name.to_owned(), reason: format!("{error:#}") };
    let booting = |reason: String| RuntimeError::Boot { name: name.to_owned(), reason };

    let memory = rewrite::initial_memory_of(&bootable.bytes).map_err(rewriting)?;
    let memory = Module::new(&inner.wasmtime, &memory).map_err(loading)?;
    let template = Template::Apart { code, memory, globals: Vec::new() };

    inner.progress.message(&format!("booting `{name}`"));
    let driver = driver(recipe, inner.is_lean());
    let _running = inner.running().map_err(|error| booting(error.to_string()))?;
    let packages = match (&inner.packages, driver.compiler_args()) {
        (Some(packages), Some(args)) => {
            inner.runtimes.fetch_packages(&*inner.progress)?;
            inner.progress.message("compiling the Python packages");
            let compiled = compile_packages(inner, &template, &*driver, args, (packages, library)).map_err(booting)?;
            inner.progress.message(&format!("booting `{name}`"));
            let own = setup.as_ref().map(|setup| setup.packages.clone()).unwrap_or_default();
            Some(packages.source_with(compiled.into_iter().chain(own).collect())?)
        }
        _ => None,
    };
    let mounts = mounts(library, packages);
    let workspace = setup.as_mut().and_then(Setup::workspace);
    let wasi = boot_wasi(driver.boot_args(), driver.boot_env(), workspace, mounts);
    let mut wasi = wasi.map_err(|error| booting(error.to_string()))?;
    let memory_bytes = setup.as_ref().map_or(Limits::MAX_MEMORY_BYTES, |setup| setup.limits().0);
    // Under the default limit, the file system would have no memory left once the interpreter occupies 128 MB.
    wasi.set_limits(WasiLimits { memory_bytes, ..WasiLimits::default() });
    let run = EnginePlatform::default().begin(BOOT_TIMEOUT);
    let mut machine = guest::instantiate(inner, &template, Box::new(wasi), memory_bytes.into(), run)
        .map_err(|error| booting(error.to_string()))?;
    let anchors = driver.boot(&mut machine).map_err(|error| booting(explain(&error, &mut machine)))?;
    let mut notes = BTreeMap::new();
    let failed = |reason| RuntimeError::Setup { name: name.to_owned(), reason };
    let has_setup = setup.is_some();
    if let Some(setup) = setup {
        inner.progress.message(&format!("running the setup of `{name}`"));
        let ran = setup.run(&*driver, &mut machine, &anchors, inner);
        let wrote = ran.map_err(failed)?;
        notes.insert(SETUP_OUTPUT.to_owned(), end_of(&wrote, NOTED_CHARS).to_owned());
    }
    machine.store.data_mut().host.ctx = EnginePlatform::default().begin(BOOT_TIMEOUT);
    let anchors = driver.settle(&mut machine, anchors).map_err(|error| booting(explain(&error, &mut machine)))?;

    let open = machine.wasi().open_files();
    if open > 0 {
        return Err(if has_setup {
            failed(format!("the setup left files open ({open}); close them"))
        } else {
            booting(format!("the interpreter left files open ({open})"))
        });
    }

    let globals = read_globals(&mut machine, &bootable.globals).map_err(booting)?;
    let values =
        bootable.globals.iter().zip(&globals).map(|(global, (_, value))| (global.export.clone(), value.bits()));
    let image = Image { memory: machine.memory(), globals: &globals };
    let module = rewrite::with_image(&bootable.bytes, &image).map_err(rewriting)?;
    let record = ImageRecord {
        sha256: Digest::of(&module),
        prepared: true,
        memory_bytes: machine.memory().len() as u64,
        anchors: anchors.0,
        values: values.collect(),
        globals: bootable.globals,
        restorable: rewrite::changes_only_memory_and_globals(&module).map_err(rewriting)?,
        notes,
    };
    let memory = rewrite::memory_of(&bootable.bytes, machine.memory()).map_err(rewriting)?;
    Ok(BootedInterpreter { module, memory, record })
}

/// Returns the values of an image's globals with their export names.
pub(crate) fn values(record: &ImageRecord) -> Vec<(String, Val)> {
    let value = |global: &MutableGlobal| {
        let bits = *record.values.get(&global.export)?;
        Some((global.export.clone(), of_bits(global.kind, bits)?))
    };
    record.globals.iter().filter_map(value).collect()
}

/// Decodes a global's value. Returns `None` if `bits` is out of range for the type.
fn of_bits(kind: GlobalKind, bits: u64) -> Option<Val> {
    Some(match kind {
        GlobalKind::I32 => Val::I32(u32::try_from(bits).ok()?.cast_signed()),
        GlobalKind::I64 => Val::I64(bits.cast_signed()),
        GlobalKind::F32 => Val::F32(u32::try_from(bits).ok()?),
        GlobalKind::F64 => Val::F64(bits),
    })
}

/// Returns a booting interpreter's mounts.
fn mounts(
    library: Option<&LibraryMount>,
    packages: Option<Arc<dyn MountSource>>,
) -> Vec<(String, Arc<dyn MountSource>)> {
    let library = library.map(|library| (library.directory.clone(), Arc::clone(&library.source)));
    let packages = packages.map(|packages| (PACKAGES_PATH.to_owned(), packages));
    library.into_iter().chain(packages).collect()
}

/// Compiles the packages with the interpreter itself. Uses a separate instance to keep the memory for the compilation
/// out of the image.
fn compile_packages(
    inner: &EngineInner,
    template: &Template,
    driver: &dyn Boot,
    args: Vec<String>,
    (packages, library): (&SharedPackages, Option<&LibraryMount>),
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let packages = packages.source_with(Vec::new()).map_err(|error| error.to_string())?;
    let mounts = mounts(library, Some(packages));
    let mut wasi = boot_wasi(args, driver.boot_env(), None, mounts).map_err(|error| error.to_string())?;
    wasi.allow_parking(false);
    let run = EnginePlatform::default().begin(BOOT_TIMEOUT);
    let mut machine = guest::instantiate(inner, template, Box::new(wasi), Limits::MAX_MEMORY_BYTES.into(), run)
        .map_err(|error| error.to_string())?;
    driver.compile_packages(&mut machine).map_err(|error| explain(&error, &mut machine))?;
    let wasi = machine.wasi();
    let root = wasi.mount_root(WORKSPACE).ok_or("the compiler's workspace is missing")?;
    let written = wasi.vfs_mut().read_file(root, COMPILED_FILE, Limits::MAX_MEMORY_BYTES);
    let written = written.map_err(|error| format!("cannot compile the packages: {error}"))?;
    driver.compiled_packages(&written).map_err(|error| error.to_string())
}

fn read_globals(machine: &mut GuestMachine, globals: &[MutableGlobal]) -> Result<Vec<(u32, GlobalValue)>, String> {
    let read = |global: &MutableGlobal| {
        let value = match machine.global_value(&global.export) {
            Some(Val::I32(value)) => GlobalValue::I32(value.cast_unsigned()),
            Some(Val::I64(value)) => GlobalValue::I64(value.cast_unsigned()),
            Some(Val::F32(bits)) => GlobalValue::F32(bits),
            Some(Val::F64(bits)) => GlobalValue::F64(bits),
            _ => return Err(format!("global {} cannot be saved", global.index)),
        };
        Ok((global.index, value))
    };
    globals.iter().map(read).collect()
}

/// Describes a failed boot, including the end of the interpreter's output.
fn explain(error: &DriverError, machine: &mut GuestMachine) -> String {
    let mut text = format!("{error}");
    if let DriverError::Machine(MachineError::Stopped(stop)) = error {
        text.push_str(&format!(" ({stop:?})"));
    }
    let output = machine.wasi().take_output();
    for captured in [output.stdout, output.stderr] {
        if !captured.bytes.is_empty() {
            text.push_str(&format!("; its output was: {}", end_of(&captured.text(), EXPLAINED_CHARS).trim_end()));
        }
    }
    text
}

/// Returns the last `chars` characters of a string.
fn end_of(text: &str, chars: usize) -> &str {
    let Some(before) = chars.checked_sub(1) else { return "" };
    let start = text.char_indices().rev().nth(before).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

impl CacheLimits {
    /// Returns groups of cache kinds, each with the size limit that the group shares.
    fn shared(&self) -> [(&'static [CacheKind], u64); 2] {
        [
            (&[CacheKind::Code, CacheKind::Images, CacheKind::Modules], self.image_bytes),
            (&[CacheKind::Components], self.component_bytes),
        ]
    }
}

/// The cache usage by entries of one kind.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CacheUsage {
    /// The kind of the entries.
    pub kind: CacheKind,
    /// The number of entries, including entries for other versions and settings.
    pub count: u64,
    /// The number of entries that a process has open or is building now. Always 0 for binaries and packages, because
    /// they are closed once they have been read.
    pub in_use: u64,
    /// The size on disk, in bytes.
    pub bytes: u64,
    /// The most recent use of any of these entries, or `None` if there are none. For binaries and packages, this is the
    /// file system's access time.
    pub last_used: Option<Timestamp>,
}

/// Selects the compiled code to remove from the cache. `default()` applies the engine's [`CacheLimits`]. Change
/// individual fields to override them.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CachePrune {
    /// Removes entries that have not been used for this long. If this field or `max_bytes` is set, the engine's own
    /// limits do not apply.
    pub older_than: Option<Duration>,
    /// Removes the least recently used code until the total size of all kinds is at most this many bytes.
    pub max_bytes: Option<u64>,
    /// `true` to only report the entries that would be removed.
    pub dry_run: bool,
}

/// A cache entry that was selected for pruning.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CachePruned {
    /// The kind of the entry.
    pub kind: CacheKind,
    /// The common prefix of the entry's file names.
    pub name: String,
    /// The size on disk, in bytes.
    pub bytes: u64,
    /// The time of the last use.
    pub last_used: Timestamp,
}

/// The result of pruning.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct CachePruneReport {
    /// Entries that were removed, or that would be removed in a dry run.
    pub removed: Vec<CachePruned>,
    /// Entries that were selected but remain, because they are in use.
    pub in_use: Vec<CachePruned>,
    /// Bytes freed on disk, or bytes that would be freed in a dry run.
    pub freed_bytes: u64,
    /// `true` for a dry run, in which nothing was removed.
    pub dry_run: bool,
}

impl From<CacheEntry> for CachePruned {
    fn from(entry: CacheEntry) -> Self {
        Self { kind: entry.kind, name: entry.name, bytes: entry.bytes, last_used: entry.last_used.into() }
    }
}

impl Engine {
    /// Returns the cache usage for each kind of entry.
    ///
    /// # Errors
    /// Fails if the cache cannot be read.
    pub fn cache_usage(&self) -> Result<Vec<CacheUsage>, RuntimeError> {
        let empty = |kind| (kind, CacheUsage { kind, count: 0, in_use: 0, bytes: 0, last_used: None });
        let mut usages: BTreeMap<CacheKind, CacheUsage> = CacheKind::ALL.into_iter().map(empty).collect();
        for entry in self.0.runtimes.cached(&CacheKind::ALL)? {
            let Some(usage) = usages.get_mut(&entry.kind) else { continue };
            usage.count += 1;
            usage.in_use += u64::from(entry.in_use);
            usage.bytes = usage.bytes.saturating_add(entry.bytes);
            usage.last_used = usage.last_used.max(Some(entry.last_used.into()));
        }
        Ok(usages.into_values().collect())
    }

    /// Removes compiled code from the cache: the code of runtimes, prepared images, prepared modules and compiled
    /// components. Code that this or another process is using is not removed. Removed code is rebuilt at its next use,
    /// without the network.
    ///
    /// # Errors
    /// Fails if the cache cannot be read or changed.
    pub fn prune_cache(&self, prune: &CachePrune) -> Result<CachePruneReport, RuntimeError> {
        let CachePrune { older_than, max_bytes, dry_run } = *prune;
        let evict = |kinds: &[CacheKind], max_age, max_bytes| {
            self.0.runtimes.evict(kinds, &Eviction { max_age, max_bytes, keep: None, dry_run })
        };
        let limits = &self.0.cache;
        let evicted = match (older_than, max_bytes) {
            (None, None) => {
                let shared = limits.shared();
                let each = shared.iter().map(|(kinds, bytes)| evict(kinds, Some(limits.max_age), Some(*bytes)));
                each.collect::<Result<Vec<_>, _>>()?
            }
            _ => vec![evict(&CacheKind::EVICTABLE, older_than, max_bytes)?],
        };
        let mut report = CachePruneReport { dry_run, ..CachePruneReport::default() };
        for evicted in evicted {
            report.removed.extend(evicted.removed.into_iter().map(CachePruned::from));
            report.in_use.extend(evicted.in_use.into_iter().map(CachePruned::from));
        }
        report.freed_bytes = report.removed.iter().fold(0, |sum, pruned| sum.saturating_add(pruned.bytes));
        Ok(report)
    }
}

impl EngineInner {
    /// Returns the artefact with this key from the cache, and builds it first if it is missing. Only adding an artefact
    /// evicts other artefacts, because eviction reads the whole cache directory.
    pub(crate) fn open_or_build<E>(
        &self,
        kind: CacheKind,
        key: &ArtefactKey,
        build: impl FnOnce() -> Result<NewArtefact, E>,
    ) -> Result<Artefact, BuildError<E>> {
        let artefact = self.runtimes.compiled(kind).open_or_build(key, &*self.progress, build)?;
        if artefact.is_new {
            self.make_room(kind, key);
        }
        Ok(artefact)
    }

    /// Removes artefacts that exceed the cache's limits, except artefacts that are open or have this key.
    pub(crate) fn make_room(&self, kind: CacheKind, keep: &ArtefactKey) {
        let shared = self.cache.shared().into_iter().find(|(kinds, _)| kinds.contains(&kind));
        let Some((kinds, max_bytes)) = shared else { return };
        let eviction = Eviction {
            max_age: Some(self.cache.max_age),
            max_bytes: Some(max_bytes),
            keep: Some(keep),
            dry_run: false,
        };
        // The artefact is already open, so a failure here does not affect the caller.
        if let Err(error) = self.runtimes.evict(kinds, &eviction) {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot free space in the cache");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn end_of_text_is_exact() {
        for (chars, end) in [(0, ""), (1, "ü"), (2, "cü"), (4, "aßcü"), (5, "aßcü")] {
            assert_eq!(super::end_of("aßcü", chars), end, "{chars}");
        }
    }
}
