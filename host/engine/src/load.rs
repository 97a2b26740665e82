//! From a runtime's name or path to a [`Runtime`] that is ready to run: fetched, prepared, compiled, cached, loaded.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use glovebox_runtimes::{
    Artefact, ArtefactKey, Binary, BuildError, CacheKind, Digest, DriverKind, ImageRecord, KeyParts, NewArtefact,
    Recipe, RuntimeEntry, rewrite,
};
use wasmtime::Module;

use crate::{
    Language, RuntimeError, aot,
    engine::{Inner, compile_digest},
    packages::SharedPackages,
    prepare,
    recycled::RecycledInstances,
    runtime::{Drive, Image, Runtime, display_name, driver},
};

/// The version of Wasmtime that compiled code belongs to. Its own check at loading is the authority; in the key it
/// keeps images of several versions beside each other.
pub(crate) const WASMTIME: &str = "48";

/// What a binary's guests are called with.
struct Plan<'a> {
    name: String,
    language: Language,
    version: Option<String>,
    sha256: Digest,
    recipe: Option<&'a Recipe>,
    /// As a plain command: arguments before the script's path.
    flags: &'static [&'static str],
}

impl Plan<'_> {
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
                let version = concat!(env!("CARGO_PKG_VERSION"), " with ENOENT outside").as_bytes();
                let compiler = driver.compiler_args();
                let packages = inner.packages.as_ref().filter(|_| compiler.is_some()).map(SharedPackages::digest);
                let packages = packages.as_ref().map_or(&[][..], |digest| digest.as_bytes());
                let arguments = format!("{arguments}{compiler:?}");
                let recipe = recipe.digest();
                Digest::of_fields(&[recipe.as_bytes(), driver.boot_code(), arguments.as_bytes(), packages, version])
            }
            None => Digest::of(b"a plain command"),
        };
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
        let entry = self.runtimes.manifest().find(name)?;
        let plan = self.plan(entry, prepared);
        self.load(&plan, || Ok(self.runtimes.load_or_fetch(entry, &*self.progress)?))
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
            let plan = self.plan(entry, prepared);
            return self.load(&plan, || Ok(binary.clone()));
        }
        let plan = Plan {
            name: display_name(&binary),
            language: language.unwrap_or(Language::Python),
            version: None,
            sha256: binary.sha256,
            recipe: None,
            flags: &[],
        };
        self.load(&plan, || Ok(binary.clone()))
    }

    fn plan(&self, entry: &RuntimeEntry, prepared: bool) -> Plan<'_> {
        let recipe = self.runtimes.manifest().recipe(&entry.recipe);
        // Scripts expect `std` and `os`, as they are there in the prepared image.
        let is_qjs = recipe.is_some_and(|recipe| recipe.driver == DriverKind::QuickjsCommand);
        Plan {
            name: entry.name.clone(),
            language: language(entry.language),
            version: Some(entry.version.clone()),
            sha256: entry.sha256,
            recipe: recipe.filter(|_| prepared),
            flags: if is_qjs { &["--std"] } else { &[] },
        }
    }

    /// What a runtime's prepared image is kept under.
    pub(crate) fn image_key(&self, entry: &RuntimeEntry) -> ArtefactKey {
        self.plan(entry, true).key(self)
    }

    /// Whether a runtime's prepared image is in the cache.
    pub(crate) fn is_prepared(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.runtimes.prepared().open(&self.image_key(entry))?.is_some())
    }

    /// The prepared image of a runtime of the manifest, made if there is none.
    pub(crate) fn artefact(&self, entry: &RuntimeEntry) -> Result<Artefact, RuntimeError> {
        let plan = self.plan(entry, true);
        self.image_of(&plan, &plan.key(self), &|| Ok(self.runtimes.load_or_fetch(entry, &*self.progress)?))
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
        let artefact = self.image_of(plan, &key, &binary)?;
        let wrong =
            |error: wasmtime::Error| RuntimeError::Load { name: plan.name.clone(), reason: format!("{error:#}") };
        let module = aot::load(&self.wasmtime, artefact.aot).map_err(wrong)?;
        let is_restorable = artefact.record.prepared && artefact.record.restorable;
        let recycled = self.pool.as_ref().filter(|_| is_restorable).map(RecycledInstances::new);
        let drive = match plan.recipe {
            Some(recipe) => Drive::Image(Image::new(driver(recipe, self.is_lean()), artefact.record, module.clone())),
            None if module.get_export("_start").is_some() => Drive::Command { flags: plan.flags },
            None => {
                let reason =
                    "it exports no `_start`, so it cannot run as a plain command (`javascript-0.11` can); a binary \
                              that the manifest knows runs prepared"
                        .to_owned();
                return Err(RuntimeError::Load { name: plan.name.clone(), reason });
            }
        };
        let pre = self.linker.instantiate_pre(&module).map_err(wrong)?;
        let runtime = Runtime {
            name: plan.name.clone(),
            language: plan.language,
            version: plan.version.clone(),
            pre,
            drive,
            recycled,
        };
        Ok(self.keep(id, runtime))
    }

    fn image_of(
        &self,
        plan: &Plan<'_>,
        key: &ArtefactKey,
        binary: &dyn Fn() -> Result<Binary, RuntimeError>,
    ) -> Result<Artefact, RuntimeError> {
        let built = self.open_or_build(CacheKind::Images, key, || self.build(plan, &binary()?));
        built.map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => RuntimeError::Load { name: plan.name.clone(), reason: other.to_string() },
        })
    }

    fn build(&self, plan: &Plan<'_>, binary: &Binary) -> Result<NewArtefact, RuntimeError> {
        // Compiling recurses deeply, and the caller may be a thread with a small stack.
        let built = self.stacks.run(|| match plan.recipe {
            Some(recipe) => prepare::image(self, &plan.name, binary, recipe),
            None => self.build_command(plan, binary),
        });
        built.map_err(RuntimeError::Stack)?
    }

    fn build_command(&self, plan: &Plan<'_>, binary: &Binary) -> Result<NewArtefact, RuntimeError> {
        self.progress.message(&format!("compiling `{}`", plan.name));
        let stripped = rewrite::strip(&binary.bytes)
            .map_err(|source| RuntimeError::Rewrite { name: plan.name.clone(), source })?;
        let wrong =
            |error: wasmtime::Error| RuntimeError::Load { name: plan.name.clone(), reason: format!("{error:#}") };
        Module::validate(&self.wasmtime, &stripped).map_err(wrong)?;
        let aot = aot::compile(&self.wasmtime, &stripped).map_err(wrong)?;
        let record = ImageRecord {
            sha256: Digest::of(&stripped),
            prepared: false,
            memory_bytes: 0,
            anchors: BTreeMap::new(),
            globals: Vec::new(),
            restorable: false,
            notes: BTreeMap::new(),
        };
        Ok(NewArtefact { aot, record })
    }
}

/// The manifest's word for a language in ours.
pub(crate) fn language(language: glovebox_runtimes::Language) -> Language {
    match language {
        glovebox_runtimes::Language::Python => Language::Python,
        glovebox_runtimes::Language::JavaScript => Language::JavaScript,
    }
}
