//! From a runtime's name or path to a [`Runtime`] that is ready to run: fetched, prepared, compiled, cached, loaded.

use std::{borrow::Cow, path::Path, sync::Arc};

use glovebox_core::LibraryMount;
use glovebox_runtimes::{
    Artefact, ArtefactKey, Binary, BuildError, CacheKind, Digest, DriverKind, ImageOf, ImageRecord, KeyParts,
    ManifestError, NewArtefact, OwnImage, OwnImageError, Recipe, RuntimeEntry, rewrite,
};
use glovebox_vfs::MountSource;
use wasmtime::Module;

use crate::{
    Language, RuntimeError, aot,
    engine::{Inner, compile_digest},
    library::library_mount,
    packages::SharedPackages,
    prepare::{self, Booted, Setup},
    recycled::RecycledInstances,
    runtime::{Drive, Image, Runtime, display_name, driver},
    template::Template,
};

/// The version of Wasmtime that compiled code belongs to. Its own check at loading is the authority; in the key it
/// keeps images of several versions beside each other.
pub(crate) const WASMTIME: &str = "48";

/// How the guests of a binary are called.
struct Plan<'a> {
    name: String,
    language: Language,
    version: Option<String>,
    sha256: Digest,
    recipe: Option<&'a Recipe>,
    /// The recipe's name, under which its code is stored.
    recipe_name: String,
    /// The manifest's entry, if its standard library is a file of its own.
    library: Option<RuntimeEntry>,
    /// The setup that runs in the booted interpreter before it becomes the image.
    image: Option<ImageOf>,
    /// For an image of the user's own: what it is made of.
    own: Option<Arc<OwnImage>>,
    /// As a plain command: arguments before the script's path.
    flags: &'static [&'static str],
}

/// A runtime by its name, from the manifest or an image of the user's own.
pub(crate) struct Found<'a> {
    pub(crate) entry: Cow<'a, RuntimeEntry>,
    /// What an image of the user's own is made of.
    pub(crate) own: Option<Arc<OwnImage>>,
}

impl<'a> From<&'a RuntimeEntry> for Found<'a> {
    fn from(entry: &'a RuntimeEntry) -> Self {
        Self { entry: Cow::Borrowed(entry), own: None }
    }
}

impl Plan<'_> {
    /// Wasmtime refuses it.
    fn wrong(&self, error: &wasmtime::Error) -> RuntimeError {
        RuntimeError::Load { name: self.name.clone(), reason: format!("{error:#}") }
    }

    fn key(&self, inner: &Inner) -> ArtefactKey {
        let label = match &self.version {
            Some(version) => format!("{}-{version}", self.name),
            None => "custom".to_owned(),
        };
        let recipe = match self.recipe {
            Some(recipe) => {
                let driver = driver(recipe, inner.is_lean());
                let arguments = format!("{:?}{:?}", driver.boot_args(), driver.boot_env());
                // The driver's own half of the boot, such as the stack it lays out, is in no boot code, nor is what the interpreter
                // finds of our WASI as it boots: they change with the version.
                let version = concat!(
                    env!("CARGO_PKG_VERSION"),
                    " with its memory apart, settled at last, with 512 KiB of its stack"
                )
                .as_bytes();
                let compiler = driver.compiler_args();
                let packages = inner.packages.as_ref().filter(|_| compiler.is_some()).map(SharedPackages::digest);
                let packages = packages.as_ref().map_or(&[][..], |digest| digest.as_bytes());
                let arguments = format!("{arguments}{compiler:?}");
                let recipe = recipe.digest();
                let common = [recipe.as_bytes(), driver.boot_code(), arguments.as_bytes(), packages, version];
                let made_of = self.image.as_ref().map(|image| self.made_of(image));
                let made_of = made_of.as_ref().map(|digest| digest.as_bytes().as_slice());
                Digest::of_fields(&common.into_iter().chain(made_of).collect::<Vec<_>>())
            }
            None => Digest::of(b"a plain command"),
        };
        self.keyed(inner, label, recipe)
    }

    /// The digest of what determines an image beside its interpreter.
    fn made_of(&self, image: &ImageOf) -> Digest {
        match &self.own {
            Some(own) => own.definition().digest(),
            None => Digest::of_fields(&image.steps.iter().map(|step| step.code.as_bytes()).collect::<Vec<_>>()),
        }
    }

    /// What the code is stored under, which all images of a binary and recipe share.
    fn code_key(&self, inner: &Inner, recipe: &Recipe) -> ArtefactKey {
        let version =
            concat!(env!("CARGO_PKG_VERSION"), " with an imported memory, the last buffer in it, and loops of scipy")
                .as_bytes();
        let recipe = Digest::of_fields(&[recipe.digest().as_bytes(), version]);
        self.keyed(inner, self.recipe_name.clone(), recipe)
    }

    fn keyed(&self, inner: &Inner, label: String, recipe: Digest) -> ArtefactKey {
        ArtefactKey::new(KeyParts {
            label,
            runtime: self.sha256,
            recipe,
            wasmtime: WASMTIME.into(),
            settings: compile_digest(&inner.wasmtime).to_string(),
            target: std::env::consts::ARCH.into(),
        })
    }
}

impl Inner {
    /// Loads a runtime of the manifest.
    pub(crate) fn load_named(&self, name: &str, prepared: bool) -> Result<Arc<Runtime>, RuntimeError> {
        let found = self.find(name)?;
        let plan = self.plan(&found, prepared);
        self.load(&plan, || Ok(self.runtimes.load_or_fetch(&found.entry, &*self.progress)?))
    }

    /// The runtime of this name: one of the manifest, or an image of the user's own.
    pub(crate) fn find(&self, name: &str) -> Result<Found<'_>, RuntimeError> {
        let unknown = match self.runtimes.manifest().find(name) {
            Ok(entry) => return Ok(entry.into()),
            Err(unknown) => unknown,
        };
        let Some(own) = &self.own_images else { return Err(unknown.into()) };
        match own.find(name)? {
            Some(image) => self.found(Arc::new(image)),
            None => Err(with_own(unknown, own.names().unwrap_or_default()).into()),
        }
    }

    /// An image of the user's own as a runtime.
    pub(crate) fn found(&self, image: Arc<OwnImage>) -> Result<Found<'_>, RuntimeError> {
        Ok(Found { entry: Cow::Owned(image.entry(self.runtimes.manifest())?), own: Some(image) })
    }

    /// The name of the runtime for scripts in a language. What is added later counts in the next engine.
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

    /// Whether its language's scripts run on it where nobody names a runtime.
    pub(crate) fn is_preferred(&self, entry: &RuntimeEntry) -> bool {
        self.preferred(language(entry.language)).is_ok_and(|name| name == entry.name)
    }

    /// Whether components may name a runtime.
    pub(crate) fn is_offered(&self, entry: &RuntimeEntry) -> bool {
        entry.library.is_none() || self.is_preferred(entry) || self.runtimes.is_added(entry).unwrap_or(false)
    }

    /// Loads any other binary; one that the manifest knows by its digest gets that entry's recipe.
    pub(crate) fn load_path(
        &self,
        path: &Path,
        language: Option<Language>,
        prepared: bool,
    ) -> Result<Arc<Runtime>, RuntimeError> {
        let binary = self.runtimes.load_custom(path)?;
        if let Some(entry) = &binary.entry {
            let plan = self.plan(&entry.into(), prepared);
            return self.load(&plan, || Ok(binary.clone()));
        }
        let plan = Plan {
            name: display_name(&binary),
            language: language.unwrap_or(Language::Python),
            version: None,
            sha256: binary.sha256,
            recipe: None,
            recipe_name: String::new(),
            library: None,
            image: None,
            own: None,
            flags: &[],
        };
        self.load(&plan, || Ok(binary.clone()))
    }

    fn plan(&self, Found { entry, own }: &Found<'_>, prepared: bool) -> Plan<'_> {
        let recipe = self.runtimes.manifest().recipe(&entry.recipe);
        // Scripts expect `std` and `os`, as they are there in the prepared image.
        let is_qjs = recipe.is_some_and(|recipe| recipe.driver == DriverKind::QuickjsCommand);
        Plan {
            name: entry.name.clone(),
            language: language(entry.language),
            version: Some(entry.version.clone()),
            sha256: entry.sha256,
            recipe: recipe.filter(|_| prepared),
            recipe_name: entry.recipe.clone(),
            library: entry.library.is_some().then(|| entry.clone().into_owned()),
            image: entry.image.clone(),
            own: own.clone(),
            flags: if is_qjs { &["--std"] } else { &[] },
        }
    }

    /// What a runtime's prepared image is stored under.
    pub(crate) fn image_key(&self, found: &Found<'_>) -> ArtefactKey {
        self.plan(found, true).key(self)
    }

    /// Whether a runtime's code and prepared image are in the cache.
    pub(crate) fn is_prepared(&self, found: &Found<'_>) -> Result<bool, RuntimeError> {
        let plan = self.plan(found, true);
        let has_code = match plan.recipe {
            Some(recipe) => self.runtimes.code().open(&plan.code_key(self, recipe))?.is_some(),
            None => true,
        };
        Ok(has_code && self.runtimes.prepared().open(&plan.key(self))?.is_some())
    }

    /// The prepared image of a runtime, made if there is none, with the code that it belongs to.
    pub(crate) fn artefact(&self, found: &Found<'_>) -> Result<Artefact, RuntimeError> {
        let plan = self.plan(found, true);
        let binary = || Ok(self.runtimes.load_or_fetch(&found.entry, &*self.progress)?);
        // As in `load`.
        let _code = plan.recipe.map(|recipe| self.code(&plan, recipe, &binary)).transpose()?;
        self.image_of(&plan, &plan.key(self), &binary)
    }

    /// Compares the full digests of a runtime's code and image with what they must be.
    pub(crate) fn verify_prepared(&self, found: &Found<'_>) -> Result<(), RuntimeError> {
        let plan = self.plan(found, true);
        let code = plan.recipe.map(|recipe| plan.code_key(self, recipe));
        let code = code.map(|key| self.runtimes.code().open(&key)).transpose()?.flatten();
        if let Some(code) = code {
            self.runtimes.code().verify(&code)?;
        }
        if let Some(image) = self.runtimes.prepared().open(&plan.key(self))? {
            self.runtimes.prepared().verify(&image)?;
        }
        Ok(())
    }

    fn load(
        &self,
        plan: &Plan<'_>,
        binary: impl Fn() -> Result<Binary, RuntimeError>,
    ) -> Result<Arc<Runtime>, RuntimeError> {
        let key = plan.key(self);
        let id = key.to_string();
        if let Some(runtime) = self.loaded(&id) {
            return Ok(runtime);
        }
        // The code first, and held: where the cache has no room for both, making the image would evict it.
        let code = plan.recipe.map(|recipe| self.code(plan, recipe, &binary)).transpose()?;
        let artefact = self.image_of(plan, &key, &binary)?;
        let wrong = |error: wasmtime::Error| plan.wrong(&error);
        let module = aot::load(&self.wasmtime, artefact.aot).map_err(wrong)?;
        let record = artefact.record;
        let is_restorable = record.prepared && record.restorable;
        let recycled = self.pool.as_ref().filter(|_| is_restorable).map(RecycledInstances::new);
        let (template, drive) = match plan.recipe.zip(code) {
            Some((recipe, code)) => {
                let template = Template::Apart { code, memory: module.clone(), globals: prepare::values(&record) };
                (template, Drive::Image(Arc::new(Image::new(driver(recipe, self.is_lean()), record, module))))
            }
            None if module.get_export("_start").is_some() => {
                let pre = self.linker.instantiate_pre(&module).map_err(wrong)?;
                (Template::Whole(pre), Drive::Command { flags: plan.flags })
            }
            None => {
                let reason =
                    "it exports no `_start`, so it cannot run as a plain command (`javascript-0.11` can); a binary \
                              that the manifest knows runs prepared"
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
        Ok(self.keep(id, runtime))
    }

    /// A runtime's library, fetched where it is missing.
    fn library(&self, plan: &Plan<'_>) -> Result<Option<LibraryMount>, RuntimeError> {
        let Some(entry) = &plan.library else { return Ok(None) };
        let file = self.runtimes.library(entry, &*self.progress)?;
        Ok(entry.library.as_ref().zip(file).map(|(library, file)| library_mount(library, file)))
    }

    /// What the scripts of an image with wheels find of packages.
    fn packages_of(&self, plan: &Plan<'_>) -> Result<Option<Arc<dyn MountSource>>, RuntimeError> {
        let Some(own) = plan.own.as_ref().filter(|own| !own.definition().wheels.is_empty()) else { return Ok(None) };
        let without = || OwnImageError::Invalid {
            name: plan.name.clone(),
            problem: "it has packages, and this engine is set up without any (`--no-packages`)".to_owned(),
        };
        Ok(Some(self.packages.as_ref().ok_or_else(without)?.source_of(own)))
    }

    /// An interpreter's code, compiled if it has not been.
    fn code(
        &self,
        plan: &Plan<'_>,
        recipe: &Recipe,
        binary: &dyn Fn() -> Result<Binary, RuntimeError>,
    ) -> Result<Module, RuntimeError> {
        let key = plan.code_key(self, recipe);
        let built = self.open_or_build(CacheKind::Code, &key, || {
            let parts = prepare::Parts::of(&plan.name, &binary()?, recipe)?;
            self.progress.message(&compiling(&plan.name, parts.apart.code.len()));
            // Compiling recurses deeply, and the caller may be a thread with a small stack.
            let compiled = self.stacks.run(|| aot::compile(&self.wasmtime, &parts.apart.code));
            let aot = compiled.map_err(RuntimeError::Stack)?.map_err(|error| plan.wrong(&error))?;
            Ok(NewArtefact { aot, record: ImageRecord::of_code(Digest::of(&parts.apart.code)) })
        });
        let artefact = self.built(plan, built)?;
        aot::load(&self.wasmtime, artefact.aot).map_err(|error| plan.wrong(&error))
    }

    fn image_of(
        &self,
        plan: &Plan<'_>,
        key: &ArtefactKey,
        binary: &dyn Fn() -> Result<Binary, RuntimeError>,
    ) -> Result<Artefact, RuntimeError> {
        let built = self.open_or_build(CacheKind::Images, key, || self.build(plan, binary));
        self.built(plan, built)
    }

    fn built(
        &self,
        plan: &Plan<'_>,
        built: Result<Artefact, BuildError<RuntimeError>>,
    ) -> Result<Artefact, RuntimeError> {
        built.map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => RuntimeError::Load { name: plan.name.clone(), reason: other.to_string() },
        })
    }

    fn build(
        &self,
        plan: &Plan<'_>,
        binary: &dyn Fn() -> Result<Binary, RuntimeError>,
    ) -> Result<NewArtefact, RuntimeError> {
        let Some(recipe) = plan.recipe else {
            let binary = binary()?;
            // Compiling recurses deeply, and the caller may be a thread with a small stack.
            return self.stacks.run(|| self.build_command(plan, &binary)).map_err(RuntimeError::Stack)?;
        };
        let booted = self.boot(plan, recipe, binary)?;
        // A memory has no code: this only brings it into the form that is mapped.
        let aot = aot::compile(&self.wasmtime, &booted.memory).map_err(|error| plan.wrong(&error))?;
        Ok(NewArtefact { aot, record: booted.record })
    }

    /// Boots a runtime of the manifest.
    pub(crate) fn boot_named(&self, entry: &RuntimeEntry) -> Result<Booted, RuntimeError> {
        let plan = self.plan(&entry.into(), true);
        let recipe = self.runtimes.recipe_of(entry)?;
        self.boot(&plan, &recipe, &|| Ok(self.runtimes.load_or_fetch(entry, &*self.progress)?))
    }

    fn boot(
        &self,
        plan: &Plan<'_>,
        recipe: &Recipe,
        binary: &dyn Fn() -> Result<Binary, RuntimeError>,
    ) -> Result<Booted, RuntimeError> {
        let code = self.code(plan, recipe, binary)?;
        let parts = prepare::Parts::of(&plan.name, &binary()?, recipe)?;
        self.packages_of(plan)?;
        let setup = plan.image.as_ref().map(|image| Setup::of(image, plan.own.as_deref())).transpose()?;
        let library = self.library(plan)?;
        // Booting needs a deep stack, and the caller may be a thread with a small one.
        self.stacks
            .run(|| prepare::boot(self, &plan.name, parts, code, recipe, (library.as_ref(), setup)))
            .map_err(RuntimeError::Stack)?
    }

    fn build_command(&self, plan: &Plan<'_>, binary: &Binary) -> Result<NewArtefact, RuntimeError> {
        self.progress.message(&format!("compiling `{}`", plan.name));
        let stripped = rewrite::strip(&binary.bytes)
            .map_err(|source| RuntimeError::Rewrite { name: plan.name.clone(), source })?;
        Module::validate(&self.wasmtime, &stripped).map_err(|error| plan.wrong(&error))?;
        let aot = aot::compile(&self.wasmtime, &stripped).map_err(|error| plan.wrong(&error))?;
        Ok(NewArtefact { aot, record: ImageRecord::of_code(Digest::of(&stripped)) })
    }
}

/// Names the user's own images as well.
fn with_own(unknown: ManifestError, own: Vec<String>) -> ManifestError {
    match unknown {
        ManifestError::UnknownRuntime { name, mut known } => {
            known.extend(own.iter().map(|name| format!(", `{name}`")));
            ManifestError::UnknownRuntime { name, known }
        }
        other => other,
    }
}

/// The progress message for compiling code; for much code, with an estimate of the time.
fn compiling(name: &str, code_bytes: usize) -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match code_bytes / BYTES_COMPILED_A_SECOND / threads {
        0..SECONDS_WORTH_SAYING => format!("compiling `{name}`"),
        seconds => format!("compiling `{name}`, once: about {seconds} s on {threads} threads"),
    }
}

/// What one thread compiles in a second on an ordinary machine.
const BYTES_COMPILED_A_SECOND: usize = 600_000;
const SECONDS_WORTH_SAYING: usize = 10;

/// Converts the manifest's language.
pub(crate) fn language(language: glovebox_runtimes::Language) -> Language {
    match language {
        glovebox_runtimes::Language::Python => Language::Python,
        glovebox_runtimes::Language::JavaScript => Language::JavaScript,
    }
}
