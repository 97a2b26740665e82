//! A loaded runtime: its compiled module, its driver, and the bundled and custom packages.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, OnceLock},
};

use glovebox_core::{ImageDriver, Library, LibraryFiles, LibraryMount, Limits, MemoryLimit};
use glovebox_interpreters::{Anchors, Boot, Driver, EMBEDDED_PACKAGES, JavaScript, Python};
use glovebox_runtimes::{
    Binary, Digest, DriverKind, ImageRecord, OwnImage, OwnPackages, PackageError, PackageList, Recipe, Runtimes,
};
use glovebox_vfs::{MountSource, SourceError};
use wasmtime::Module;

use crate::{
    EngineError, ExecuteError, Language, Packages,
    guest::{instantiate::Template, recycled::RecycledInstances},
    session::Pristine,
};

/// A loaded runtime, shared by all sandboxes that use it.
pub(crate) struct Runtime {
    /// The name in the manifest, the name of a custom image, or the path of a custom binary.
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) version: Option<String>,
    pub(crate) template: Template,
    pub(crate) drive: ExecutionMode,
    /// Standard library, if it is a separate file.
    pub(crate) library: Option<LibraryMount>,
    /// Packages at `/app/site-packages` for a custom image with wheels. `None` for the packages that all runtimes of
    /// the engine share.
    pub(crate) packages: Option<Arc<dyn MountSource>>,
    /// Recycled instances. `None` without an instance pool, or if instances cannot be restored to an image.
    pub(crate) recycled: Option<RecycledInstances>,
}

/// The execution mode of a runtime's guests.
pub(crate) enum ExecutionMode {
    /// Calls into a prepared image.
    Image(Arc<Image>),
    /// A plain command: `_start` with the script's path as an argument.
    Command {
        /// Arguments before the script's path.
        flags: &'static [&'static str],
    },
}

pub(crate) struct Image {
    driver: Box<dyn Driver>,
    anchors: Anchors,
    /// The SHA-256 of the prepared module in hexadecimal. Equal images have equal digests.
    pub(crate) identity: String,
    pub(crate) memory_bytes: u64,
    memory: Module,
    globals: BTreeMap<String, u64>,
    pristine: OnceLock<Pristine>,
}

impl Image {
    pub(crate) fn new(driver: Box<dyn Driver>, record: ImageRecord, memory: Module) -> Self {
        Self {
            driver,
            anchors: Anchors(record.anchors),
            identity: record.sha256.to_string(),
            memory_bytes: record.memory_bytes,
            memory,
            globals: record.values,
            pristine: OnceLock::new(),
        }
    }

    /// Returns the driver and its anchors in the image.
    pub(crate) fn driver(&self) -> ImageDriver<'_> {
        ImageDriver { driver: &*self.driver, anchors: &self.anchors }
    }

    /// Returns the pristine image, which is instantiated at first use.
    pub(crate) fn pristine(&self) -> Result<&Pristine, ExecuteError> {
        if let Some(pristine) = self.pristine.get() {
            return Ok(pristine);
        }
        // If two threads create it concurrently, the second copy is dropped.
        let made = Pristine::new(&self.memory, &self.globals)?;
        Ok(self.pristine.get_or_init(|| made))
    }
}

impl Runtime {
    pub(crate) fn image(&self) -> Option<&Arc<Image>> {
        match &self.drive {
            ExecutionMode::Image(image) => Some(image),
            ExecutionMode::Command { .. } => None,
        }
    }

    /// Returns the image, or an error if the runtime is not prepared.
    pub(crate) fn prepared(&self) -> Result<&Arc<Image>, ExecuteError> {
        self.image().ok_or_else(|| ExecuteError::NotPrepared { name: self.name.clone() })
    }

    /// Returns the memory limit for a guest of this runtime.
    pub(crate) fn memory_limit(&self, limits: &Limits) -> MemoryLimit {
        MemoryLimit::of_image(limits.memory_bytes, self.image().map_or(0, |image| image.memory_bytes))
    }
}

/// Returns a recipe's driver. With `lean`, JavaScript boots without Node's modules.
pub(crate) fn driver(recipe: &Recipe, lean: bool) -> Box<dyn Boot> {
    match recipe.driver {
        DriverKind::Cpython => Box::new(Python::command()),
        DriverKind::CpythonReactor => Box::new(Python::reactor()),
        DriverKind::QuickjsReactor => Box::new(JavaScript::reactor().lean(lean)),
        DriverKind::QuickjsCommand => Box::new(JavaScript::command().lean(lean)),
    }
}

/// Returns the manifest name of a binary, or its path if it is not in the manifest.
pub(crate) fn display_name(binary: &Binary) -> String {
    binary.entry.as_ref().map_or_else(|| binary.path.display().to_string(), |entry| entry.name.clone())
}

/// Packages at `/app/site-packages`, unpacked when a guest first accesses them.
#[derive(Clone)]
pub(crate) struct SharedPackages {
    runtimes: Arc<Runtimes>,
    source: Arc<Library<Files>>,
}

struct Files {
    runtimes: Arc<Runtimes>,
    own: Option<OwnPackages>,
    unpacked: OnceLock<Vec<(String, Vec<u8>)>>,
}

impl LibraryFiles for Files {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        if let Some(files) = self.unpacked.get() {
            return Ok(files);
        }
        let mut files = files(&self.runtimes).map_err(|error| SourceError::new(error.to_string()))?;
        match self.own.as_ref().map_or(Ok(Vec::new()), OwnPackages::files) {
            Ok(own) => files.extend(own),
            Err(error) => tracing::error!(%error, "cannot read the user's packages; scripts run without them"),
        }
        files.sort();
        files.dedup_by(|one, other| one.0 == other.0);
        // If two threads unpack the files concurrently, the second copy is dropped.
        Ok(self.unpacked.get_or_init(|| files))
    }
}

/// Packages for scripts in an image with wheels.
struct ImageFiles {
    shared: Arc<Library<Files>>,
    image: Arc<OwnImage>,
    unpacked: OnceLock<Vec<(String, Vec<u8>)>>,
}

impl LibraryFiles for ImageFiles {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        if let Some(files) = self.unpacked.get() {
            return Ok(files);
        }
        let mut files = self.image.packages().map_err(|error| SourceError::new(error.to_string()))?;
        let top = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".py").to_owned();
        let own: BTreeSet<String> = files.iter().map(|(path, _)| top(path)).collect();
        let shared = self.shared.0.files()?.iter();
        files.extend(shared.filter(|(path, _)| !own.contains(&top(path))).cloned());
        files.sort();
        // If two threads unpack the files concurrently, the second copy is dropped.
        Ok(self.unpacked.get_or_init(|| files))
    }
}

/// Adds the bundled packages to the runtimes, unless `packages` is [`Packages::None`]. `own` is the directory of custom
/// packages, which are not part of images.
pub(crate) fn open_packages(
    runtimes: Runtimes,
    packages: Packages,
    own: Option<&Path>,
) -> Result<(Arc<Runtimes>, Option<SharedPackages>), EngineError> {
    if packages == Packages::None {
        return Ok((Arc::new(runtimes), None));
    }
    let runtimes = Arc::new(runtimes.with_packages(PackageList::builtin()?));
    let own = own.map(OwnPackages::open).transpose()?;
    let files = Files { runtimes: Arc::clone(&runtimes), own, unpacked: OnceLock::new() };
    let packages = SharedPackages { runtimes: Arc::clone(&runtimes), source: Arc::new(Library(files)) };
    Ok((runtimes, Some(packages)))
}

impl SharedPackages {
    /// Returns the packages as a mount source.
    pub(crate) fn source(&self) -> Arc<dyn MountSource> {
        Arc::clone(&self.source) as _
    }

    /// Returns the bundled packages and the files in `more` as a mount source, for preparing an image.
    pub(crate) fn source_with(&self, more: Vec<(String, Vec<u8>)>) -> Result<Arc<dyn MountSource>, PackageError> {
        let mut files = files(&self.runtimes)?;
        files.extend(more);
        files.sort();
        Ok(Arc::new(Library(files)))
    }

    /// Returns all packages and an image's wheels as one mount source, unpacked when a guest first accesses it. The
    /// image's modules take precedence over packages with the same name.
    pub(crate) fn source_of(&self, image: &Arc<OwnImage>) -> Arc<dyn MountSource> {
        let (shared, image) = (Arc::clone(&self.source), Arc::clone(image));
        Arc::new(Library(ImageFiles { shared, image, unpacked: OnceLock::new() }))
    }

    /// Returns a digest of the bundled files.
    pub(crate) fn digest(&self) -> Digest {
        let wheels = self.runtimes.packages().digest();
        let own = EMBEDDED_PACKAGES.iter().flat_map(|(path, bytes)| [path.as_bytes(), bytes]);
        let fields: Vec<&[u8]> = [wheels.as_bytes().as_slice()].into_iter().chain(own).collect();
        Digest::of_fields(&fields)
    }
}

/// Returns all bundled files, sorted by path.
fn files(runtimes: &Runtimes) -> Result<Vec<(String, Vec<u8>)>, PackageError> {
    let mut files = runtimes.package_files()?;
    files.extend(EMBEDDED_PACKAGES.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())));
    files.sort();
    Ok(files)
}
