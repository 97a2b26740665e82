//! Loads a runtime by name or path: fetches, prepares, compiles and caches it, and returns a [`Runtime`] that is ready
//! to run.

use std::{borrow::Cow, path::Path, sync::Arc, thread};

use glovebox_core::LibraryMount;
use glovebox_runtimes::{
    Artefact, ArtefactKey, Binary, BuildError, CacheKind, CustomImage, CustomImageError, Digest, DriverKind, ImageOf,
    ImageRecord, KeyParts, ManifestError, NewArtefact, PreparedError, Recipe, RuntimeEntry, rewrite,
};
use glovebox_vfs::MountSource;
use glovebox_weave::Counter;
use wasmtime::Module;

use crate::{
    Language, RuntimeError,
    engine::{EngineInner, compile_digest},
    guest::{fuel, instantiate::Template, recycled::RecycledInstances},
    load::{
        aot,
        parts::{BinarySource, CodeInputs},
        prepare::{self, BootedInterpreter, Setup},
        runtime::{ExecutionMode, Image, Runtime, SharedPackages, display_name, driver, library_mount},
    },
};

/// The version of code rewriting and fuel metering, part of the cache keys of code and images. Change this text with
/// every change to either. Images depend on both because booting runs the rewritten code.
const CODE_VERSION: &[u8] = concat!(
    env!("CARGO_PKG_VERSION"),
    " with an imported memory, the last buffer in it, loops and orders of scipy, calls of QuickJS, errors of floating-point numbers",
    ", indices that are checked in groups, a counter of its fuel whose checks have hints, blocks that are reused first",
    ", direct calls of allocators and destructors"
)
.as_bytes();

/// Wasmtime's major version, part of the cache keys of compiled code. Wasmtime's own check at load time is
/// authoritative.
const WASMTIME: &str = "48";

/// Inputs for building and running a runtime.
struct RuntimePlan<'a> {
    name: String,
    language: Language,
    version: Option<String>,
    binary: BinarySource,
    sha256: Digest,
    recipe: Option<&'a Recipe>,
    /// The name of the recipe, used as the label of cached code.
    recipe_name: String,
    /// The manifest entry of the standard library, if that is a separate file.
    library: Option<RuntimeEntry>,
    /// The setup that runs in the booted interpreter before the snapshot.
    image: Option<ImageOf>,
    /// The definition and the inputs of a custom image.
    own: Option<Arc<CustomImage>>,
    /// The arguments of a plain command that precede the script's path.
    flags: &'static [&'static str],
}

/// A runtime or custom image that was found by name.
pub(crate) struct FoundRuntime<'a> {
    pub(crate) entry: Cow<'a, RuntimeEntry>,
    /// The definition and the inputs of a custom image.
    pub(crate) own: Option<Arc<CustomImage>>,
}

impl<'a> From<&'a RuntimeEntry> for FoundRuntime<'a> {
    fn from(entry: &'a RuntimeEntry) -> Self {
        Self { entry: Cow::Borrowed(entry), own: None }
    }
}

impl RuntimePlan<'_> {
    /// Converts a Wasmtime error.
    fn wrong(&self, error: &wasmtime::Error) -> RuntimeError {
        RuntimeError::Load { name: self.name.clone(), reason: format!("{error:#}") }
    }

    fn key(&self, inner: &EngineInner) -> ArtefactKey {
        let label = match &self.version {
            Some(version) => format!("{}-{version}", self.name),
            None => "custom".to_owned(),
        };
        let recipe = match self.recipe {
            Some(recipe) => {
                let driver = driver(recipe, inner.is_lean());
                let arguments = format!("{:?}{:?}", driver.boot_args(), driver.boot_env());
                // The digest of the boot code covers neither the Rust part of the boot, such as the stack layout, nor
                // the WASI implementation. A change to either that affects images must also change the text after the
                // version.
                let version = concat!(
                    env!("CARGO_PKG_VERSION"),
                    " with its memory apart, settled at last, with 512 KiB of its stack, floating-point errors, sources, and one check of interrupts"
                )
                .as_bytes();
                let compiler = driver.compiler_args();
                let packages = inner.packages.as_ref().filter(|_| compiler.is_some()).map(SharedPackages::digest);
                let packages = packages.as_ref().map_or(&[][..], |digest| digest.as_bytes());
                let arguments = format!("{arguments}{compiler:?}");
                let recipe = recipe.digest();
                let common =
                    [recipe.as_bytes(), driver.boot_code(), arguments.as_bytes(), packages, version, CODE_VERSION];
                let definition_digest = self.image.as_ref().map(|image| self.definition_digest(image));
                let definition_digest = definition_digest.as_ref().map(|digest| digest.as_bytes().as_slice());
                Digest::of_fields(&common.into_iter().chain(definition_digest).collect::<Vec<_>>())
            }
            None => Digest::of(b"a plain command"),
        };
        self.keyed(inner, label, recipe)
    }

    /// Returns a digest of the definition of a custom image, or of the setups of an image in the manifest.
    fn definition_digest(&self, image: &ImageOf) -> Digest {
        match &self.own {
            Some(own) => own.definition().digest(),
            None => Digest::of_fields(&image.steps.iter().map(|step| step.code.as_bytes()).collect::<Vec<_>>()),
        }
    }

    /// Returns the inputs of the compiled code, which all images with the same binary and recipe share.
    fn code(&self, inner: &EngineInner, recipe: &Recipe) -> CodeInputs {
        let key = |part: usize| {
            let digest = Digest::of_fields(&[recipe.digest().as_bytes(), CODE_VERSION, &part.to_le_bytes()]);
            self.keyed(inner, self.recipe_name.clone(), digest)
        };
        let keys = (0..recipe.parts.len().max(1)).map(key).collect();
        CodeInputs { name: self.name.clone(), binary: self.binary.clone(), recipe: recipe.clone(), keys }
    }

    fn keyed(&self, inner: &EngineInner, label: String, recipe: Digest) -> ArtefactKey {
        artefact_key(&inner.wasmtime, label, self.sha256, recipe)
    }
}

/// Returns the cache key of code that this Wasmtime engine compiles for this machine's architecture.
pub(crate) fn artefact_key(wasmtime: &wasmtime::Engine, label: String, runtime: Digest, recipe: Digest) -> ArtefactKey {
    ArtefactKey::new(KeyParts {
        label,
        runtime,
        recipe,
        wasmtime: WASMTIME.into(),
        settings: compile_digest(wasmtime).to_string(),
        target: std::env::consts::ARCH.into(),
    })
}

impl EngineInner {
    /// Loads a runtime or a custom image by name. Fails for a custom image if `prepared` is `false`, because its setup
    /// would not run.
    pub(crate) fn load_named(&self, name: &str, prepared: bool) -> Result<Arc<Runtime>, RuntimeError> {
        let found = self.find(name)?;
        if !prepared && found.own.is_some() {
            let reason = "a custom image cannot run as a plain command, which skips its setup; remove \
                          `prepared(false)` (`--no-prepare`), or use a runtime from `glovebox runtimes list`"
                .to_owned();
            return Err(RuntimeError::Load { name: found.entry.name.clone(), reason });
        }
        self.load(&self.plan(&found, prepared))
    }

    /// Finds a runtime or a custom image by name.
    pub(crate) fn find(&self, name: &str) -> Result<FoundRuntime<'_>, RuntimeError> {
        let unknown = match self.runtimes.manifest().find(name) {
            Ok(entry) => return Ok(entry.into()),
            Err(unknown) => unknown,
        };
        let Some(own) = &self.custom_images else { return Err(unknown.into()) };
        match own.find(name)? {
            Some(image) => self.custom_runtime(Arc::new(image)),
            None => Err(with_own(unknown, own.names().unwrap_or_default()).into()),
        }
    }

    /// Converts a custom image to a runtime.
    pub(crate) fn custom_runtime(&self, image: Arc<CustomImage>) -> Result<FoundRuntime<'_>, RuntimeError> {
        Ok(FoundRuntime { entry: Cow::Owned(image.entry(self.runtimes.manifest())?), own: Some(image) })
    }

    /// Returns the name of a language's default runtime. The first result is cached, so runtimes that are added
    /// later affect only new engines.
    pub(crate) fn preferred(&self, wanted: Language) -> Result<&str, RuntimeError> {
        let (of_manifest, preferred) = match wanted {
            Language::Python => (glovebox_runtimes::Language::Python, &self.preferred.0),
            Language::JavaScript => (glovebox_runtimes::Language::JavaScript, &self.preferred.1),
        };
        if let Some(name) = preferred.get() {
            return Ok(name);
        }
        for name in &self.default_runtimes {
            let entry = self.find(name)?.entry;
            if language(entry.language) == wanted {
                return Ok(preferred.get_or_init(|| entry.name.clone()));
            }
        }
        let found = self.runtimes.preferred(of_manifest)?;
        Ok(preferred.get_or_init(|| found.map_or_else(|| wanted.name().to_owned(), |entry| entry.name.clone())))
    }

    /// Returns `true` if this is the default runtime of its language.
    pub(crate) fn is_preferred(&self, entry: &RuntimeEntry) -> bool {
        self.preferred(language(entry.language)).is_ok_and(|name| name == entry.name)
    }

    /// Returns `true` if components can request the runtime by name. A runtime with a separate library takes minutes to
    /// prepare, so it is offered only if it is the default or was added.
    pub(crate) fn is_offered(&self, entry: &RuntimeEntry) -> bool {
        entry.library.is_none() || self.is_preferred(entry) || self.runtimes.is_added(entry).unwrap_or(false)
    }

    /// Loads a binary by path. If its digest is in the manifest, the binary is loaded like the runtime of that entry.
    pub(crate) fn load_path(
        &self,
        path: &Path,
        language: Option<Language>,
        prepared: bool,
    ) -> Result<Arc<Runtime>, RuntimeError> {
        let binary = self.runtimes.load_custom(path)?;
        if let Some(entry) = &binary.entry {
            let plan =
                RuntimePlan { binary: BinarySource::File(path.to_owned()), ..self.plan(&entry.into(), prepared) };
            return self.load(&plan);
        }
        let plan = RuntimePlan {
            name: display_name(&binary),
            language: language.unwrap_or(Language::Python),
            version: None,
            binary: BinarySource::File(path.to_owned()),
            sha256: binary.sha256,
            recipe: None,
            recipe_name: String::new(),
            library: None,
            image: None,
            own: None,
            flags: &[],
        };
        self.load(&plan)
    }

    fn plan(&self, FoundRuntime { entry, own }: &FoundRuntime<'_>, prepared: bool) -> RuntimePlan<'_> {
        let recipe = self.runtimes.manifest().recipe(&entry.recipe);
        // Scripts expect the modules `std` and `os`, as in the prepared image.
        let is_qjs = recipe.is_some_and(|recipe| recipe.driver == DriverKind::QuickjsCommand);
        RuntimePlan {
            name: entry.name.clone(),
            language: language(entry.language),
            version: Some(entry.version.clone()),
            binary: BinarySource::Manifest(Box::new(entry.clone().into_owned())),
            sha256: entry.sha256,
            recipe: recipe.filter(|_| prepared),
            recipe_name: entry.recipe.clone(),
            library: entry.library.is_some().then(|| entry.clone().into_owned()),
            image: entry.image.clone(),
            own: own.clone(),
            flags: if is_qjs { &["--std"] } else { &[] },
        }
    }

    /// Returns the cache key of a runtime's prepared image.
    pub(crate) fn image_key(&self, found: &FoundRuntime<'_>) -> ArtefactKey {
        self.plan(found, true).key(self)
    }

    /// Returns `true` if a runtime's prepared image and all its code are in the cache.
    pub(crate) fn is_prepared(&self, found: &FoundRuntime<'_>) -> Result<bool, RuntimeError> {
        let plan = self.plan(found, true);
        let has_code = match plan.recipe {
            Some(recipe) => {
                let code = self.runtimes.code();
                let keys = plan.code(self, recipe).keys;
                keys.iter().try_fold(true, |all, key| Ok::<_, PreparedError>(all && code.open(key)?.is_some()))?
            }
            None => true,
        };
        Ok(has_code && self.runtimes.prepared().open(&plan.key(self))?.is_some())
    }

    /// Returns a runtime's prepared image. Builds the image and all its code if they are missing.
    pub(crate) fn artefact(&self, found: &FoundRuntime<'_>) -> Result<Artefact, RuntimeError> {
        let plan = self.plan(found, true);
        let code = plan.recipe.map(|recipe| plan.code(self, recipe));
        let parts =
            code.iter().flat_map(|code| (0..code.keys.len()).map(move |number| self.part_artefact(code, number)));
        // Holds the code, so that building the image cannot evict it, as in `load`.
        let _code = parts.collect::<Result<Vec<_>, _>>()?;
        self.image_of(&plan, &plan.key(self))
    }

    /// Returns a runtime's image and its compiled code, for a prepared bundle. For an image with a setup, the code
    /// consists of all parts. Otherwise, it consists of the first part, which every script needs. Builds missing
    /// artefacts.
    pub(crate) fn artefacts(
        &self,
        found: &FoundRuntime<'_>,
    ) -> Result<Vec<(CacheKind, ArtefactKey, Artefact)>, RuntimeError> {
        let plan = self.plan(found, true);
        let mut artefacts = Vec::new();
        if let Some(code) = plan.recipe.map(|recipe| plan.code(self, recipe)) {
            let count = if plan.image.is_some() { code.keys.len() } else { 1 };
            for (number, key) in code.keys.iter().enumerate().take(count) {
                artefacts.push((CacheKind::Code, key.clone(), self.part_artefact(&code, number)?));
            }
        }
        let key = plan.key(self);
        let image = self.image_of(&plan, &key)?;
        artefacts.push((CacheKind::Images, key, image));
        Ok(artefacts)
    }

    /// Compares the full digests of a runtime's code and image with the recorded digests. Skips missing files.
    pub(crate) fn verify_prepared(&self, found: &FoundRuntime<'_>) -> Result<(), RuntimeError> {
        let plan = self.plan(found, true);
        for key in plan.recipe.iter().flat_map(|recipe| plan.code(self, recipe).keys) {
            if let Some(code) = self.runtimes.code().open(&key)? {
                self.runtimes.code().verify(&code)?;
            }
        }
        if let Some(image) = self.runtimes.prepared().open(&plan.key(self))? {
            self.runtimes.prepared().verify(&image)?;
        }
        Ok(())
    }

    fn load(&self, plan: &RuntimePlan<'_>) -> Result<Arc<Runtime>, RuntimeError> {
        let key = plan.key(self);
        let id = key.to_string();
        if let Some(runtime) = self.loaded(&id) {
            return Ok(runtime);
        }
        // Open the code first and hold it. Otherwise, building the image could evict the code from a full cache.
        let code = plan.recipe.map(|recipe| plan.code(self, recipe));
        let (code, image) = thread::scope(|scope| {
            // Unpacking takes a quarter of a second, so the image is unpacked at the same time as the code.
            let unpack = || self.runtimes.prepared().open_or_unpack(&key);
            let has_bundles = self.runtimes.has_prepared_bundles();
            let unpacking = has_bundles.then(|| thread::Builder::new().spawn_scoped(scope, unpack));
            let code = code.map(|code| self.code(code)).transpose();
            (code, unpacking.and_then(Result::ok).and_then(|thread| thread.join().ok()))
        });
        let code = code?;
        let artefact = match image {
            Some(Ok(Some(image))) => {
                if image.is_new {
                    self.make_room(CacheKind::Images, &key);
                }
                image
            }
            // No bundle contains the image, another process is adding it, or unpacking failed.
            _ => self.image_of(plan, &key)?,
        };
        let wrong = |error: wasmtime::Error| plan.wrong(&error);
        let module = aot::load(&self.wasmtime, artefact.aot).map_err(wrong)?;
        let record = artefact.record;
        let is_restorable = record.prepared && record.restorable;
        let recycled = self.pool.as_ref().filter(|_| is_restorable).map(RecycledInstances::new);
        let (template, drive) = match plan.recipe.zip(code) {
            Some((recipe, code)) => {
                let template = Template::Apart { code, memory: module.clone(), globals: prepare::values(&record) };
                (template, ExecutionMode::Image(Arc::new(Image::new(driver(recipe, self.is_lean()), record, module))))
            }
            None if module.get_export("_start").is_some() => {
                let pre = self.linker.instantiate_pre(&module).map_err(wrong)?;
                (Template::Whole(pre), ExecutionMode::Command { flags: plan.flags })
            }
            None => {
                let reason =
                    "it does not export `_start`, so it cannot run as a plain command; run it prepared if the \
                     manifest lists it, or use another binary, such as `javascript-0.11`"
                        .to_owned();
                return Err(RuntimeError::Load { name: plan.name.clone(), reason });
            }
        };
        let runtime = Runtime {
            name: plan.name.clone(),
            language: plan.language,
            version: plan.version.clone(),
            template,
            drive,
            recycled,
            library: self.library(plan)?,
            packages: self.packages_of(plan)?,
        };
        Ok(self.keep_loaded(id, runtime))
    }

    /// Returns a runtime's library. Fetches it if it is missing.
    fn library(&self, plan: &RuntimePlan<'_>) -> Result<Option<LibraryMount>, RuntimeError> {
        let Some(entry) = &plan.library else { return Ok(None) };
        let file = self.runtimes.library(entry, &*self.progress)?;
        Ok(entry.library.as_ref().zip(file).map(|(library, file)| library_mount(library, file)))
    }

    /// Returns the packages for scripts in a custom image with wheels.
    fn packages_of(&self, plan: &RuntimePlan<'_>) -> Result<Option<Arc<dyn MountSource>>, RuntimeError> {
        let Some(own) = plan.own.as_ref().filter(|own| !own.definition().wheels.is_empty()) else { return Ok(None) };
        let without = || CustomImageError::Invalid {
            name: plan.name.clone(),
            problem: "it has packages, but this engine runs without packages; remove `--no-packages`".to_owned(),
        };
        Ok(Some(self.packages.as_ref().ok_or_else(without)?.source_of(own)))
    }

    fn image_of(&self, plan: &RuntimePlan<'_>, key: &ArtefactKey) -> Result<Artefact, RuntimeError> {
        self.open_or_prepare(&plan.name, CacheKind::Images, key, || self.build(plan))
    }

    /// Like [`open_or_build`](Self::open_or_build), for the runtime or tool `name`.
    pub(crate) fn open_or_prepare(
        &self,
        name: &str,
        kind: CacheKind,
        key: &ArtefactKey,
        build: impl FnOnce() -> Result<NewArtefact, RuntimeError>,
    ) -> Result<Artefact, RuntimeError> {
        self.open_or_build(kind, key, build).map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => RuntimeError::Load { name: name.to_owned(), reason: other.to_string() },
        })
    }

    fn build(&self, plan: &RuntimePlan<'_>) -> Result<NewArtefact, RuntimeError> {
        let Some(recipe) = plan.recipe else {
            let binary = self.binary(&plan.binary)?;
            // Compiling recurses deeply, and the caller's thread may have a small stack.
            return self.stacks.run(|| self.build_command(plan, &binary)).map_err(RuntimeError::Stack)?;
        };
        let booted = self.boot(plan, recipe)?;
        // The memory module contains no code. Compiling it only converts it to a format that can be mapped.
        let aot = aot::compile(&self.wasmtime, &booted.memory).map_err(|error| plan.wrong(&error))?;
        Ok(NewArtefact { aot, record: booted.record })
    }

    /// Boots a runtime in the manifest.
    pub(crate) fn boot_named(&self, entry: &RuntimeEntry) -> Result<BootedInterpreter, RuntimeError> {
        let plan = self.plan(&entry.into(), true);
        let recipe = self.runtimes.recipe_of(entry)?;
        self.boot(&plan, &recipe)
    }

    fn boot(&self, plan: &RuntimePlan<'_>, recipe: &Recipe) -> Result<BootedInterpreter, RuntimeError> {
        let inputs = plan.code(self, recipe);
        let code = self.code(inputs.clone())?;
        let bootable = self.bootable(&inputs)?;
        self.packages_of(plan)?;
        let setup = plan.image.as_ref().map(|image| Setup::of(image, plan.own.as_deref())).transpose()?;
        let library = self.library(plan)?;
        // Booting needs a deep stack, and the caller's thread may have a small stack.
        self.stacks
            .run(|| prepare::boot(self, &plan.name, bootable, code, recipe, (library.as_ref(), setup)))
            .map_err(RuntimeError::Stack)?
    }

    fn build_command(&self, plan: &RuntimePlan<'_>, binary: &Binary) -> Result<NewArtefact, RuntimeError> {
        self.progress.message(&format!("compiling `{}`", plan.name));
        let stripped = rewrite::strip(&binary.bytes)
            .map_err(|source| RuntimeError::Rewrite { name: plan.name.clone(), source })?;
        Module::validate(&self.wasmtime, &stripped).map_err(|error| plan.wrong(&error))?;
        let metered = fuel::add_metering(self.metering, stripped.clone(), Counter::Own);
        let metered =
            metered.map_err(|error| RuntimeError::Load { name: plan.name.clone(), reason: error.to_string() })?;
        let aot = aot::compile(&self.wasmtime, &metered).map_err(|error| plan.wrong(&error))?;
        Ok(NewArtefact { aot, record: ImageRecord::of_code(Digest::of(&stripped)) })
    }
}

/// Adds the names of custom images to the known names in an error.
fn with_own(unknown: ManifestError, own: Vec<String>) -> ManifestError {
    match unknown {
        ManifestError::UnknownRuntime { name, mut known } => {
            known.extend(own.iter().map(|name| format!(", `{name}`")));
            ManifestError::UnknownRuntime { name, known }
        }
        other => other,
    }
}

pub(crate) fn language(language: glovebox_runtimes::Language) -> Language {
    match language {
        glovebox_runtimes::Language::Python => Language::Python,
        glovebox_runtimes::Language::JavaScript => Language::JavaScript,
    }
}
